// Package policy remediates the clusters of a rollout with policies or manifest works, one after the other on each cluster.
package policy

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/workflows/kit"
)

// items are the policies, or the manifest works, of a rollout. Objects on the hub place them on clusters.
type items interface {
	// Prepare creates the objects of the whole rollout. It places no item on a cluster.
	Prepare(ctx workflow.Context) (*PreparedItems, error)
	// Place gives clusters their desired items and no others, and returns the observed placement. closes is the time at which the first window of
	// clusters that start an item closes. unfinished are the clusters that lose an item before they have finished it.
	Place(ctx workflow.Context, retrier kit.Retrier, desired []policies.DesiredPlacement, unfinished Unfinished, closes *time.Time) (remediation.PlacementResult, error)
	// AwaitRemoved waits until one of the clusters has no item but the one that it gets next.
	AwaitRemoved(ctx workflow.Context, next []policies.Target) error
	// ClustersPerPlacement is the maximum number of clusters in one call of Place. 0: each call names all clusters that have an item.
	ClustersPerPlacement() int
	// KeepsLastItem reports whether a complete cluster keeps its last item.
	KeepsLastItem() bool
	// Await waits until the compliance of clusters differs from the known one.
	Await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error)
	// Read reads the compliance of clusters.
	Read(ctx workflow.Context, retrier kit.Retrier, clusters []string) ([]policies.ClusterCompliance, error)
	// CleanUp removes all objects.
	CleanUp(ctx workflow.Context, retrier kit.Retrier) error
	// CheckChanged notes which items were changed since they were prepared. It is for rollouts that keep their objects.
	CheckChanged(ctx workflow.Context, retrier kit.Retrier) error
	// Count is the number of items. PlannedBindings reports for each item whether the cluster must stay bound to it until it has passed it.
	Count() int
	PlannedBindings(cluster *ranv1.ClusterStatus) []bool
	// Deleted reports whether the current item was deleted from a cluster, given the compliance before and now.
	Deleted(before, now policies.Compliance) bool
	// ReplacedMessage says that the current item of a cluster was deleted, and is placed again.
	ReplacedMessage() string
	// Name is the name of an item. Describe sets the current item and its compliance in the status of a cluster.
	Name(item int) string
	Describe(status *ranv1.ClusterStatus, item int, compliance policies.Compliance)
	// WaitMessage says what a running cluster waits for.
	WaitMessage() string
	// UnboundFailure is the reason of a cluster that failed because an item is no longer bound to it; -1: none is bound.
	UnboundFailure(item int) (reason, message string)
}

// Unfinished are clusters that lose an item before they have finished it.
type Unfinished struct {
	Targets []policies.Target
	// Limit is the maximum number of bytes of the statuses of these items that are kept.
	Limit int
}

// sequence is the Remediator for policies and manifest works. It takes each cluster through the items in order; clusters do not wait for each other.
// It has no child workflow for a cluster: activities watch many clusters each, and report changes in bulk.
type sequence struct {
	rollout Rollout
	items   items
	// prepared are the prepared items; nil: they are not prepared yet.
	prepared *PreparedItems
	// preparing: the items are being prepared.
	preparing bool
	// failure is the error that fails every cluster.
	failure error

	// members are the clusters that are running, or from which an item is still to be removed.
	members map[string]*member
	groups  []*watchGroup
	// approving is the number of watch groups that approve InstallPlans.
	approving int
	// sweeperAwake is ready once the sweeper of the hub runs, which removes views and actions if this workflow is terminated; nil: it was not woken yet.
	sweeperAwake workflow.Future
	// leftLimit is how many bytes of statuses of unfinished works may still be kept; nil: none were kept in this run.
	leftLimit *int
	placements
}

// NewPolicySequence returns the remediator of a rollout of policies.
func NewPolicySequence(r Rollout, prepared *PreparedItems) *sequence {
	s := newSequence(r, prepared)
	s.items = &policyItems{of: r, prepared: s.known}
	return s
}

// NewWorkSequence returns the remediator of a rollout of manifest works.
func NewWorkSequence(r Rollout, prepared *PreparedItems) *sequence {
	s := newSequence(r, prepared)
	s.items = &workItems{of: r, prepared: s.known}
	return s
}

func newSequence(r Rollout, prepared *PreparedItems) *sequence {
	return &sequence{rollout: r, prepared: prepared, members: map[string]*member{}}
}

// known are the prepared items; empty: they are not prepared yet.
func (s *sequence) known() PreparedItems {
	if s.prepared == nil {
		return PreparedItems{}
	}
	return *s.prepared
}

// maxMembers is the maximum number of running clusters of a sequence. Each one costs memory, and its name costs history.
const maxMembers = 2000

// MaxConcurrency implements Remediator.
func (s *sequence) MaxConcurrency() int { return maxMembers }

// MaxStartsPerTask implements Remediator: a cluster costs no command.
func (s *sequence) MaxStartsPerTask() int { return maxMembers }

// Prepared implements Remediator.
func (s *sequence) Prepared() *PreparedItems { return s.prepared }

// Start implements Remediator.
func (s *sequence) Start(clusters []*ClusterWork) {
	serving := s.startPlacing(clusters[0].Ctx)
	members := make([]*member, len(clusters))
	for i, cluster := range clusters {
		m := &member{ClusterWork: cluster, state: memberWaiting, progress: policies.NewProgress(s.items.PlannedBindings(s.rollout.Cluster(cluster.Cluster)))}
		s.members[cluster.Cluster], members[i] = m, m
		workflow.GoNamed(cluster.Ctx, "cancel "+cluster.Cluster, func(ctx workflow.Context) { s.awaitCancel(ctx, m) })
	}
	for len(members) > 0 {
		group := s.groupWithCapacity(serving)
		some := members[:min(group.capacity(), len(members))]
		members = members[len(some):]
		group.join(serving, some)
	}
}

// groupWithCapacity returns a watch group that more clusters can join.
func (s *sequence) groupWithCapacity(ctx workflow.Context) *watchGroup {
	s.groups = slices.DeleteFunc(s.groups, func(g *watchGroup) bool { return g.closed })
	for _, group := range s.groups {
		if group.capacity() > 0 {
			return group
		}
	}
	group := &watchGroup{sequence: s}
	s.groups = append(s.groups, group)
	workflow.GoNamed(ctx, "watch group", group.run)
	return group
}

// ensurePrepared prepares the items. Only the first caller prepares them, the others wait.
func (s *sequence) ensurePrepared(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return !s.preparing }); err != nil {
		return err
	}
	if s.prepared != nil || s.failure != nil {
		return s.failure
	}
	s.preparing = true
	prepared, err := s.items.Prepare(ctx)
	s.preparing = false
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.prepared, s.failure = prepared, err
	return err
}

// mayStart reports whether another item may start on a cluster.
func (s *sequence) mayStart(cluster string) bool {
	return !s.rollout.Status().Paused && s.rollout.Hold(cluster) == nil
}

// fail fails every running cluster, and those that would start later.
func (s *sequence) fail(ctx workflow.Context, err error) {
	s.failure = err
	var running []*member
	for _, name := range workflow.DeterministicKeys(s.members) {
		if m := s.members[name]; m.running() {
			running = append(running, m)
		}
	}
	s.endAll(ctx, running, FailedCluster(err))
}

// endAll ends the work on many clusters.
func (s *sequence) endAll(ctx workflow.Context, members []*member, result ranv1.ClusterStatus) {
	s.rollout.ShowOnce(ctx, func() {
		for _, m := range members {
			s.end(ctx, m, result)
		}
	})
}

// readsPerActivity is the maximum number of objects that one activity reads, so that it ends in time even if each read takes 100 ms.
const readsPerActivity = 400

// read reads the compliance of clusters. After an error it returns those that it could read.
func (s *sequence) read(ctx workflow.Context, retrier kit.Retrier, clusters []string) ([]policies.ClusterCompliance, error) {
	var seen []policies.ClusterCompliance
	for some := range slices.Chunk(clusters, max(1, readsPerActivity/max(1, s.items.Count()))) {
		read, err := s.items.Read(ctx, retrier, some)
		if err != nil {
			return seen, err
		}
		seen = append(seen, read...)
	}
	return seen, nil
}

// FindComplete implements Remediator. A cluster is not complete if its last item, or a later one, is no longer bound: its compliance is unknown.
func (s *sequence) FindComplete(ctx workflow.Context, clusters []string) ([]string, error) {
	var complete []string
	seen, err := s.read(ctx, s.rollout.Retrier().Until(workflow.Now(ctx).Add(HubLimit)), clusters)
	for _, one := range seen {
		if one.Status.Complete(s.items.PlannedBindings(s.rollout.Cluster(one.Cluster))) {
			complete = append(complete, one.Cluster)
		}
	}
	return complete, err
}
