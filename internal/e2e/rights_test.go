package e2e

import (
	"flag"
	"fmt"
	"os"

	"drydock.dev/drydock/internal/devstack/fleet"
)

// checkRights compares the rights that the shipped roles grant with those that the audit logs show, after all shared tests have run. A right that is missing in a
// role has failed a test by then, because its request was refused. One that is not used must be removed, or have a test of its own here.
func checkRights(f *fleet.Fleet) error {
	if selectedPart() == partAlone || flag.Lookup("test.run").Value.String() != "" || flag.Lookup("test.skip").Value.String() != "" {
		return nil
	}
	granted, err := fleet.GrantedRights()
	if err != nil {
		return err
	}
	var used []fleet.Right
	for _, cluster := range f.Clusters() {
		events, err := cluster.AuditEvents()
		if err != nil {
			return err
		}
		used = append(used, fleet.UsedRights(events)...)
	}
	problems := fleet.CompareRights(granted, used)
	for _, problem := range problems {
		fmt.Fprintln(os.Stderr, problem)
	}
	if len(problems) > 0 {
		return fmt.Errorf("%d rights of deploy/rbac and their use differ", len(problems))
	}
	return nil
}
