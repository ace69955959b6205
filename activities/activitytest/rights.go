package activitytest

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// checkRights requires that the tests of this package have used the rights that the end-to-end tests leave to them.
func checkRights() error {
	if flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	dir, err := os.Getwd()
	if err != nil {
		return err
	}
	var used []fleet.Right
	for _, cluster := range Stack.Clusters() {
		events, err := cluster.AuditEvents()
		if err != nil {
			return err
		}
		used = append(used, fleet.UsedRights(events)...)
	}
	for _, right := range fleet.UsedByActivities[filepath.Base(dir)] {
		if !slices.ContainsFunc(used, func(u fleet.Right) bool { return u.String() == right }) {
			return fmt.Errorf("no test of %s uses the right %q of deploy/rbac", dir, right)
		}
	}
	return nil
}
