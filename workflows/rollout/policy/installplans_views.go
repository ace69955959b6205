package policy

import (
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	installplansactivities "drydock.dev/drydock/activities/installplans"
	viewsactivities "drydock.dev/drydock/activities/views"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	"drydock.dev/drydock/workflows/sweeper"
)

// startRemoval removes the views and actions of clusters. These are not watched until that has succeeded: an action that its agent has not begun stays in effect.
func (g *watchGroup) startRemoval(ctx workflow.Context, left []string) {
	for _, cluster := range left {
		g.removing[cluster] = true
	}
	g.removals++
	workflow.GoNamed(ctx, "remove views", func(ctx workflow.Context) {
		defer func() { g.removals-- }()
		if g.sequence.removeViews(ctx, g.sequence.rollout.Retrier(), left) != nil && ctx.Err() != nil {
			return
		}
		for _, cluster := range left {
			delete(g.removing, cluster)
		}
	})
}

// removeRest removes the views and actions of all clusters that have some, after ctx is done.
func (g *watchGroup) removeRest(ctx workflow.Context) {
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(ctx, func() bool { return g.removals == 0 }) // they were cancelled
	for _, cluster := range workflow.DeterministicKeys(g.plans) {
		g.removing[cluster] = true
	}
	if left := workflow.DeterministicKeys(g.removing); len(left) > 0 {
		_ = g.sequence.removeViews(ctx, g.sequence.rollout.Retrier().Until(workflow.Now(ctx).Add(HubLimit)), left)
	}
}

// awakenSweeper returns when the sweeper of the hub runs.
func (s *sequence) awakenSweeper(ctx workflow.Context) error {
	if s.sweeperAwake == nil {
		s.sweeperAwake = sweeper.KeepAwake(s.ctx, s.rollout.Retrier().Report, "", "views and actions of rollout "+s.rollout.Request().Namespace+"/"+s.rollout.Request().Name)
	}
	return workflow.Await(ctx, s.sweeperAwake.IsReady)
}

// planRollout is the rollout in the inputs of activities.
func (s *sequence) planRollout(ctx workflow.Context) installplansactivities.Rollout {
	object := s.rollout.Request()
	return installplansactivities.Rollout{Namespace: object.Namespace, Name: object.Name, Owner: kit.Owner(ctx)}
}

// removeViews removes the views and actions of clusters; none: of all.
func (s *sequence) removeViews(ctx workflow.Context, retrier kit.Retrier, clusters []string) error {
	var activities *viewsactivities.Activities
	in := viewsactivities.RemoveViewsInput{Owner: kit.Owner(ctx), Clusters: clusters}
	summary := "remove views and actions"
	if len(clusters) > 0 {
		summary = fmt.Sprintf("remove the views and actions of %d clusters", len(clusters))
	}
	err := retrier.Run(ctx, summary, activities.RemoveViews, in, nil)
	if err != nil && ctx.Err() == nil {
		note := "ManagedClusterViews and ManagedClusterActions of the rollout could not be removed: " + temporal.ErrorMessage(err)
		if !slices.Contains(s.rollout.Status().Notes, note) {
			s.rollout.Note(note)
		}
	}
	return err
}

// removeAllViews removes the views and actions of the rollout, after all approvals have ended.
func (s *sequence) removeAllViews(ctx workflow.Context, retrier kit.Retrier) {
	if s.prepared == nil || s.prepared.Subscriptions == nil {
		return
	}
	_ = workflow.Await(ctx, func() bool { return s.approving == 0 })
	_ = s.removeViews(ctx, retrier, nil)
}
