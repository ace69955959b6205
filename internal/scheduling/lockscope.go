package scheduling

import (
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// LockScope returns the scope of a maintenance for workload locks: os, unless the action declares that it does not restart the node.
func LockScope(action *maintenancev1.Action) lcmv1.Scope {
	if action != nil && action.RebootsNode != nil && !*action.RebootsNode {
		return lcmv1.ScopeDrain
	}
	return lcmv1.ScopeOS
}
