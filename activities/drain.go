package activities

import (
	"context"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Drains empties nodes.
type Drains struct{}

// DrainInput says which pods leave which node, until when.
type DrainInput struct {
	NodeRef
	Spec maintenancev1.DrainSpec `json:"spec"`
	// Deadline is when the drain times out; nil: never.
	Deadline *time.Time `json:"deadline,omitempty"`
	Attempt  int32      `json:"attempt"`
}

// Drain evicts the pods that must leave and waits until they are gone. It reports its progress as observations.
// Errors: DrainTimedOut, PodsNotEvictable (both with blockers), NodeGone, InvalidSpec.
func (d *Drains) Drain(ctx context.Context, in DrainInput) (maintenancev1.DrainStatus, error) {
	return maintenancev1.DrainStatus{}, errNotBuilt
}

// AwaitPodCompletionInput says which pods may end by themselves, until when.
type AwaitPodCompletionInput struct {
	NodeRef
	Spec     maintenancev1.WaitForPodCompletionSpec `json:"spec"`
	Deadline *time.Time                             `json:"deadline,omitempty"`
}

// AwaitPodCompletionResult says which pods were left when time ran out.
type AwaitPodCompletionResult struct {
	// Remaining pods, as namespace/name.
	Remaining []string `json:"remaining,omitempty"`
}

// AwaitPodCompletion waits until the selected pods have succeeded, failed or gone, or until the deadline.
// Errors: NodeGone, InvalidSpec.
func (d *Drains) AwaitPodCompletion(ctx context.Context, in AwaitPodCompletionInput) (AwaitPodCompletionResult, error) {
	return AwaitPodCompletionResult{}, errNotBuilt
}
