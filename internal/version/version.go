// Package version describes the program that is running.
package version

import (
	"cmp"
	"fmt"
	"runtime"
	"runtime/debug"
	"strings"
	"time"
)

// Build describes a program.
type Build struct {
	Version string `json:"version"`
	// Commit and Date are those of the source, if it was built from a repository; Modified means that it had other changes, too.
	Commit   string `json:"commit,omitempty"`
	Date     string `json:"date,omitempty"`
	Modified bool   `json:"modified,omitempty"`
	Go       string `json:"go"`
}

// Running describes this program; linked is the version that the Makefile sets.
func Running(linked string) Build {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		info = &debug.BuildInfo{}
	}
	return buildOf(info, linked)
}

// buildOf describes a program from what Go's linker recorded.
func buildOf(info *debug.BuildInfo, linked string) Build {
	b := Build{Version: cmp.Or(linked, info.Main.Version, "unknown"), Go: runtime.Version()}
	for _, setting := range info.Settings {
		switch setting.Key {
		case "vcs.revision":
			b.Commit = setting.Value
		case "vcs.time":
			b.Date = setting.Value
		case "vcs.modified":
			b.Modified = setting.Value == "true"
		}
	}
	return b
}

// String is e.g. "v1.2.0 (commit 1234567, 2026-11-20T12:00:00Z, go1.26.0)".
func (b Build) String() string {
	var parts []string
	if b.Commit != "" {
		commit := "commit " + b.Commit[:min(len(b.Commit), 12)]
		if b.Modified {
			commit += " with changes"
		}
		parts = append(parts, commit)
	}
	if b.Date != "" {
		parts = append(parts, b.Date)
	}
	return fmt.Sprintf("%s (%s)", b.Version, strings.Join(append(parts, b.Go), ", "))
}

// SourceDate is the date of the source; 1970 if it is not known.
func (b Build) SourceDate() time.Time {
	at, err := time.Parse(time.RFC3339, b.Date)
	if err != nil {
		return time.Unix(0, 0).UTC()
	}
	return at
}
