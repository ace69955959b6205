package edits

import (
	"fmt"
	"slices"
	"strings"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// fixedMaintenance are the fields that no edit of a running maintenance may change.
var fixedMaintenance = []string{"spec.cordon", "spec.lockRelease", "spec.maintenanceWindows", "spec.nodeName", "spec.requestorID"}

// WorkBegun reports whether the work of a maintenance in that state has begun.
func WorkBegun(state maintenancev1.NodeState) bool {
	return slices.Contains([]maintenancev1.NodeState{
		maintenancev1.NodeReady, maintenancev1.NodeRequestorFailed, maintenancev1.NodeHealthChecks, maintenancev1.NodeCleaningUp,
	}, state)
}

// CheckMaintenance returns the paths of the fields that an edit of a running maintenance in that state changes. It refuses fields that cannot change, and
// those of steps that have ended: they would have no effect.
func CheckMaintenance(before, after maintenancev1.NodeMaintenanceSpec, state maintenancev1.NodeState) ([]string, error) {
	changed := ChangedFields(before, after, "spec.")
	working := WorkBegun(state)
	draining := working || state == maintenancev1.NodeDraining
	rules := []struct {
		fields []string
		why    string
		holds  bool
	}{
		{fixedMaintenance, "cannot be changed while the maintenance runs: cancel it and start another one", true},
		{[]string{"spec.waitForPodCompletion"}, "cannot be changed now: the wait for pods has ended", draining},
		{[]string{"spec.drainSpec", "spec.onDrainTimeout"}, "cannot be changed now: the drain has ended", working},
		{[]string{"spec.action"}, "cannot be changed now: the work has begun", working},
	}
	for _, rule := range rules {
		if refused := common(changed, rule.fields); rule.holds && len(refused) > 0 {
			return nil, fmt.Errorf("%s: %s", strings.Join(refused, ", "), rule.why)
		}
	}
	return changed, nil
}

// MaintenanceEffects says what an edit means for a running maintenance in that state. changed are the paths of the changed fields.
func MaintenanceEffects(before, after maintenancev1.NodeMaintenanceSpec, changed []string, state maintenancev1.NodeState) []string {
	var effects []string
	if len(without(changed, []string{"spec.additionalRequestors", "spec.notify"})) > 0 {
		switch state {
		case maintenancev1.NodeDraining:
			effects = append(effects, "the drain begins again")
		case maintenancev1.NodeWaitForPodCompletion:
			effects = append(effects, "the wait for pods begins again")
		}
	}
	for _, id := range without(after.AdditionalRequestors, before.AdditionalRequestors) {
		effects = append(effects, "requestor "+id+" joins")
	}
	for _, id := range without(before.AdditionalRequestors, after.AdditionalRequestors) {
		effects = append(effects, "requestor "+id+" no longer needs the node")
	}
	return effects
}

// CheckLockPolicy returns the paths of the fields that an edit of the policy of a lock controller changes.
func CheckLockPolicy(before, after drydockv1.WorkloadLockPolicySpec) ([]string, error) {
	if before.ControllerName != after.ControllerName {
		return nil, fmt.Errorf("spec.controllerName: cannot be changed: this is the lock controller of %s", before.ControllerName)
	}
	return ChangedFields(before, after, "spec."), nil
}

func common(some, others []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(field string) bool { return !slices.Contains(others, field) })
}

func without(some, others []string) []string {
	return slices.DeleteFunc(slices.Clone(some), func(one string) bool { return slices.Contains(others, one) })
}
