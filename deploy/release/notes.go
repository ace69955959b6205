package main

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// relativeLink matches the beginning of a link to another page.
var relativeLink = regexp.MustCompile(`\]\(([^)#:]+\.md|\.\./[^)#:]+)`)

// notes returns the section of the changelog about the release.
func (r release) notes() ([]byte, error) {
	content, err := os.ReadFile(r.changelog)
	if err != nil {
		return nil, err
	}
	var section []string
	within := false
	for line := range strings.Lines(string(content)) {
		if strings.HasPrefix(line, "## ") {
			within = strings.HasPrefix(line, "## ["+r.number+"]")
			continue
		}
		if within {
			section = append(section, line)
		}
	}
	text := strings.TrimSpace(strings.Join(section, ""))
	if text == "" {
		return nil, fmt.Errorf("%s has no section [%s]: move what is in [Unreleased] there", r.changelog, r.number)
	}
	if r.docs != "" {
		text = relativeLink.ReplaceAllString(text, "]("+strings.TrimSuffix(r.docs, "/")+"/$1")
	}
	return []byte(text + "\n"), nil
}
