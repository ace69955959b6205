package rollout

import (
	"time"

	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/rollouts"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// lookUpTimeout limits one request to an update graph, and lookUpsTimeout the activity with all its requests: the rollout is planned again then.
	lookUpTimeout  = 30 * time.Second
	lookUpsTimeout = 24 * time.Hour
	// firstLookUp and lastLookUp are the shortest and the longest pause before a release is looked up again.
	firstLookUp = 5 * time.Second
	lastLookUp  = 5 * time.Minute
)

// planInput is the rollout with the release that was looked up for it.
func (g *groupUpgrade) planInput() rollouts.PlanInput {
	return rollouts.PlanInput{Object: g.in.Object, Release: g.release}
}

// makePlan plans the rollout in an activity next to the hub. If the plan needs a release from an update graph, the rollout looks it up and keeps it: after that it
// does not depend on the server of the graph.
func (g *groupUpgrade) makePlan(ctx workflow.Context) (rollouts.Plan, error) {
	for {
		var plan rollouts.Plan
		retrier := g.retrier()
		if err := retrier.Run(ctx, "plan the rollout", g.hub.PlanRollout, g.planInput(), &plan); err != nil {
			return plan, err
		}
		switch {
		case plan.Release == nil && g.release != nil && g.release.Problem != "":
			g.release = nil // no longer needed: it is not looked up again
			return plan, nil
		case plan.Release == nil || plan.Release.Done():
			return plan, nil
		}
		g.lookUps.begin(workflow.Now(ctx), 0)
		found, err := lookUpRelease(ctx, g.hub, *plan.Release)
		if err != nil {
			return plan, err
		}
		g.release = &found
	}
}

// lookUps spaces the lookups of one release. During an outage the problem may be another each time, and the hub may change the plan meanwhile.
type lookUps struct {
	number int
	// next is when the release may be looked up again.
	next time.Time
}

func (l *lookUps) begin(now time.Time, number int) {
	l.number, l.next = number, now.Add(min(firstLookUp<<min(number, 10), lastLookUp))
}

// lookUpAgain looks up a release after a problem, not too soon after the last time.
func (g *groupUpgrade) lookUpAgain(ctx workflow.Context, last precache.LookedUp) (precache.LookedUp, error) {
	now := workflow.Now(ctx)
	if now.Before(g.lookUps.next) {
		pause := workflow.NewTimerWithOptions(ctx, g.lookUps.next.Sub(now), workflow.TimerOptions{Summary: "before the release is looked up again"})
		if err := pause.Get(ctx, nil); err != nil {
			return precache.LookedUp{}, err
		}
	}
	g.lookUps.begin(workflow.Now(ctx), g.lookUps.number+1)
	return lookUpRelease(ctx, g.hub, last)
}

// lookUpRelease looks up a release. After a problem, it returns when the result is another one.
func lookUpRelease(ctx workflow.Context, hub *rollouts.Activities, last precache.LookedUp) (found precache.LookedUp, err error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: temporal.TaskQueue, StartToCloseTimeout: lookUpTimeout, ScheduleToCloseTimeout: lookUpsTimeout, Summary: "look up release " + last.Version + " in the update graph",
		RetryPolicy: &sdktemporal.RetryPolicy{InitialInterval: firstLookUp, BackoffCoefficient: 2, MaximumInterval: lastLookUp},
	})
	err = workflow.ExecuteActivity(ctx, hub.LookUpRelease, last).Get(ctx, &found)
	return found, err
}
