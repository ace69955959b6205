package main

import (
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	"drydock.dev/drydock/deploy/rbac"
)

// roleSets are the names of the sets of roles that setup can print.
func roleSets() []string {
	files, _ := fs.Glob(rbac.Files, "*.yaml") // the pattern is valid
	for i, file := range files {
		files[i] = strings.TrimSuffix(file, ".yaml")
	}
	return files
}

// printRoles prints sets of roles as one YAML stream for kubectl.
func printRoles(w io.Writer, sets []string) error {
	for _, set := range sets {
		if !slices.Contains(roleSets(), set) {
			return usagef("--print-rbac: there is no set of roles %s: choose from %s", set, joined(roleSets()))
		}
	}
	for i, set := range sets {
		text, err := fs.ReadFile(rbac.Files, set+".yaml")
		if err != nil {
			return err
		}
		if i > 0 {
			fmt.Fprintln(w, "---")
		}
		if _, err := w.Write(text); err != nil {
			return err
		}
	}
	return nil
}
