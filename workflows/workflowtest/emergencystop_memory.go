package workflowtest

import (
	"drydock.dev/drydock/internal/temporal"
)

// WasTerminated plays that an emergency stop which held c1 was terminated, with two followers.
func (w *toldWorld) WasTerminated() {
	w.Recalled = HeldState(7, "cluster/c1")
	w.Followers = []temporal.Subscription{{WorkflowID: "cgu/ops/june"}, {WorkflowID: "node/c2/ops/n1", Cluster: "c2"}}
}
