// Package sweeper holds the activities that find the marks of closed workflows in a cluster.
package sweeper

import (
	"cmp"
	"context"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/time/rate"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Activities finds marks of closed workflows. The workflow removes them with the activities of a cleanup. Activities also starts the scheduler of the
// cluster again if it was terminated.
type Activities struct {
	Clusters *kube.Clusters
	// Temporal is nil in a worker that may only answer its tasks. AwaitOrphans then ends with the owners to look up, and another worker looks them up.
	Temporal Client
	// Quiet is how long a cluster without marks is watched before the sweeper rests; the default is a minute. It is longer than any write of an
	// activity of a closed workflow, which takes at most ten seconds.
	Quiet time.Duration

	// budgets of look-ups in Temporal, a *rate.Limiter for each cluster.
	budgets sync.Map
	// wakes of many workflows at once are joined. keptAwake has the time of the last one of a workflow that began, by cluster.
	wakes     activitykit.Joined[wake, struct{}]
	keptAwake sync.Map
}

// quiet is Quiet or its default.
func (s *Activities) quiet() time.Duration { return cmp.Or(s.Quiet, quietTime) }

// budget of look-ups for a cluster. It outlives an attempt, because changes of forged marks start new ones.
func (s *Activities) budget(cluster string) *rate.Limiter {
	budget, _ := s.budgets.LoadOrStore(cluster, rate.NewLimiter(lookUpsPerSecond, lookUpsAtOnce))
	return budget.(*rate.Limiter)
}

// Client is the part of Temporal's client that the sweeper needs.
type Client interface {
	temporal.Executions
	activitykit.Starter
	activitykit.Lister
}

const (
	quietTime = time.Minute
	// scanInterval is the shortest time between two scans of the marks. While nodes are maintained, their marks change all the time.
	scanInterval = time.Second
	// askOpenAfter is after how long the state of an open workflow is read again, by a look-up or with a list. It is shorter than the resync interval of a
	// wait, so that each resync reads it.
	askOpenAfter = 20 * time.Second
	// askUnknownAfter is the same for a workflow that Temporal does not know, because that seldom changes.
	askUnknownAfter = 10 * time.Minute
	// maxOrphans and maxUnknown limit one result.
	maxOrphans = 50
	maxUnknown = 50
)

// AwaitOrphansInput names a cluster and the known marks.
type AwaitOrphansInput struct {
	// Cluster is empty for the hub.
	Cluster string `json:"cluster"`
	// Later are owners whose marks are ignored for some time, because their cleanup just ended or failed.
	Later []LaterOwner `json:"later,omitempty"`
	// Unknown are the known marks whose workflow Temporal does not know.
	Unknown []Mark `json:"unknown,omitempty"`
	// Left are marks that could not be cleaned up.
	Left []Mark `json:"left,omitempty"`
	// Answers are the owners that were looked up because of Orphans.LookUp.
	Answers []OwnerAnswer `json:"answers,omitempty"`
}

// LaterOwner is an owner whose marks are ignored until Until.
type LaterOwner struct {
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
}

// Orphans is the result of AwaitOrphans.
type Orphans struct {
	// Orphans, at most 50, by owner, and those of one owner in the order of a cleanup. Owners with marks on nodes or lock requests are first.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Unknown are all marks whose workflow Temporal does not know, at most 50; MoreUnknown of them are left out.
	Unknown     []Mark `json:"unknown,omitempty"`
	MoreUnknown int    `json:"moreUnknown,omitempty"`
	// Ignored counts the marks that Drydock cannot have written.
	Ignored int `json:"ignored,omitempty"`
	// Gone are the marks of in.Left that do not need a cleanup now: another writer removed the mark, or its workflow is open again.
	Gone []Mark `json:"gone,omitempty"`
	// Quiet: there was no mark for a while.
	Quiet bool `json:"quiet,omitempty"`
	// LookUp are owners that a worker with access to Temporal must look up first, if this one has none.
	LookUp []string `json:"lookUp,omitempty"`
}

// Orphan is a mark whose workflow is closed.
type Orphan struct {
	Mark
	// Ended describes how and when its workflow ended.
	Ended string `json:"ended"`
}

// AwaitOrphans watches the marks in a cluster until the workflow of one is closed, the marks with unknown workflows change, a mark of in.Left is gone,
// there are no marks for a while, or owners must be looked up by another worker.
//
// It reads the state of a workflow when it first sees its mark, and with each resync while the workflow is open; that of many maintenances with a list of those
// that run. With very many marks, some wait for a later resync.
func (s *Activities) AwaitOrphans(ctx context.Context, in AwaitOrphansInput) (Orphans, error) {
	cluster, err := s.Clusters.ClusterOrHub(ctx, in.Cluster)
	if err != nil {
		return Orphans{}, err
	}
	search := &search{cluster: cluster, in: in, allowed: s.Clusters.Allowed(), server: s.Temporal, owners: s.ownersOf(ctx, in), quiet: s.quiet(), emptySince: time.Now()}
	var found Orphans
	var earliest time.Time
	err = activitykit.Waits{}.Await(ctx, cluster, watchedKinds(cluster), func(ctx context.Context) (temporal.Observation, bool, error) {
		select {
		case <-ctx.Done():
			return temporal.Observation{}, false, ctx.Err()
		case <-time.After(time.Until(earliest)):
		}
		var err error
		found, err = search.read(ctx, cluster.Cache)
		earliest = time.Now().Add(scanInterval)
		return temporal.Observation{}, found.Quiet || len(found.Orphans)+len(found.Gone)+len(found.LookUp) > 0 || !slices.Equal(found.Unknown, in.Unknown), err
	})
	return found, activitykit.Explain(cluster, "find the marks of closed workflows", err)
}

// search is one attempt at AwaitOrphans.
type search struct {
	cluster *kube.Cluster
	in      AwaitOrphansInput
	allowed allow.List
	server  Client
	owners  *owners
	quiet   time.Duration
	// emptySince is the time since which there is no mark.
	emptySince time.Time
	// revived is the time at which the scheduler was last checked.
	revived time.Time
	// rights to create Jobs, by namespace.
	rights map[string]right
}

// read reads all marks.
func (l *search) read(ctx context.Context, reader kubeclient.Reader) (Orphans, error) {
	marks, ignored, err := findAll(ctx, l.cluster, reader, l.allowed)
	if err != nil {
		return Orphans{}, err
	}
	now := time.Now()
	if len(marks) > 0 {
		l.emptySince = now
	}
	found := Orphans{Quiet: now.Sub(l.emptySince) >= l.quiet, Ignored: ignored, Gone: slices.Clone(l.in.Left)}
	states, err := l.owners.states(ctx, marks)
	if err != nil {
		return Orphans{}, err
	}
	found.LookUp = l.owners.lookUp
	marks, foreign := l.withoutForeignJobs(ctx, marks, states)
	found.Ignored += foreign
	for _, mark := range marks {
		chain, asked := states[mark.Owner]
		if chain.State == temporal.ChainUnknown || !asked && slices.Contains(l.in.Unknown, mark) {
			found.addUnknown(mark)
		}
		if chain.State == temporal.ChainClosed || !asked {
			found.Gone = slices.DeleteFunc(found.Gone, func(left Mark) bool { return left == mark })
		}
	}
	trusted := trustedOwners(marks)
	byTrust := slices.Clone(marks)
	slices.SortStableFunc(byTrust, func(a, b Mark) int { return compareTrust(trusted, a.Owner, b.Owner) })
	for _, mark := range byTrust {
		if chain := states[mark.Owner]; chain.State == temporal.ChainClosed {
			if err := l.addOrphan(ctx, &found, Orphan{Mark: mark, Ended: chain.Ended}, marks); err != nil {
				return Orphans{}, err
			}
		}
	}
	if l.server != nil && !l.cluster.Hub && len(found.Orphans) == 0 && now.Sub(l.revived) >= askOpenAfter { // orphans are cleaned up first, even if Temporal cannot be asked
		err := scheduler.ReviveScheduler(ctx, l.server, l.in.Cluster)
		switch {
		case err == nil:
			l.revived = now
		case len(found.Gone) == 0 && slices.Equal(found.Unknown, l.in.Unknown): // otherwise that is returned first, and the next attempt returns this error
			return Orphans{}, err
		}
	}
	return found, nil
}

func (o *Orphans) addUnknown(mark Mark) {
	if len(o.Unknown) == maxUnknown {
		o.MoreUnknown++
		return
	}
	o.Unknown = append(o.Unknown, mark)
}

// addOrphan adds the marks that the API server still has. It asks after the workflow was found closed, so that a mark which the workflow itself
// has just removed does not count.
func (l *search) addOrphan(ctx context.Context, found *Orphans, orphan Orphan, marks []Mark) error {
	later := slices.ContainsFunc(l.in.Later, func(o LaterOwner) bool { return o.Owner == orphan.Owner && temporal.Now(ctx).Before(o.Until) })
	if _, out := nodeOfRollout(orphan.Mark, marks); later || out || len(found.Orphans) == maxOrphans {
		return nil
	}
	stillMarked, err := stillMarked(ctx, l.cluster.Client, orphan.Mark)
	if stillMarked {
		found.Orphans = append(found.Orphans, orphan)
	}
	return err
}

// AnyMarks reports whether a cluster has a mark, or needs the sweeper for its scheduler. It lists objects once and watches nothing, to cost little for a
// cluster at rest.
func (s *Activities) AnyMarks(ctx context.Context, cluster string) (bool, error) {
	c, err := s.Clusters.ClusterOrHub(ctx, cluster)
	if err != nil {
		return false, err
	}
	marks, _, err := findAll(ctx, c, c.Client, s.Clusters.Allowed())
	if err != nil {
		return false, activitykit.Explain(c, "find marks", err)
	}
	if s.Temporal != nil && !c.Hub {
		err = scheduler.ReviveScheduler(ctx, s.Temporal, cluster)
	}
	if len(marks) > 0 {
		return true, nil // the sweeper itself reports what is wrong with Temporal
	}
	return false, err
}

// WakeSweeperInput says which sweeper to wake.
type WakeSweeperInput struct {
	// Cluster is empty for the sweeper of the hub.
	Cluster string `json:"cluster"`
	// By is the id of the workflow that wakes it; Why is the reason.
	By  string `json:"by"`
	Why string `json:"why"`
	// Begins: workflow By begins. A sweeper that watches the cluster only continues to.
	Begins bool `json:"begins,omitempty"`
}

// wake is what joined wakes have in common.
type wake struct{ cluster, signal string }

// WakeSweeper makes the sweeper of a cluster scan now, or keep watching, and starts it if it is not running. A sweeper that was kept awake a short time ago
// watches for longer than that: thousands of workflows that begin together need not all tell it.
func (s *Activities) WakeSweeper(ctx context.Context, in WakeSweeperInput) error {
	of := wake{in.Cluster, temporal.SignalWake}
	if in.Begins {
		if last, told := s.keptAwake.Load(in.Cluster); told && time.Since(last.(time.Time)) < s.quiet()/6 {
			return nil
		}
		of.signal = temporal.SignalKeepAwake
	}
	_, err := s.wakes.Do(ctx, of, func(ctx context.Context) (struct{}, error) { return struct{}{}, s.wake(ctx, in, of.signal) })
	if err == nil && in.Begins {
		s.keptAwake.Store(in.Cluster, time.Now())
	}
	return err
}

func (s *Activities) wake(ctx context.Context, in WakeSweeperInput, signal string) error {
	// The format of sweeper.Input.
	type start struct {
		Cluster string `json:"cluster"`
		Hub     bool   `json:"hub,omitempty"`
	}
	_, err := s.Temporal.SignalWithStartWorkflow(ctx, temporal.SweeperID(in.Cluster), signal, temporal.SignalRequest{Actor: in.By, Reason: in.Why},
		client.StartWorkflowOptions{
			TaskQueue:             temporal.TaskQueue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:         "cleans up after closed workflows on " + cmp.Or(in.Cluster, "the hub"),
			StaticDetails:         temporal.SweeperDetails(),
		}, temporal.Sweeper, start{in.Cluster, in.Cluster == ""})
	return err
}
