package windows

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// recurrence is a parsed RFC 5545 recurrence: the starts of a rule and single starts, without exceptions.
type recurrence struct {
	rule    *rule // nil: none
	dates   []point
	excepts []point
}

// point is a date with time of RFC 5545: a local time in the zone of the calendar or, written with Z, a moment.
type point struct {
	time   time.Time
	moment bool
}

// clock returns its local time in the zone.
func (p point) clock(zone *time.Location) time.Time {
	if p.moment {
		return localTime(p.time, zone)
	}
	return p.time
}

// The parts of a recurrence.
const (
	partStart  = "DTSTART"
	partRule   = "RRULE"
	partDates  = "RDATE"
	partExcept = "EXDATE"
)

// parseRecurrence parses the lines of a recurrence in the zone with that name.
func parseRecurrence(text, zone string) (recurrence, error) {
	var r recurrence
	var rules, starts []string
	for line := range strings.Lines(text) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		name, parameters, value := splitLine(line)
		err := checkParameters(name, parameters, zone)
		switch {
		case err != nil:
		case name == partRule:
			rules = append(rules, strings.ToUpper(value))
		case name == partStart:
			starts = append(starts, value)
		case name == partDates:
			r.dates, err = appendPoints(r.dates, value)
		case name == partExcept:
			r.excepts, err = appendPoints(r.excepts, value)
		}
		if err != nil {
			return recurrence{}, fmt.Errorf("%s: %w", name, err)
		}
	}
	if len(rules) > 1 || len(starts) > 1 {
		return recurrence{}, fmt.Errorf("more than one %s or %s: a recurrence has one rule and one start", partRule, partStart)
	}
	if len(rules) == 0 && len(r.dates) == 0 {
		return recurrence{}, fmt.Errorf("has neither %s nor %s: nothing would ever open", partRule, partDates)
	}
	anchor, err := parseStart(starts, zone)
	if err != nil {
		return recurrence{}, fmt.Errorf("%s: %w", partStart, err)
	}
	if len(rules) > 0 {
		if r.rule, err = parseRule(rules[0], anchor); err != nil {
			return recurrence{}, fmt.Errorf("%s: %w", partRule, err)
		}
	} else if anchor != nil {
		r.dates = append(r.dates, point{time: *anchor}) // DTSTART is the first start itself (RFC 5545, 3.8.2.4)
	}
	return r, nil
}

// splitLine splits a line: NAME;PARAMETER=VALUE:value. A line with only the value of a rule needs no name.
func splitLine(line string) (name, parameters, value string) {
	head, value, named := strings.Cut(line, ":")
	if !named {
		return partRule, "", line
	}
	name, parameters, _ = strings.Cut(head, ";")
	return strings.ToUpper(name), parameters, value
}

// checkParameters refuses parameters that would change the meaning of a line: another zone, dates without a time, periods.
func checkParameters(name, parameters, zone string) error {
	switch name {
	case partRule, partStart, partDates, partExcept:
	default:
		return fmt.Errorf("is not one of %s, %s, %s, %s", partStart, partRule, partDates, partExcept)
	}
	if parameters == "" {
		return nil
	}
	for parameter := range strings.SplitSeq(parameters, ";") {
		key, value, _ := strings.Cut(parameter, "=")
		switch key = strings.ToUpper(key); {
		case name == partRule:
			return fmt.Errorf("must have no parameters, and has %q", parameter)
		case key == "TZID" && value != zone:
			return fmt.Errorf("TZID %s contradicts the time zone, %s", value, zone)
		case key == "VALUE" && strings.ToUpper(value) != "DATE-TIME", key != "VALUE" && key != "TZID":
			return fmt.Errorf("parameter %q: must be VALUE=DATE-TIME or TZID=%s", parameter, zone)
		}
	}
	return nil
}

// parseStart returns the start that a rule counts from; nil: none is given.
func parseStart(lines []string, zone string) (*time.Time, error) {
	if len(lines) == 0 {
		return nil, nil
	}
	start, err := parsePoint(lines[0])
	if err != nil {
		return nil, err
	}
	if start.moment && zone != "UTC" {
		return nil, fmt.Errorf("%s is in UTC, but the window uses local time in %s: write the local time, without Z", lines[0], zone)
	}
	return &start.time, nil
}

func appendPoints(points []point, values string) ([]point, error) {
	for value := range strings.SplitSeq(values, ",") {
		p, err := parsePoint(value)
		if err != nil {
			return nil, err
		}
		points = append(points, p)
	}
	return points, nil
}

// Windows are limited to these years. Beyond them, time zones are unknown, and times may not fit their encodings.
const (
	firstYear = 1970
	lastYear  = 9000
)

func checkYear(t time.Time) error {
	if year := t.UTC().Year(); year < firstYear || year > lastYear {
		return fmt.Errorf("the year must be from %d to %d", firstYear, lastYear)
	}
	return nil
}

// parsePoint parses 20261121T220000 or 20261121T220000Z. It refuses a date without a time of day, which is ambiguous.
func parsePoint(text string) (point, error) {
	const layout = "20060102T150405"
	text = strings.ToUpper(strings.TrimSpace(text))
	digits, utc := strings.CutSuffix(text, "Z")
	t, err := time.Parse(layout, digits)
	if err != nil || len(digits) != len(layout) {
		return point{}, fmt.Errorf("%q is not a date with time, e.g. 20261121T220000, or in UTC 20261121T220000Z", text)
	}
	if err := checkYear(t); err != nil {
		return point{}, fmt.Errorf("%q: %w", text, err)
	}
	return point{time: t, moment: utc}, nil
}

var errNeverHappens = errors.New("never happens")
