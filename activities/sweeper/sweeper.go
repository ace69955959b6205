// Package sweeper holds the activities that find the marks of closed workflows in a cluster.
package sweeper

import (
	"context"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Activities finds marks whose workflow is over. It takes nothing back itself: the workflow does, by the same activities as a clean-up. And it starts the
// scheduler of its cluster anew that was terminated.
type Activities struct {
	Clusters *kube.Clusters
	Temporal Client
	// Quiet is how long a cluster without any mark is watched before the sweeper rests; a minute by default. It outlasts the writes of
	// an activity whose workflow is gone: no effect takes longer than ten seconds.
	Quiet time.Duration
}

// Client is what the sweeper asks of Temporal and tells it, as Temporal's client does.
type Client interface {
	temporal.Executions
	activitykit.Starter
	activitykit.Lister
}

const (
	quietTime = time.Minute
	// askOpenAfter is after how long a workflow that went on is asked about again. It is shorter than the interval at which a wait looks
	// although nothing has changed, so that each such look asks.
	askOpenAfter = 20 * time.Second
	// askUnknownAfter is the same for a workflow that Temporal does not know: that seldom changes.
	askUnknownAfter = 10 * time.Minute
	// maxOrphans and maxUnknown are how many are returned at a time.
	maxOrphans = 50
	maxUnknown = 50
)

// AwaitOrphansInput says in which cluster to look, and what needs not be found again.
type AwaitOrphansInput struct {
	Cluster string `json:"cluster"`
	// Later are owners whose marks count again only from an instant on: they were just taken back, or could not be.
	Later []LaterOwner `json:"later,omitempty"`
	// Unknown are the marks of unknown holders that were found before.
	Unknown []Mark `json:"unknown,omitempty"`
	// Left are marks that were left behind, and could not be taken back.
	Left []Mark `json:"left,omitempty"`
}

// LaterOwner is an owner whose marks do not count before Until.
type LaterOwner struct {
	Owner string    `json:"owner"`
	Until time.Time `json:"until"`
}

// Orphans is what AwaitOrphans has found.
type Orphans struct {
	// Orphans, at most 50, by owner, and those of one owner in the order in which they should be taken back.
	Orphans []Orphan `json:"orphans,omitempty"`
	// Unknown are all marks whose workflow Temporal does not know, at most 50; MoreUnknown of them are left out.
	Unknown     []Mark `json:"unknown,omitempty"`
	MoreUnknown int    `json:"moreUnknown,omitempty"`
	// Gone are those that were left behind and are not any more: somebody else has removed the mark, or its workflow goes on again.
	Gone []Mark `json:"gone,omitempty"`
	// Quiet: there has been no mark at all for a while.
	Quiet bool `json:"quiet,omitempty"`
}

// Orphan is a mark whose workflow is over.
type Orphan struct {
	Mark
	// Ended says how and when its workflow ended.
	Ended string `json:"ended"`
}

// AwaitOrphans watches the marks in a cluster until there are some whose workflow is over, until other marks than before are of unknown
// holders, until one is gone that was left behind, or until there are no marks for a while.
//
// A workflow is asked about when its mark is first seen, and while it goes on each time that the wait looks although nothing has changed.
func (s *Activities) AwaitOrphans(ctx context.Context, in AwaitOrphansInput) (Orphans, error) {
	cluster, err := s.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return Orphans{}, err
	}
	look := &lookout{cluster: cluster, in: in, server: s.Temporal, owners: newOwners(s.Temporal), quiet: s.Quiet, emptySince: time.Now()}
	if look.quiet == 0 {
		look.quiet = quietTime
	}
	var found Orphans
	err = activitykit.Waits{}.Await(ctx, cluster, markedKinds(), func(ctx context.Context) (temporal.Observation, bool, error) {
		var err error
		found, err = look.look(ctx, cluster.Cache)
		return temporal.Observation{}, found.Quiet || len(found.Orphans)+len(found.Gone) > 0 || !slices.Equal(found.Unknown, in.Unknown), err
	})
	return found, activitykit.Explain(cluster, "look for what nobody takes back", err)
}

// lookout is one attempt at AwaitOrphans.
type lookout struct {
	cluster *kube.Cluster
	in      AwaitOrphansInput
	server  Client
	owners  *owners
	quiet   time.Duration
	// emptySince is since when there has been no mark.
	emptySince time.Time
	// revived is when the scheduler was looked after last.
	revived time.Time
}

// look looks at all marks.
func (l *lookout) look(ctx context.Context, reader kubeclient.Reader) (Orphans, error) {
	marks, err := findMarks(ctx, reader)
	if err != nil {
		return Orphans{}, err
	}
	now := time.Now()
	if len(marks) > 0 {
		l.emptySince = now
	}
	found := Orphans{Quiet: now.Sub(l.emptySince) >= l.quiet, Gone: slices.Clone(l.in.Left)}
	l.owners.forget(marks)
	for _, mark := range marks {
		chain, err := l.owners.ask(ctx, mark.Owner)
		if err != nil {
			return Orphans{}, err
		}
		switch chain.State {
		case temporal.ChainUnknown:
			found.addUnknown(mark)
		case temporal.ChainClosed:
			found.Gone = slices.DeleteFunc(found.Gone, func(left Mark) bool { return left == mark })
			if err := l.addOrphan(ctx, &found, Orphan{Mark: mark, Ended: chain.Ended}, marks); err != nil {
				return Orphans{}, err
			}
		}
	}
	if len(found.Orphans) == 0 && now.Sub(l.revived) >= askOpenAfter { // what is left behind is taken back first, whoever cannot be asked
		err := scheduler.ReviveScheduler(ctx, l.server, l.in.Cluster)
		switch {
		case err == nil:
			l.revived = now
		case len(found.Gone) == 0 && slices.Equal(found.Unknown, l.in.Unknown): // else that is told first, and the next attempt says why the scheduler could not be looked after
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

// addOrphan adds an orphan whose time has come. Its workflow was found closed before the API server is asked whether the mark stands: it is
// not one that the workflow itself has just taken back.
func (l *lookout) addOrphan(ctx context.Context, found *Orphans, orphan Orphan, marks []Mark) error {
	later := slices.ContainsFunc(l.in.Later, func(o LaterOwner) bool { return o.Owner == orphan.Owner && temporal.Now(ctx).Before(o.Until) })
	if _, out := nodeOutFor(orphan.Mark, marks); later || out || len(found.Orphans) == maxOrphans {
		return nil
	}
	stands, err := stands(ctx, l.cluster.Client, orphan.Mark)
	if stands {
		found.Orphans = append(found.Orphans, orphan)
	}
	return err
}

// AnyMarks reports whether anything in a cluster bears a mark. It lists what could, once, and watches nothing: a cluster at rest costs no more. Rollouts may
// wait there all the same.
func (s *Activities) AnyMarks(ctx context.Context, cluster string) (bool, error) {
	c, err := s.Clusters.Cluster(ctx, cluster)
	if err != nil {
		return false, err
	}
	marks, err := findMarks(ctx, c.Client)
	if err != nil {
		return false, activitykit.Explain(c, "look for marks", err)
	}
	err = scheduler.ReviveScheduler(ctx, s.Temporal, cluster)
	if len(marks) > 0 {
		return true, nil // whoever looks at them says what is wrong with Temporal
	}
	return false, err
}

// WakeSweeperInput says which sweeper to wake.
type WakeSweeperInput struct {
	Cluster string `json:"cluster"`
	// By is the id of the workflow that wakes it; Why says what may have to be taken back.
	By  string `json:"by"`
	Why string `json:"why"`
}

// WakeSweeper makes the sweeper of a cluster look now, whether it rests, waits or has never run.
func (s *Activities) WakeSweeper(ctx context.Context, in WakeSweeperInput) error {
	// As workflows.SweeperInput reads it.
	type start struct {
		Cluster string `json:"cluster"`
	}
	_, err := s.Temporal.SignalWithStartWorkflow(ctx, temporal.SweeperID(in.Cluster), temporal.SignalWake, temporal.SignalRequest{Actor: in.By, Reason: in.Why},
		client.StartWorkflowOptions{
			TaskQueue:             temporal.TaskQueue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:         "takes back what ended workflows have left on " + in.Cluster,
		}, temporal.Sweeper, start{in.Cluster})
	return err
}
