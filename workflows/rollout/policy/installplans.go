package policy

import (
	"fmt"
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	installplansactivities "drydock.dev/drydock/activities/installplans"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
	"drydock.dev/drydock/workflows/kit"
)

// A watch group approves the InstallPlans of its clusters while a policy that requires Subscriptions is enforced on them. One activity watches the Subscriptions and
// reports changes in bulk, and another approves what the first one found. Views and actions exist only for clusters that are watched: an action that its agent has
// not begun must not take effect while the cluster is held, or after it has ended.

// clusterPlans is the state of the Subscriptions of a cluster.
type clusterPlans struct {
	// policy is the index of the policy that requires them, and earlier are those of the policies before it that are bound to the cluster.
	policy  int
	earlier []int
	// digest is that of the last observation.
	digest string
	// approvals are still to be made, not before retryAt. pause is the last pause after a failure.
	approvals []installplans.Approval
	retryAt   time.Time
	pause     time.Duration
}

// digestUnknown is the digest of no state: the next observation replaces the message.
const digestUnknown = "unknown"

// plansGather is the minimum time for which changes are gathered: an approval passes through several states within a second.
const plansGather = time.Second

// approveInstallPlans approves InstallPlans until ctx is done.
func (g *watchGroup) approveInstallPlans(ctx workflow.Context) {
	defer func() { g.sequence.approving-- }()
	g.plans, g.removing = map[string]*clusterPlans{}, map[string]bool{}
	if g.sequence.awakenSweeper(ctx) != nil {
		return
	}
	for reports := 0; ctx.Err() == nil; reports++ {
		g.unwatchPlans(ctx)
		if workflow.Await(ctx, func() bool { return g.plansChanged() || len(g.plans) > 0 }) != nil {
			break
		}
		g.watchMore(ctx)
		g.approveDue(ctx)
		g.watchPlans(ctx, reports)
	}
	g.removeRest(ctx)
}

// watchMore adds the clusters that are not watched yet.
func (g *watchGroup) watchMore(ctx workflow.Context) {
	begun := map[string]string{}
	for _, m := range g.requiringPlans() {
		if g.plans[m.Cluster] == nil {
			g.plans[m.Cluster], begun[m.Cluster] = &clusterPlans{policy: m.progress.Policy, earlier: m.earlierPolicies()}, ""
		}
	}
	g.showPlans(ctx, begun)
}

// earlierPolicies are the indexes of the policies before the current one that are bound to the cluster.
func (m *member) earlierPolicies() []int {
	var earlier []int
	for policy, bound := range m.progress.Bound[:m.progress.Policy] {
		if bound {
			earlier = append(earlier, policy)
		}
	}
	return earlier
}

// requiringPlans are the clusters on which a policy that requires Subscriptions is enforced, and may start to change them.
func (g *watchGroup) requiringPlans() []*member {
	return slices.DeleteFunc(g.running(), func(m *member) bool {
		return m.state != memberActive || m.placement != isPlaced || m.step.State != ranv1.ClusterRunning || m.waiting() ||
			len(g.sequence.prepared.Subscriptions[m.progress.Policy]) == 0 || !g.sequence.mayStart(m.Cluster) || g.removing[m.Cluster]
	})
}

// plansChanged reports whether other clusters must be watched than those that are.
func (g *watchGroup) plansChanged() bool {
	same := len(g.watchable())
	return same != len(g.plans) || same != len(g.requiringPlans())
}

// watchable are those watched clusters that may stay watched, sorted: the policy that requires their Subscriptions is still enforced.
func (g *watchGroup) watchable() []string {
	var clusters []string
	for _, m := range g.requiringPlans() {
		if known := g.plans[m.Cluster]; known != nil && known.policy == m.progress.Policy {
			clusters = append(clusters, m.Cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}

// unwatchPlans removes the views and actions of clusters that are no longer to be watched.
func (g *watchGroup) unwatchPlans(ctx workflow.Context) {
	watchable := g.watchable()
	left := slices.DeleteFunc(workflow.DeterministicKeys(g.plans), func(cluster string) bool {
		_, same := slices.BinarySearch(watchable, cluster)
		return same
	})
	if len(left) == 0 {
		return
	}
	for _, cluster := range left {
		delete(g.plans, cluster)
	}
	g.explainUnwatched(ctx, left)
	g.startRemoval(ctx, left)
}

// explainUnwatched says on running clusters why their InstallPlans are not approved.
func (g *watchGroup) explainUnwatched(ctx workflow.Context, clusters []string) {
	var progressed []ranv1.ClusterStatus
	for _, m := range g.running() {
		if !slices.Contains(clusters, m.Cluster) {
			continue
		}
		m.installPlans = ""
		switch hold := g.sequence.rollout.Hold(m.Cluster); {
		case m.step.State != ranv1.ClusterRunning || m.placement != isPlaced:
		case hold != nil:
			m.installPlans = "no InstallPlan is approved: " + emergency.Message(*hold)
		case g.sequence.rollout.Status().Paused:
			m.installPlans = "no InstallPlan is approved while the rollout is paused"
		}
		progressed = append(progressed, g.sequence.status(m))
	}
	if len(progressed) > 0 {
		g.sequence.rollout.ClustersProgressed(ctx, progressed)
	}
}

// watchPlans watches Subscriptions until there is a change, other clusters must be watched, or an approval is due.
func (g *watchGroup) watchPlans(ctx workflow.Context, reports int) {
	if len(g.plans) == 0 || ctx.Err() != nil || g.plansChanged() {
		return
	}
	timing, stop := workflow.WithCancel(ctx)
	due := func() bool { return false }
	if until := g.firstRetry(); until != nil {
		timer := workflow.NewTimerWithOptions(timing, until.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "approve InstallPlans again"})
		due = timer.IsReady
	}
	var changes []installplans.Cluster
	err := runUntil(ctx, func() bool { return due() || g.plansChanged() }, func(ctx workflow.Context) (err error) {
		changes, err = g.awaitInstallPlans(ctx, reports)
		return err
	})
	stop()
	switch {
	case ctx.Err() != nil:
	case err != nil:
		g.postpone(ctx, "its Subscriptions are not watched: "+temporal.ErrorMessage(err))
		options := workflow.AwaitOptions{Timeout: MaxRetryPause, TimerOptions: workflow.TimerOptions{Summary: "before InstallPlans are watched again"}}
		_, _ = workflow.AwaitWithOptions(ctx, options, g.plansChanged) // it cancels its timer
	default:
		g.recordPlans(ctx, changes)
	}
}

// runUntil runs an activity, and cancels it when stop reports true. It waits for the end of the activity, which may still have effects. The error is that of an
// activity that was not cancelled.
func runUntil(ctx workflow.Context, stop func() bool, run func(workflow.Context) error) error {
	running, cancel := workflow.WithCancel(ctx)
	var err error
	over := false
	workflow.Go(running, func(ctx workflow.Context) {
		err = run(ctx)
		over = true
	})
	_ = workflow.Await(ctx, func() bool { return over || stop() })
	stopped := !over
	cancel()
	ended, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(ended, func() bool { return over })
	if stopped {
		return nil
	}
	return err
}

func (g *watchGroup) awaitInstallPlans(ctx workflow.Context, reports int) ([]installplans.Cluster, error) {
	s := g.sequence
	in := installplansactivities.AwaitInstallPlansInput{Rollout: s.planRollout(ctx), Subscriptions: s.prepared.Subscriptions}
	most := 0
	for _, cluster := range workflow.DeterministicKeys(g.plans) {
		plans := g.plans[cluster]
		in.Clusters = append(in.Clusters, installplansactivities.KnownCluster{Cluster: cluster, Policy: plans.policy, Earlier: plans.earlier, Digest: plans.digest})
		most = max(most, len(s.prepared.Subscriptions[plans.policy]))
	}
	in.Interval = views.Interval(2 * most * int(s.rollout.Status().ComputedMaxConcurrency))
	in.Gather = max(plansGather, policies.GatherPeriod(len(in.Clusters), reports, kit.HistoryUsed(ctx)))
	var changes []installplans.Cluster
	var activities *installplansactivities.Activities
	err := s.rollout.Retrier().Watch(ctx, fmt.Sprintf("watch the Subscriptions of %d clusters", len(in.Clusters)), activities.AwaitInstallPlans, in, &changes)
	return changes, err
}

// recordPlans records the observed state of Subscriptions. Approvals that have failed keep their pause.
func (g *watchGroup) recordPlans(ctx workflow.Context, changes []installplans.Cluster) {
	messages := map[string]string{}
	for _, seen := range changes {
		plans := g.plans[seen.Cluster]
		if plans == nil {
			continue
		}
		plans.digest = seen.Digest
		if len(seen.Approvals) > 0 && plans.retryAt.After(workflow.Now(ctx)) && slices.Equal(plans.approvals, seen.Approvals) {
			continue
		}
		plans.approvals, plans.retryAt = seen.Approvals, time.Time{}
		if slices.ContainsFunc(seen.Approvals, func(a installplans.Approval) bool { return a.Failed }) {
			plans.postpone(workflow.Now(ctx))
		}
		messages[seen.Cluster] = seen.Message
	}
	g.showPlans(ctx, messages)
}

// postpone sets the time of the next approval after a failure.
func (p *clusterPlans) postpone(now time.Time) {
	p.pause = min(max(2*p.pause, MinRetryPause), MaxRetryPause)
	p.retryAt = now.Add(p.pause)
}

// showPlans shows what the Subscriptions of clusters wait for.
func (g *watchGroup) showPlans(ctx workflow.Context, messages map[string]string) {
	var progressed []ranv1.ClusterStatus
	for _, m := range g.running() {
		message, has := messages[m.Cluster]
		if !has || m.installPlans == message || g.plans[m.Cluster] == nil || g.plans[m.Cluster].policy != m.progress.Policy {
			continue
		}
		m.installPlans = message
		progressed = append(progressed, g.sequence.status(m))
	}
	if len(progressed) > 0 {
		g.sequence.rollout.ClustersProgressed(ctx, progressed)
	}
}

// firstRetry is the time of the first approval that is still to be made; nil: there is none.
func (g *watchGroup) firstRetry() (first *time.Time) {
	for _, cluster := range workflow.DeterministicKeys(g.plans) {
		plans := g.plans[cluster]
		if len(plans.approvals) > 0 && (first == nil || plans.retryAt.Before(*first)) {
			first = &plans.retryAt
		}
	}
	return first
}

// approveDue approves the InstallPlans that are due. What fails is retried after a growing pause.
func (g *watchGroup) approveDue(ctx workflow.Context) {
	for due := g.dueApprovals(ctx); len(due) > 0 && ctx.Err() == nil; due = g.dueApprovals(ctx) {
		g.approve(ctx, due[:min(len(due), installplansactivities.MaxApprovals)])
	}
}

// dueApprovals are the approvals that are due, sorted.
func (g *watchGroup) dueApprovals(ctx workflow.Context) []installplans.Approval {
	var due []installplans.Approval
	for _, cluster := range g.watchable() {
		if plans := g.plans[cluster]; !plans.retryAt.After(workflow.Now(ctx)) {
			due = append(due, plans.approvals...)
		}
	}
	return due
}

// approve approves InstallPlans, unless the policy of one of their clusters is no longer enforced by then.
func (g *watchGroup) approve(ctx workflow.Context, due []installplans.Approval) {
	var clusters []string
	for _, one := range due {
		clusters = append(clusters, one.Cluster)
	}
	clusters = slices.Compact(clusters)
	in := installplansactivities.ApproveInstallPlansInput{Rollout: g.sequence.planRollout(ctx), Approvals: due, Closes: g.sequence.rollout.FirstClose(clusters)}
	var failed []installplansactivities.FailedApproval
	approved := false
	unwatched := func() bool {
		watchable := g.watchable()
		return slices.ContainsFunc(clusters, func(cluster string) bool { return !slices.Contains(watchable, cluster) })
	}
	err := runUntil(ctx, unwatched, func(ctx workflow.Context) error {
		var activities *installplansactivities.Activities
		err := g.sequence.rollout.Retrier().Run(ctx, temporal.Cut("approve "+named(due), kit.SummaryLimit), activities.ApproveInstallPlans, in, &failed)
		approved = err == nil
		return err
	})
	switch {
	case approved:
		g.recordApprovals(ctx, due, failed)
	case err != nil && ctx.Err() == nil:
		g.postpone(ctx, "InstallPlans are not approved: "+temporal.ErrorMessage(err), clusters...)
	}
}

// postpone retries what failed for clusters, or for all of them.
func (g *watchGroup) postpone(ctx workflow.Context, message string, clusters ...string) {
	messages := map[string]string{}
	for _, cluster := range workflow.DeterministicKeys(g.plans) {
		if len(clusters) == 0 || slices.Contains(clusters, cluster) {
			g.plans[cluster].postpone(workflow.Now(ctx))
			g.plans[cluster].digest = digestUnknown
			messages[cluster] = message
		}
	}
	g.showPlans(ctx, messages)
}

// recordApprovals records which InstallPlans were approved, by this worker or by an action for the agent of the cluster.
func (g *watchGroup) recordApprovals(ctx workflow.Context, due []installplans.Approval, failed []installplansactivities.FailedApproval) {
	messages := map[string]string{}
	for _, one := range due {
		plans := g.plans[one.Cluster]
		plans.approvals = slices.DeleteFunc(plans.approvals, func(a installplans.Approval) bool { return a == one })
	}
	for _, one := range failed {
		plans := g.plans[one.Cluster]
		if !plans.retryAt.After(workflow.Now(ctx)) {
			plans.postpone(workflow.Now(ctx))
		}
		plans.approvals = append(plans.approvals, one.Approval)
		messages[one.Cluster] = fmt.Sprintf("approving InstallPlan %s of Subscription %s has failed and is retried: %s", one.Plan, one.Subscription, one.Message)
	}
	approved := slices.DeleteFunc(slices.Clone(due), func(one installplans.Approval) bool {
		return one.Failed || slices.ContainsFunc(failed, func(f installplansactivities.FailedApproval) bool { return f.Approval == one })
	})
	if len(approved) > 0 {
		g.sequence.rollout.Event(ctx, ranv1.EventApprovingInstallPlans, "Approving "+named(approved))
	}
	g.showPlans(ctx, messages)
}

// named names the first InstallPlans of approvals, and counts the others.
func named(approvals []installplans.Approval) string {
	var names []string
	for _, one := range approvals {
		names = append(names, one.String())
	}
	return kit.JoinNames(names)
}
