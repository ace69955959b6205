package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// items are what a sequence takes a cluster through: policies, or manifest works. They are put on clusters by objects on the hub.
type items interface {
	// prepare makes what the whole rollout needs. It puts nothing on any cluster.
	prepare(ctx workflow.Context) (*PreparedItems, error)
	// place puts items on clusters, and takes them off, as long as it insists on that. It returns what the hub was told of it. What is refused has to do with
	// single clusters; an error is about all that was not told.
	place(ctx workflow.Context, insistOn func(added []string) insistence, placements []placement) (told []placement, refused []refusal, err error)
	// stay: what was put on a cluster last stays there when the cluster is complete.
	stay() bool
	// await returns as soon as clusters stand in another way than is known.
	await(ctx workflow.Context, known []policies.KnownCluster, gather time.Duration) ([]policies.ClusterStanding, error)
	// read asks how clusters stand, as long as it insists.
	read(ctx workflow.Context, insist insistence, clusters []string) ([]policies.ClusterStanding, error)
	// withdraw removes everything that was made, as long as it insists, and looks back.
	withdraw(ctx workflow.Context, insist insistence) error
	// lookBack notes what clusters were given although it had changed, as long as it insists.
	lookBack(ctx workflow.Context, insist insistence) error
	// count is how many items there are; bound are those that a cluster must not lose before it has had them.
	count() int
	bound(cluster *ranv1.ClusterStatus) []bool
	// lost reports by how a cluster stood to the item whose turn it is, and stands now, that somebody has deleted what was put on it.
	lost(before, now policies.Compliance) bool
	// describe says in a cluster's status which item's turn it is, and how the cluster stands to it.
	describe(status *ranv1.ClusterStatus, item int, standing policies.Compliance)
	// awaited says what a cluster at work is waited for.
	awaited() string
	// unbound says why a cluster has failed on which the item cannot be; -1: none can.
	unbound(item int) (reason, message string)
}

// sequence is the Remediator that takes clusters through items: each cluster has them one after the other, and clusters do not wait for each other. It has no
// child workflow for a cluster: activities watch many clusters each, and report changes in bulk.
type sequence struct {
	rollout RemediatedRollout
	items   items
	// prepared is what was found of the items; nil: they are not prepared yet.
	prepared *PreparedItems
	// preparing: somebody is at it.
	preparing bool
	// failure is what keeps every cluster from being worked on.
	failure error

	atWork  map[string]*member
	flights []*flight
	// staying are the complete clusters on which an item stays.
	staying map[string]int
	placing
}

// member is a cluster that a sequence works on.
type member struct {
	*ClusterWork
	turn     policies.Turn
	step     policies.Step
	standing policies.Standing
	// refused is why the item could not be put on it; nil: it is there, or nobody has tried yet.
	refused *refusal
	// lost: somebody has deleted what was put on it; again: it was put there again. held: it may not be put there now.
	lost, again, held bool
	// withdrawn: it is to be taken off the hub. over: its end has been told.
	withdrawn, over bool
}

// newPolicySequence takes the clusters of a rollout through its policies.
func newPolicySequence(r RemediatedRollout, prepared *PreparedItems) *sequence {
	s := newSequence(r, prepared)
	s.items = &policyItems{of: r, pins: s.pins}
	return s
}

// newWorkSequence takes the clusters of a rollout through its manifest works.
func newWorkSequence(r RemediatedRollout, prepared *PreparedItems) *sequence {
	s := newSequence(r, prepared)
	s.items = &workItems{of: r, pins: s.pins}
	return s
}

func newSequence(r RemediatedRollout, prepared *PreparedItems) *sequence {
	return &sequence{rollout: r, prepared: prepared, atWork: map[string]*member{}, staying: map[string]int{}}
}

// pins identify the items as they were when they were prepared.
func (s *sequence) pins() []string {
	if s.prepared == nil {
		return nil
	}
	return s.prepared.Pins
}

// membersAtOnce is how many clusters a sequence keeps at work: each costs a run some memory, and its name some history.
const membersAtOnce = 2000

// AtOnce implements Remediator.
func (s *sequence) AtOnce() int { return membersAtOnce }

// StartedTogether implements Remediator: no cluster costs a command.
func (s *sequence) StartedTogether() int { return membersAtOnce }

// Prepared implements Remediator.
func (s *sequence) Prepared() *PreparedItems { return s.prepared }

// Start implements Remediator.
func (s *sequence) Start(clusters []*ClusterWork) {
	serving := s.serve(clusters[0].Ctx)
	members := make([]*member, len(clusters))
	for i, cluster := range clusters {
		m := &member{ClusterWork: cluster, turn: policies.NewTurn(s.items.bound(s.rollout.Cluster(cluster.Cluster)))}
		s.atWork[cluster.Cluster], members[i] = m, m
		workflow.GoNamed(cluster.Ctx, "withdraw "+cluster.Cluster, func(ctx workflow.Context) { s.awaitWithdrawal(ctx, m) })
	}
	for len(members) > 0 {
		f := s.flightWithRoom(serving)
		some := members[:min(f.room(), len(members))]
		members = members[len(some):]
		f.join(serving, some)
	}
}

// flightWithRoom returns a flight that more clusters can join.
func (s *sequence) flightWithRoom(ctx workflow.Context) *flight {
	s.flights = slices.DeleteFunc(s.flights, func(f *flight) bool { return f.landed })
	for _, f := range s.flights {
		if f.room() > 0 {
			return f
		}
	}
	f := &flight{sequence: s}
	s.flights = append(s.flights, f)
	workflow.GoNamed(ctx, "clusters that are watched together", f.run)
	return f
}

// awaitWithdrawal takes a cluster off the hub when its context is cancelled before it is through.
func (s *sequence) awaitWithdrawal(ctx workflow.Context, m *member) {
	if workflow.Await(ctx, func() bool { return m.over }) == nil || m.over {
		return
	}
	ctx, _ = workflow.NewDisconnectedContext(ctx)
	m.withdrawn, s.dirty, s.pressing = true, true, true
	s.awaitOff(ctx, m)
	s.end(ctx, m, ranv1.ClusterStatus{State: ranv1.ClusterCancelled})
}

// end tells what became of a cluster, once.
func (s *sequence) end(ctx workflow.Context, m *member, result ranv1.ClusterStatus) {
	if m.over {
		return
	}
	m.over, s.dirty = true, true
	delete(s.atWork, m.Cluster)
	if result.State == ranv1.ClusterComplete && s.items.stay() {
		s.staying[m.Cluster] = m.turn.Policy
	}
	switch {
	case result.State == ranv1.ClusterComplete:
	case m.turn.Begun:
		s.items.describe(&result, m.turn.Policy, m.standing.Of(m.turn.Policy))
	default: // whoever looks again must know what it was planned for
		result.CurrentPolicy = s.rollout.Cluster(m.Cluster).CurrentPolicy
	}
	m.Ended(ctx, result)
}

// ensurePrepared makes what the rollout needs, once, whoever asks.
func (s *sequence) ensurePrepared(ctx workflow.Context) error {
	if err := workflow.Await(ctx, func() bool { return !s.preparing }); err != nil {
		return err
	}
	if s.prepared != nil || s.failure != nil {
		return s.failure
	}
	s.preparing = true
	prepared, err := s.items.prepare(ctx)
	s.preparing = false
	if ctx.Err() != nil {
		return ctx.Err()
	}
	s.prepared, s.failure = prepared, err
	return err
}

// fail ends every cluster at work, and keeps others from being worked on.
func (s *sequence) fail(ctx workflow.Context, err error) {
	s.failure = err
	s.endAll(ctx, workflow.DeterministicKeys(s.atWork), failedCluster(err))
}

// endAll tells what became of many clusters.
func (s *sequence) endAll(ctx workflow.Context, clusters []string, result ranv1.ClusterStatus) {
	s.rollout.Together(ctx, func() {
		for _, name := range clusters {
			s.end(ctx, s.atWork[name], result)
		}
	})
}

// awaitPreparing waits until an attempt to prepare is over that nobody waits for any more: it would make again what is removed meanwhile.
func (s *sequence) awaitPreparing(ctx workflow.Context) {
	if s.preparing {
		_ = workflow.Await(ctx, func() bool { return !s.preparing })
	}
}

// Settle implements Remediator.
func (s *sequence) Settle(ctx workflow.Context) {
	s.awaitPreparing(ctx)
	s.dirty, s.pressing = true, true
	_ = workflow.Await(ctx, s.settled)
}

// CleanUp implements Remediator. It does not insist for longer than a rollout does on keeping its status: a hub that refuses would keep it from ever being over.
func (s *sequence) CleanUp(ctx workflow.Context, succeeded bool) {
	if s.rollout.Status().Status.CurrentBatchStartedAt == nil {
		return // nothing has been made, in no run
	}
	insist := s.rollout.Retrier().until(workflow.Now(ctx).Add(hubLimit))
	s.stopPlacing(ctx)
	s.awaitPreparing(ctx)
	if succeeded && keepsObjects(s.rollout) {
		if changes, _ := s.changes(); len(changes) > 0 {
			s.rollout.Note("what the rollout has made on the hub was kept, but could not be taken" + s.stillPlaced() + ", where it is still at work")
		}
		if err := s.items.lookBack(ctx, insist); err != nil {
			s.rollout.Note("whether something was changed while it was rolled out could not be seen: " + temporal.ErrorMessage(err))
		}
		return
	}
	if err := s.items.withdraw(ctx, insist); err != nil {
		s.rollout.Note("what the rollout has made on the hub could not be removed" + s.stillPlaced() + ": " + temporal.ErrorMessage(err))
	}
}

// CompleteNow implements Remediator. A cluster to which the item it has timed out with, or one that should have followed, is not bound any more is not complete:
// nobody can say how it stands.
func (s *sequence) CompleteNow(ctx workflow.Context, clusters []string) ([]string, error) {
	var complete []string
	seen, err := s.read(ctx, s.rollout.Retrier().until(workflow.Now(ctx).Add(hubLimit)), clusters)
	for _, one := range seen {
		if one.Standing.Complete() && one.Standing.Has(s.items.bound(s.rollout.Cluster(one.Cluster))) {
			complete = append(complete, one.Cluster)
		}
	}
	return complete, err
}

// readAtOnce is how many objects one activity asks for: also on a hub that takes a tenth of a second for each it must be over in time.
const readAtOnce = 400

// read asks the hub how clusters stand, as far as it can be asked.
func (s *sequence) read(ctx workflow.Context, insist insistence, clusters []string) ([]policies.ClusterStanding, error) {
	var seen []policies.ClusterStanding
	for some := range slices.Chunk(clusters, max(1, readAtOnce/max(1, s.items.count()))) {
		read, err := s.items.read(ctx, insist, some)
		if err != nil {
			return seen, err
		}
		seen = append(seen, read...)
	}
	return seen, nil
}
