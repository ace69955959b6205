package main

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"drydock.dev/drydock/internal/manifest"
)

// flagsOfFields maps fields of a NodeMaintenance to the flag or operand that sets them.
var flagsOfFields = map[string]string{
	"metadata.name":                            "--name",
	"spec.nodeName":                            "NODE",
	"spec.requestorID":                         "--requestor",
	"spec.additionalRequestors":                "--additional-requestor",
	"spec.drainSpec.force":                     "--force",
	"spec.drainSpec.deleteEmptyDir":            "--delete-emptydir-data",
	"spec.drainSpec.timeoutSeconds":            "--drain-timeout",
	"spec.drainSpec.podSelector":               "--pod-selector",
	"spec.drainSpec.podEvictionFilters":        "--pod-eviction-filter",
	"spec.drainSpec.skipWaitForDeleteSeconds":  "--skip-wait-for-delete",
	"spec.maintenanceWindows":                  "--maintenance-window",
	"spec.waitForPodCompletion.podSelector":    "--wait-for-pods-selector",
	"spec.waitForPodCompletion.timeoutSeconds": "--wait-for-pods-timeout",
	"spec.healthTimeoutSeconds":                "--health-timeout",
	"spec.lockTimeoutSeconds":                  "--lock-timeout",
	"spec.lockRelease":                         "--lock-release",
	"spec.onDrainTimeout":                      "--on-drain-timeout",
	"spec.onFailure":                           "--on-failure",
}

// inFlags names the flag instead of the field in each problem of an object that was built from flags. It leaves out a problem of the default
// name, which is made from the node and the requestor: those have the same problem.
func (f maintainFlags) inFlags(err error) error {
	invalid, ok := errors.AsType[manifest.Invalid](err)
	if !ok {
		return err
	}
	named := make(manifest.Invalid, 0, len(invalid))
	for _, problem := range invalid {
		if problem.Field == "metadata.name" && f.name == "" && len(invalid) > 1 {
			continue
		}
		if flag := flagOf(problem.Field); flag != "" {
			problem.Object, problem.Field = "", flag
		}
		named = append(named, problem)
	}
	return named
}

// flagOf returns the flag for a field, or for the list that has it.
func flagOf(field string) string {
	list, _, _ := strings.Cut(field, "[")
	return flagsOfFields[list]
}

// besideFile refuses a flag that sets a field when a file describes the request.
func (f maintainFlags) besideFile() (err error) {
	f.describing.VisitAll(func(flag *pflag.Flag) {
		if f.given(flag.Name) {
			err = usagef("--%s has no effect with -f: set it in the file", flag.Name)
		}
	})
	return err
}

// contradictions refuses flags that configure a step without the flag that turns the step on.
func (f maintainFlags) contradictions() error {
	for _, step := range []struct {
		fields, flag string
		on           bool
	}{
		{"spec.drainSpec.", "--drain", f.drain},
		{"spec.waitForPodCompletion.", "--wait-for-pods", f.awaitCompletion},
	} {
		for _, field := range slices.Sorted(maps.Keys(flagsOfFields)) {
			flag := flagsOfFields[field]
			if !step.on && strings.HasPrefix(field, step.fields) && f.given(strings.TrimPrefix(flag, "--")) {
				return fmt.Errorf("%s: needs %s", flag, step.flag)
			}
		}
	}
	return nil
}
