package policy

import (
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// Settle implements Remediator.
func (s *sequence) Settle(ctx workflow.Context) {
	s.awaitPreparation(ctx)
	s.requestAllPlacements()
	_ = workflow.Await(ctx, func() bool { return s.settled() && s.approving == 0 })
}

// CleanUp implements Remediator. It gives up after HubLimit, so that a refusing hub does not keep the rollout from ending.
func (s *sequence) CleanUp(ctx workflow.Context, succeeded bool) {
	if s.rollout.Status().Status.CurrentBatchStartedAt == nil {
		return // no run has created an object
	}
	retrier := s.rollout.Retrier().Until(workflow.Now(ctx).Add(HubLimit))
	s.stopPlacing(ctx)
	s.awaitPreparation(ctx)
	s.removeAllViews(ctx, retrier)
	left := ""
	if clusters := workflow.DeterministicKeys(s.members); len(clusters) > 0 {
		left = " from " + kit.JoinNames(clusters)
	}
	if succeeded && keepsObjects(s.rollout) {
		if left != "" {
			s.rollout.Note("the objects of the rollout on the hub were kept, but could not be removed" + left + ", where they still take effect")
		}
		if err := s.items.CheckChanged(ctx, retrier); err != nil {
			s.rollout.Note("could not check whether policies were changed during the rollout: " + temporal.ErrorMessage(err))
		}
		return
	}
	if err := s.items.CleanUp(ctx, retrier); err != nil {
		s.rollout.Note("the objects of the rollout on the hub could not be removed" + left + ": " + temporal.ErrorMessage(err))
	}
}

// awaitPreparation waits until no attempt to prepare is in progress. It would create again the objects that cleanup removes.
func (s *sequence) awaitPreparation(ctx workflow.Context) {
	_ = workflow.Await(ctx, func() bool { return !s.preparing })
}
