package main

import (
	"errors"
	"fmt"
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
	"spec.drainSpec.timeoutSeconds":            "--drain-timeout",
	"spec.drainSpec.podSelector":               "--pod-selector",
	"spec.drainSpec.podEvictionFilters":        "--pod-eviction-filter",
	"spec.drainSpec.skipWaitForDeleteSeconds":  "--skip-wait-for-delete",
	"spec.maintenanceWindows":                  "--maintenance-window",
	"spec.waitForPodCompletion.podSelector":    "--wait-for-pods-selector",
	"spec.waitForPodCompletion.timeoutSeconds": "--wait-for-pods-timeout",
	"spec.healthTimeoutSeconds":                "--health-timeout",
	"spec.lockTimeoutSeconds":                  "--lock-timeout",
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

// contradictions refuses options of a step that is turned off.
func (f maintainFlags) contradictions() error {
	for _, dependent := range []struct {
		done  bool
		needs string
		flags []string
	}{
		{f.drain, "--drain", []string{"drain-timeout", "pod-selector", "force", "delete-emptydir-data", "pod-eviction-filter", "skip-wait-for-delete"}},
		{f.awaitCompletion, "--wait-for-pods", []string{"wait-for-pods-selector", "wait-for-pods-timeout"}},
	} {
		for _, flag := range dependent.flags {
			if !dependent.done && f.given(flag) {
				return fmt.Errorf("--%s: needs %s", flag, dependent.needs)
			}
		}
	}
	return nil
}
