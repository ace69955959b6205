package scheduling

import (
	"fmt"
	"reflect"
	"slices"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Coverage says whether a maintenance that has a node does for another one whatever that asks for, so that both can share the node: it is
// cordoned and drained once, and returned when the last is done.
type Coverage struct {
	Covered bool
	// Reason why it is not covered, for people.
	Reason string
}

// Covers decides whether the maintenance that holds a node, and stands at that state, covers what another one demands of the same node. It may
// do more than is demanded, and not less.
func Covers(holder maintenancev1.NodeMaintenanceSpec, state maintenancev1.NodeState, other maintenancev1.NodeMaintenanceSpec) Coverage {
	for _, lacks := range []func() string{
		func() string { return lacksNode(holder, other) },
		func() string { return lacksTime(state) },
		func() string { return lacksHands(holder, other) },
		func() string { return lacksCordon(holder, other) },
		func() string { return lacksKeeping(holder, other) },
		func() string { return lacksCompletion(holder, other) },
		func() string { return lacksDrain(holder.DrainSpec, other.DrainSpec) },
		func() string { return lacksChecks(holder, other) },
	} {
		if reason := lacks(); reason != "" {
			return Coverage{Reason: reason}
		}
	}
	return Coverage{Covered: true}
}

func lacksNode(holder, other maintenancev1.NodeMaintenanceSpec) string {
	if holder.NodeName != other.NodeName {
		return fmt.Sprintf("it is of node %s, not of %s", holder.NodeName, other.NodeName)
	}
	return ""
}

// lacksTime: a node that is on its way back is not stopped there.
func lacksTime(state maintenancev1.NodeState) string {
	switch state {
	case maintenancev1.NodeHealthChecks, maintenancev1.NodeCleaningUp:
		return "it is returning the node"
	}
	if state.Over() {
		return "it is over"
	}
	return ""
}

// lacksHands: a Job has the node for itself, whoever's it is.
func lacksHands(holder, other maintenancev1.NodeMaintenanceSpec) string {
	switch {
	case hasJob(holder):
		return "a Job does its work, which has the node for itself"
	case hasJob(other):
		return "a Job is to do the work, which needs the node for itself"
	case LockScope(holder.Action) != LockScope(other.Action) && LockScope(holder.Action) != lcmv1.ScopeOS:
		return "its workload locks were not asked to let the node restart (action.rebootsNode)"
	}
	return ""
}

func hasJob(spec maintenancev1.NodeMaintenanceSpec) bool {
	return spec.Action != nil && spec.Action.Type == maintenancev1.ActionJob
}

// LockScope is what the workload locks of a node are asked for: os, unless the work is known not to restart the node.
func LockScope(action *maintenancev1.Action) lcmv1.Scope {
	if action != nil && action.RebootsNode != nil && !*action.RebootsNode {
		return lcmv1.ScopeDrain
	}
	return lcmv1.ScopeOS
}

func lacksCordon(holder, other maintenancev1.NodeMaintenanceSpec) string {
	cordons := func(spec maintenancev1.NodeMaintenanceSpec) bool { return spec.Cordon == nil || *spec.Cordon }
	if cordons(other) && !cordons(holder) {
		return "it does not cordon the node"
	}
	return ""
}

// lacksKeeping: the holder returns the node when it fails, or is terminated, whatever the other's work on it has come to.
func lacksKeeping(holder, other maintenancev1.NodeMaintenanceSpec) string {
	if other.OnFailure == maintenancev1.FailureKeepCordoned && holder.OnFailure != maintenancev1.FailureKeepCordoned {
		return "it does not keep the node cordoned when it fails (onFailure)"
	}
	return ""
}

// lacksCompletion compares which pods have ended by themselves. Those that the drain does not wait for are not waited for before it either.
func lacksCompletion(holder, other maintenancev1.NodeMaintenanceSpec) string {
	own, demanded := holder.WaitForPodCompletion, other.WaitForPodCompletion
	switch {
	case demanded == nil:
	case own == nil:
		return "it does not wait for pods to end by themselves (waitForPodCompletion)"
	case own.PodSelector != demanded.PodSelector: // none picks all but pods of DaemonSets and static ones, which a selector may pick
		return "it waits for other pods to end by themselves (waitForPodCompletion.podSelector)"
	case own.TimeoutSeconds != 0 && (demanded.TimeoutSeconds == 0 || demanded.TimeoutSeconds > own.TimeoutSeconds):
		return "it waits less long for pods to end by themselves (waitForPodCompletion.timeoutSeconds)"
	case !waitsFor(skipsAfter(holder), skipsAfter(other)):
		return "it waits less long for pods that are terminating (drainSpec.skipWaitForDeleteSeconds)"
	}
	return ""
}

// lacksDrain compares what the drains leave on the node. How long they may take does not matter to that.
func lacksDrain(holder, other *maintenancev1.DrainSpec) string {
	switch {
	case other == nil:
	case holder == nil:
		return "it does not drain the node"
	case holder.PodSelector != "" && holder.PodSelector != other.PodSelector:
		return "it evicts other pods (drainSpec.podSelector)"
	case !filtersReach(holder.PodEvictionFilters, other.PodEvictionFilters):
		return "it evicts other pods (drainSpec.podEvictionFilters)"
	case other.Force && !holder.Force:
		return "it evicts no pods without a controller (drainSpec.force)"
	case other.DeleteEmptyDir && !holder.DeleteEmptyDir:
		return "it evicts no pods with emptyDir volumes (drainSpec.deleteEmptyDir)"
	case !waitsFor(holder.SkipWaitForDeleteSeconds, other.SkipWaitForDeleteSeconds):
		return "it waits less long for pods that are terminating (drainSpec.skipWaitForDeleteSeconds)"
	case len(other.PodOrder) > 0 && !slices.Equal(holder.PodOrder, other.PodOrder):
		return "its pods leave in another order (drainSpec.podOrder)"
	}
	return ""
}

// filtersReach reports whether the holder's filters, of which one is enough, pick all that the other's do. None pick everything.
func filtersReach(holder, other []maintenancev1.PodEvictionFilter) bool {
	if len(holder) == 0 {
		return true
	}
	for _, filter := range other {
		if !slices.ContainsFunc(holder, func(f maintenancev1.PodEvictionFilter) bool {
			return expression(f) == expression(filter)
		}) {
			return false
		}
	}
	return len(other) > 0
}

func expression(filter maintenancev1.PodEvictionFilter) string {
	if filter.ByResourceNameRegex == nil {
		return ""
	}
	return *filter.ByResourceNameRegex
}

// skipsAfter is how long a maintenance waits for terminating pods; nil is until they are gone.
func skipsAfter(spec maintenancev1.NodeMaintenanceSpec) *int32 {
	if spec.DrainSpec == nil {
		return nil
	}
	return spec.DrainSpec.SkipWaitForDeleteSeconds
}

// waitsFor reports whether the holder waits for terminating pods at least as long as the other; nil is until they are gone.
func waitsFor(holder, other *int32) bool {
	return holder == nil || other != nil && *other <= *holder
}

// lacksChecks: the checks are done once, by the holder, before the node is returned.
func lacksChecks(holder, other maintenancev1.NodeMaintenanceSpec) string {
	for _, check := range other.HealthChecks {
		known := false
		for _, own := range holder.HealthChecks {
			//workflowcheck:ignore to compare values has no order that shows
			known = known || reflect.DeepEqual(own, check)
		}
		if !known {
			return "it does not check " + check.Name + " before the node is returned (healthChecks)"
		}
	}
	return ""
}
