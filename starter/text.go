package main

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// say prints text for people on a line.
func (c *cli) say(format string, args ...any) error {
	_, err := fmt.Fprintln(c.Out, c.shown(fmt.Sprintf(format, args...)))
	return err
}

// warn prints text for people on a line beside the output.
func (c *cli) warn(format string, args ...any) {
	fmt.Fprintln(c.ErrOut, c.shown(fmt.Sprintf(format, args...)))
}

// shown is a text as people see it: visible, with the name of the program and the time zone that they use.
func (c *cli) shown(text string) string {
	return c.called(localTimes(visible(text), c.now().Location()))
}

// instant matches a time in UTC, as workflows write it into a text.
var instant = regexp.MustCompile(`\b\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\dZ`)

// localTimes shows the times in a text as stamp does; a nil zone changes nothing.
func localTimes(text string, zone *time.Location) string {
	if zone == nil {
		return text
	}
	return instant.ReplaceAllStringFunc(text, func(written string) string {
		at, err := time.Parse(time.RFC3339, strings.Replace(written, " ", "T", 1))
		if err != nil {
			return written // such as a month 13
		}
		return at.In(zone).Format(time.RFC3339)
	})
}
