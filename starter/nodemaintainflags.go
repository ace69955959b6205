package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"

	"drydock.dev/drydock/internal/manifest"
)

// flagsOfFields are the flags, or the operand, by which the fields of a NodeMaintenance are given on the command line.
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

// inFlags says of what is wrong with an object by which flag it was given: whoever gave flags has seen no field. A name that was not given is made of the
// node's and the requestor's, and wrong only where one of these is, which is told.
func (f maintainFlags) inFlags(err error) error {
	invalid, ok := errors.AsType[manifest.Invalid](err)
	if !ok {
		return err
	}
	told := make(manifest.Invalid, 0, len(invalid))
	for _, problem := range invalid {
		if problem.Field == "metadata.name" && f.name == "" && len(invalid) > 1 {
			continue
		}
		if flag := flagOf(problem.Field); flag != "" {
			problem.Object, problem.Field = "", flag
		}
		told = append(told, problem)
	}
	return told
}

// flagOf returns the flag for a field, or for the list or object that it is part of.
func flagOf(field string) string {
	list, _, _ := strings.Cut(field, "[")
	return flagsOfFields[list]
}

// besideFile refuses a flag that describes a request beside a file that does: whoever gives one relies on it.
func (f maintainFlags) besideFile() (err error) {
	f.describing.VisitAll(func(flag *pflag.Flag) {
		if f.given(flag.Name) {
			err = usagef("--%s does not count beside -f: write it into the file", flag.Name)
		}
	})
	return err
}

// contradictions are flags that say how to do what is not done.
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
