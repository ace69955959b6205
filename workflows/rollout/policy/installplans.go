package policy

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
	"drydock.dev/drydock/workflows/sweeper"
)

// A watch group approves the InstallPlans of its clusters while a policy that requires Subscriptions is enforced on them. One activity watches the Subscriptions and
// reports changes in bulk, and another approves what the first one found. Views and actions exist only for clusters that are watched: an action that its agent has
// not begun must not take effect while the cluster is held, or after it has ended.

// clusterPlans is the state of the Subscriptions of a cluster.
type clusterPlans struct {
	// policy is the index of the policy that requires them.
	policy int
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
	g.plans = map[string]*clusterPlans{}
	if g.sequence.awakenSweeper(ctx) != nil {
		return
	}
	for reports := 0; ; reports++ {
		g.unwatchPlans(ctx)
		if workflow.Await(ctx, func() bool { return g.plansChanged() || len(g.plans) > 0 }) != nil {
			return
		}
		g.watchMore(ctx)
		g.approveDue(ctx)
		g.watchPlans(ctx, reports)
		if ctx.Err() != nil {
			g.unwatchPlans(ctx)
			return
		}
	}
}

// watchMore adds the clusters that are not watched yet.
func (g *watchGroup) watchMore(ctx workflow.Context) {
	begun := map[string]string{}
	for _, m := range g.requiringPlans() {
		if g.plans[m.Cluster] == nil {
			g.plans[m.Cluster], begun[m.Cluster] = &clusterPlans{policy: m.progress.Policy}, ""
		}
	}
	g.showPlans(ctx, begun)
}

// requiringPlans are the clusters on which a policy that requires Subscriptions is enforced, and may start to change them.
func (g *watchGroup) requiringPlans() []*member {
	return slices.DeleteFunc(g.running(), func(m *member) bool {
		return m.state != memberActive || m.placement != isPlaced || m.step.State != ranv1.ClusterRunning || m.waiting() ||
			len(g.sequence.prepared.Subscriptions[m.progress.Policy]) == 0 || !g.sequence.mayStart(m.Cluster)
	})
}

// plansChanged reports whether other clusters must be watched than those that are.
func (g *watchGroup) plansChanged() bool {
	requiring := g.requiringPlans()
	return len(requiring) != len(g.plans) || slices.ContainsFunc(requiring, func(m *member) bool {
		known := g.plans[m.Cluster]
		return known == nil || known.policy != m.progress.Policy
	})
}

// unwatchPlans removes the views and actions of clusters that are no longer watched: all of them if ctx is done.
func (g *watchGroup) unwatchPlans(ctx workflow.Context) {
	left := []string{}
	requiring := g.requiringPlans()
	for _, cluster := range workflow.DeterministicKeys(g.plans) {
		same := func(m *member) bool { return m.Cluster == cluster && m.progress.Policy == g.plans[cluster].policy }
		if ctx.Err() != nil || !slices.ContainsFunc(requiring, same) {
			left = append(left, cluster)
			delete(g.plans, cluster)
		}
	}
	if len(left) == 0 {
		return
	}
	g.explainUnwatched(ctx, left)
	removing, _ := workflow.NewDisconnectedContext(ctx)
	g.sequence.removeViews(removing, g.sequence.rollout.Retrier().Until(workflow.Now(ctx).Add(HubLimit)), left)
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
	watching, stop := workflow.WithCancel(ctx)
	var changes []installplans.Cluster
	var failure error
	over := false
	workflow.GoNamed(watching, "watch InstallPlans", func(ctx workflow.Context) {
		changes, failure = g.awaitInstallPlans(ctx, reports)
		over = true
	})
	due := func() bool { return false }
	if until := g.firstRetry(); until != nil {
		timer := workflow.NewTimerWithOptions(watching, until.Sub(workflow.Now(ctx)), workflow.TimerOptions{Summary: "approve InstallPlans again"})
		due = timer.IsReady
	}
	_ = workflow.Await(ctx, func() bool { return over || due() || g.plansChanged() })
	failed := over && failure != nil
	stop()
	ended, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Await(ended, func() bool { return over }) // it may still create views
	switch {
	case ctx.Err() != nil:
	case failed:
		g.postpone(ctx, "its Subscriptions are not watched: "+temporal.ErrorMessage(failure))
		_ = workflow.Sleep(ctx, MaxRetryPause)
	default:
		g.recordPlans(ctx, changes)
	}
}

func (g *watchGroup) awaitInstallPlans(ctx workflow.Context, reports int) ([]installplans.Cluster, error) {
	s := g.sequence
	in := installplansactivities.AwaitInstallPlansInput{Rollout: s.planRollout(ctx), Subscriptions: s.prepared.Subscriptions}
	most := 0
	for _, cluster := range workflow.DeterministicKeys(g.plans) {
		plans := g.plans[cluster]
		in.Clusters = append(in.Clusters, installplansactivities.KnownCluster{Cluster: cluster, Policy: plans.policy, Digest: plans.digest})
		most = max(most, len(s.prepared.Subscriptions[plans.policy]))
	}
	in.Interval = views.Interval(2 * most * int(s.rollout.Status().ComputedMaxConcurrency))
	in.Gather = max(plansGather, policies.GatherPeriod(len(in.Clusters), reports, kit.HistoryUsed(ctx)))
	var changes []installplans.Cluster
	var activities *installplansactivities.Activities
	err := s.rollout.Retrier().Watch(ctx, fmt.Sprintf("watch the Subscriptions of %d clusters", len(in.Clusters)), activities.AwaitInstallPlans, in, &changes)
	return changes, err
}

// recordPlans records the observed state of Subscriptions.
func (g *watchGroup) recordPlans(ctx workflow.Context, changes []installplans.Cluster) {
	messages := map[string]string{}
	for _, seen := range changes {
		plans := g.plans[seen.Cluster]
		if plans == nil {
			continue
		}
		plans.digest, plans.approvals, plans.retryAt = seen.Digest, seen.Approvals, time.Time{}
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
	var due []installplans.Approval
	var clusters []string
	for _, m := range g.requiringPlans() {
		plans := g.plans[m.Cluster]
		if plans == nil || plans.policy != m.progress.Policy || len(plans.approvals) == 0 || plans.retryAt.After(workflow.Now(ctx)) {
			continue
		}
		due, clusters = append(due, plans.approvals...), append(clusters, m.Cluster)
	}
	if len(due) == 0 {
		return
	}
	mayApprove := func() bool {
		return !slices.ContainsFunc(clusters, func(cluster string) bool { return !g.sequence.mayStart(cluster) })
	}
	retrier := g.sequence.rollout.Retrier()
	retrier.BeforeRound = func() error {
		if !mayApprove() {
			return errDesiredChanged
		}
		return nil
	}
	slices.SortFunc(due, func(a, b installplans.Approval) int {
		return cmp.Or(cmp.Compare(a.Cluster, b.Cluster), cmp.Compare(a.Plan, b.Plan))
	})
	in := installplansactivities.ApproveInstallPlansInput{Rollout: g.sequence.planRollout(ctx), Approvals: due, Closes: g.sequence.rollout.FirstClose(clusters)}
	var failed []installplansactivities.FailedApproval
	var activities *installplansactivities.Activities
	err := retrier.Run(ctx, temporal.Cut("approve "+named(due), kit.SummaryLimit), activities.ApproveInstallPlans, in, &failed)
	if err != nil {
		if ctx.Err() == nil && mayApprove() {
			g.postpone(ctx, "InstallPlans are not approved: "+temporal.ErrorMessage(err), clusters...)
		}
		return
	}
	g.recordApprovals(ctx, due, failed)
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
		g.plans[one.Cluster].approvals = nil
	}
	for _, one := range failed {
		plans := g.plans[one.Cluster]
		if len(plans.approvals) == 0 {
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

// named names the InstallPlans of approvals.
func named(approvals []installplans.Approval) string {
	var names []string
	for _, one := range approvals {
		names = append(names, one.String())
	}
	return strings.Join(names, ", ")
}

// awakenSweeper returns when the sweeper of the hub runs.
func (s *sequence) awakenSweeper(ctx workflow.Context) error {
	if s.sweeperAwake == nil {
		s.sweeperAwake = sweeper.Wake(s.ctx, s.rollout.Retrier().Report, "", "views and actions of rollout "+s.rollout.Request().Namespace+"/"+s.rollout.Request().Name)
	}
	return workflow.Await(ctx, s.sweeperAwake.IsReady)
}

// planRollout is the rollout in the inputs of activities.
func (s *sequence) planRollout(ctx workflow.Context) installplansactivities.Rollout {
	object := s.rollout.Request()
	return installplansactivities.Rollout{Namespace: object.Namespace, Name: object.Name, Owner: kit.Owner(ctx)}
}

// removeViews removes the views and actions of clusters; none: of all.
func (s *sequence) removeViews(ctx workflow.Context, retrier kit.Retrier, clusters []string) {
	var activities *installplansactivities.Activities
	in := installplansactivities.RemoveViewsInput{Rollout: s.planRollout(ctx), Clusters: clusters}
	summary := "remove views and actions"
	if len(clusters) > 0 {
		summary = fmt.Sprintf("remove the views and actions of %d clusters", len(clusters))
	}
	if err := retrier.Run(ctx, summary, activities.RemoveViews, in, nil); err != nil {
		note := "ManagedClusterViews and ManagedClusterActions of the rollout could not be removed: " + temporal.ErrorMessage(err)
		if !slices.Contains(s.rollout.Status().Notes, note) {
			s.rollout.Note(note)
		}
	}
}

// removeAllViews removes the views and actions of the rollout, after all approvals have ended.
func (s *sequence) removeAllViews(ctx workflow.Context, retrier kit.Retrier) {
	if s.prepared == nil || s.prepared.Subscriptions == nil {
		return
	}
	_ = workflow.Await(ctx, func() bool { return s.approving == 0 })
	s.removeViews(ctx, retrier, nil)
}
