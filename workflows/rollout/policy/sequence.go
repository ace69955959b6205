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

// items are the policies, or the manifest works, that a sequence takes each cluster through. Objects on the hub place them on clusters.
type items interface {
	// Prepare makes what the whole rollout needs. It places nothing on any cluster.
	Prepare(ctx workflow.Context) (*PreparedItems, error)
	// Place makes the clusters have their desired items and no others, and returns what was observed. Closes is when the first window closes in which something
	// may begin.
	Place(ctx workflow.Context, retrier kit.Retrier, desired []policies.DesiredPlacement, closes *time.Time) (remediation.PlacementResult, error)
	// ClustersPerPlacement is how many clusters one call of place may name. 0: each call names all clusters, and the others are to have no item.
	ClustersPerPlacement() int
	// KeepsLastItem reports whether a complete cluster keeps its last item.
	KeepsLastItem() bool
	// Await returns when the compliance of clusters differs from the known one.
	Await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterCompliance, error)
	// Read reads the compliance of clusters.
	Read(ctx workflow.Context, retrier kit.Retrier, clusters []string) ([]policies.ClusterCompliance, error)
	// CleanUp removes everything that was made.
	CleanUp(ctx workflow.Context, retrier kit.Retrier) error
	// CheckChanged notes which items were changed since they were prepared, where everything that was made is kept.
	CheckChanged(ctx workflow.Context, retrier kit.Retrier) error
	// Count is how many items there are; bound are those that a cluster must not lose before it has passed them.
	Count() int
	PlannedBindings(cluster *ranv1.ClusterStatus) []bool
	// Deleted reports, from two compliances with the current item, that it was deleted from the cluster.
	Deleted(before, now policies.Compliance) bool
	// Name is that of an item. describe shows in a cluster's status its current item and its compliance.
	Name(item int) string
	Describe(status *ranv1.ClusterStatus, item int, compliance policies.Compliance)
	// WaitMessage is what a running cluster waits for.
	WaitMessage() string
	// UnboundFailure is why a cluster has failed that the item is no longer bound to; -1: none is.
	UnboundFailure(item int) (reason, message string)
}

// sequence is the Remediator that takes clusters through items: each cluster has one after the other, and clusters do not wait for each other. It has no
// child workflow for a cluster: activities watch many clusters each, and report changes in bulk.
type sequence struct {
	rollout Rollout
	items   items
	// prepared is what was found of the items; nil: they are not prepared yet.
	prepared *PreparedItems
	// preparing: an attempt to prepare them is in progress.
	preparing bool
	// failure is what keeps every cluster from being worked on.
	failure error

	// members are the clusters that are running, or that may still have an item.
	members map[string]*member
	groups  []*watchGroup
	placements
}

// NewPolicySequence takes the clusters of a rollout through its policies.
func NewPolicySequence(r Rollout, prepared *PreparedItems) *sequence {
	s := newSequence(r, prepared)
	s.items = &policyItems{of: r, pins: s.pins}
	return s
}

// NewWorkSequence takes the clusters of a rollout through its manifest works.
func NewWorkSequence(r Rollout, prepared *PreparedItems) *sequence {
	s := newSequence(r, prepared)
	s.items = &workItems{of: r, pins: s.pins}
	return s
}

func newSequence(r Rollout, prepared *PreparedItems) *sequence {
	return &sequence{rollout: r, prepared: prepared, members: map[string]*member{}}
}

// pins identify the items as they were prepared.
func (s *sequence) pins() []string {
	if s.prepared == nil {
		return nil
	}
	return s.prepared.Pins
}

// maxMembers is how many clusters a sequence has running: each costs a run some memory, and its name some history.
const maxMembers = 2000

// MaxConcurrency implements Remediator.
func (s *sequence) MaxConcurrency() int { return maxMembers }

// MaxStartsPerTask implements Remediator: no cluster costs a command.
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
		workflow.GoNamed(cluster.Ctx, "withdraw "+cluster.Cluster, func(ctx workflow.Context) { s.awaitWithdrawal(ctx, m) })
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

// ensurePrepared prepares the items once, for all who call it.
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

// mayStart reports whether another item may begin on a cluster.
func (s *sequence) mayStart(cluster string) bool {
	return !s.rollout.Status().Paused && s.rollout.Hold(cluster) == nil
}

// fail ends every running cluster, and keeps others from being worked on.
func (s *sequence) fail(ctx workflow.Context, err error) {
	s.failure = err
	var atWork []*member
	for _, name := range workflow.DeterministicKeys(s.members) {
		if m := s.members[name]; m.running() {
			atWork = append(atWork, m)
		}
	}
	s.endAll(ctx, atWork, FailedCluster(err))
}

// endAll ends the work on many clusters.
func (s *sequence) endAll(ctx workflow.Context, members []*member, result ranv1.ClusterStatus) {
	s.rollout.ShowOnce(ctx, func() {
		for _, m := range members {
			s.end(ctx, m, result)
		}
	})
}

// readsPerActivity is how many objects one activity reads: it must end in time also on a hub that takes a tenth of a second for each.
const readsPerActivity = 400

// read reads the compliance of clusters, and returns what it could read.
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

// FindComplete implements Remediator. A cluster is not complete if the item it timed out with, or a later one, is no longer bound: its compliance is unknown.
func (s *sequence) FindComplete(ctx workflow.Context, clusters []string) ([]string, error) {
	var complete []string
	seen, err := s.read(ctx, s.rollout.Retrier().Until(workflow.Now(ctx).Add(HubLimit)), clusters)
	for _, one := range seen {
		if one.Status.Complete() && one.Status.Has(s.items.PlannedBindings(s.rollout.Cluster(one.Cluster))) {
			complete = append(complete, one.Cluster)
		}
	}
	return complete, err
}
