package sweeper

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/locks"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

func TestARunningWorkflowIsCheckedOccasionally(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.StillRunning)
	search := newSearch(t, server, AwaitOrphansInput{})
	for range 3 { // each change of a node causes a read
		require.Empty(t, search.now(t).Orphans)
	}
	require.Equal(t, 1, server.Reads(ref.Owner))

	server.Set(ref.Owner, activitytest.WasTerminated)
	known := search.owners.known[ref.Owner]
	known.at = known.at.Add(-askOpenAfter)
	search.owners.known[ref.Owner] = known
	require.Len(t, search.now(t).Orphans, 1)
	activitytest.ReturnNode(t, ref)
	search.now(t)
	require.NotContains(t, search.owners.known, ref.Owner, "owners without marks are forgotten")
}

func TestMarksOfANewRunWithTheSameIDAreNotOrphans(t *testing.T) {
	ref := activitytest.TestNode(t)
	first, second := ref, ref
	second.Owner = "node/spoke/default/" + ref.Node + "/second-run"
	server := activitytest.NewWorkflows()
	server.Set(second.Owner, activitytest.StillRunning) // under the id of the first, which is closed
	activitytest.Cordon(t, first)
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)

	server.Set(first.Owner, activitytest.WasTerminated)
	require.Equal(t, first.Owner, look(t, server, AwaitOrphansInput{}).Orphans[0].Owner)
	activitytest.ReturnNode(t, first)
	activitytest.Cordon(t, second)
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
	require.Contains(t, activitytest.ReturnNode(t, first).Note, "it is under maintenance by", "a late sweep changes nothing")
	require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
}

func TestAMarkOfAnUnknownHolderIsReportedOnce(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	found := look(t, activitytest.NewWorkflows(), AwaitOrphansInput{})
	require.Empty(t, found.Orphans)
	mark := Mark{Kind: MarkNode, Name: ref.Node, Node: ref.Node, Owner: ref.Owner}
	require.Contains(t, found.Unknown, mark)

	settledMarks(t)
	server := activitytest.NewWorkflows()
	sweeper := &Activities{Clusters: activitytest.Clusters, Temporal: server, Quiet: time.Hour}
	first, err := sweeper.AwaitOrphans(t.Context(), AwaitOrphansInput{Cluster: activitytest.SpokeName})
	require.NoError(t, err)
	require.Contains(t, first.Unknown, mark)
	ended := make(chan Orphans, 1)
	go func() {
		next, err := sweeper.AwaitOrphans(t.Context(), AwaitOrphansInput{Cluster: activitytest.SpokeName, Unknown: first.Unknown})
		assert.NoError(t, err)
		ended <- next
	}()
	require.Never(t, func() bool { return len(ended) > 0 }, 2*scanInterval, 50*time.Millisecond)
	activitytest.ReturnNode(t, ref)
	require.NotContains(t, (<-ended).Unknown, mark)
}

func TestAnUnknownHolderIsReportedEvenIfTheSchedulerCannotBeChecked(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(temporal.MaintenanceSchedulerID(activitytest.SpokeName)+"/run", activitytest.WasTerminated)
	server.Blind = serviceerror.NewUnavailable("visibility is down")
	found := look(t, server, AwaitOrphansInput{Cluster: activitytest.SpokeName})
	require.Contains(t, found.Unknown, Mark{Kind: MarkNode, Name: ref.Node, Node: ref.Node, Owner: ref.Owner})

	search := newSearch(t, server, AwaitOrphansInput{Cluster: activitytest.SpokeName, Unknown: found.Unknown})
	_, err := search.read(t.Context(), search.cluster.Client)
	require.ErrorContains(t, err, "visibility is down", "the error is the only result")
	search.in.Left = []Mark{{Kind: MarkNode, Name: "gone", Node: "gone", Owner: ref.Owner}}
	require.Equal(t, search.in.Left, search.now(t).Gone)
}

func TestAClusterRequestIsAnOrphanOnlyAfterItsNodesReturned(t *testing.T) {
	ref := activitytest.TestNode(t)
	ref.Owner = temporal.NodeMaintenanceID(activitytest.SpokeName, "ops", rollout.NodeMaintenanceName("june", ref.Node)) + "/first-run"
	upgrade := locks.ClusterLockInput{Cluster: activitytest.SpokeName, Owner: temporal.ClusterUpgradeID("ops", "june", activitytest.SpokeName) + "/first-run", Scope: lcmv1.ScopeOS}
	_, err := activitytest.Initiator().RequestClusterMaintenance(t.Context(), upgrade)
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, activitytest.Initiator().WithdrawClusterMaintenance(context.Background(), upgrade))
	})
	activitytest.Cordon(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(upgrade.Owner, activitytest.WasTerminated)
	server.Set(ref.Owner, activitytest.StillRunning) // it is cancelled and cleans up
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)

	activitytest.ReturnNode(t, ref)
	asked := Mark{Kind: MarkNodeRequest, Name: "drydock-" + ref.Node, Node: ref.Node, Owner: ref.Owner}
	_, out := nodeOfRollout(Mark{Kind: MarkClusterRequest, Owner: upgrade.Owner}, []Mark{asked})
	require.True(t, out, "the lock request of its node exists")
	require.Equal(t, []MarkKind{MarkClusterRequest}, kindsOf(look(t, server, AwaitOrphansInput{}).Orphans))
	require.NoError(t, activitytest.Initiator().WithdrawClusterMaintenance(t.Context(), upgrade))
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestMarksThatCouldNotBeCleanedUpAreReportedAgain(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	later := func(pause time.Duration) AwaitOrphansInput {
		return AwaitOrphansInput{Later: []LaterOwner{{Owner: ref.Owner, Until: time.Now().Add(pause)}}}
	}
	require.Empty(t, look(t, server, later(time.Minute)).Orphans)
	orphans := look(t, server, later(-time.Second)).Orphans
	require.Len(t, orphans, 1)

	// The mark may be removed, or the workflow reset, in the meantime.
	in := later(time.Minute)
	in.Left = []Mark{orphans[0].Mark}
	require.Empty(t, look(t, server, in).Gone)
	server.Set(ref.Owner, activitytest.StillRunning)
	require.Equal(t, in.Left, look(t, server, in).Gone)
	server.Set(ref.Owner, activitytest.WasTerminated)
	in.Cluster, in.Unknown = activitytest.SpokeName, look(t, server, in).Unknown
	activitytest.ReturnNode(t, ref)
	ctx, stop := context.WithTimeout(t.Context(), activitytest.EventTimeout)
	defer stop()
	for found := (Orphans{}); !slices.Equal(in.Left, found.Gone); in.Unknown = found.Unknown { // marks of other tests may also be gone
		var err error
		found, err = (&Activities{Clusters: activitytest.Clusters, Temporal: server, Quiet: time.Hour}).AwaitOrphans(ctx, in)
		require.NoError(t, err)
	}
}

// Owners repeat their requests, but possibly only after an hour.
func TestATerminatedSchedulerIsRestartedIfAnOwnerMayWait(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  enumspb.WorkflowExecutionStatus
		askers  []string
		started bool
	}{
		{"it was terminated", activitytest.WasTerminated, []string{"cgu/default/june/spoke"}, true},
		{"it is running", activitytest.StillRunning, []string{"cgu/default/june/spoke"}, false},
		{"without slot owners", activitytest.WasTerminated, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := temporal.MaintenanceSchedulerID(activitytest.SpokeName)
			for what, looks := range map[string]func(*activitytest.Workflows){
				"in a cluster with marks": func(server *activitytest.Workflows) {
					search := newSearch(t, server, AwaitOrphansInput{Cluster: activitytest.SpokeName})
					search.now(t)
					search.now(t) // a second check follows only later
				},
				"in a cluster without marks": func(server *activitytest.Workflows) {
					_, err := (&Activities{Clusters: activitytest.Clusters, Temporal: server}).AnyMarks(t.Context(), activitytest.SpokeName)
					require.NoError(t, err)
				},
			} {
				server := activitytest.NewWorkflows()
				server.Set(id+"/run", tt.status)
				server.Listed = tt.askers
				looks(server)
				require.Equal(t, 1, server.Reads(id+"/run"), what)
				require.Equal(t, tt.started, len(server.Woken) == 1 && server.Woken[0].ID == id, what)
			}
		})
	}
}

// With thousands of waiting maintenances, a look-up of each would keep Temporal busy all the time.
func TestManyOpenOwnersAreListedAndSeldomLookedUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server, running := activitytest.NewWorkflows(), []*workflowpb.WorkflowExecutionInfo{}
		var marks []Mark
		for i := range manyOpen {
			id := temporal.NodeMaintenanceID("c1", "default", fmt.Sprintf("m%d", i))
			marks = append(marks, Mark{Kind: MarkNode, Name: "worker-1", Owner: id + "/run"})
			server.Set(marks[i].Owner, activitytest.StillRunning)
			running = append(running, &workflowpb.WorkflowExecutionInfo{Execution: &commonpb.WorkflowExecution{WorkflowId: id, RunId: "run"}})
		}
		pages := &activitytest.Pages{Pages: [][]*workflowpb.WorkflowExecutionInfo{running[:20], running[20:]}}
		owners := newOwners(t.Context(), server, rate.NewLimiter(rate.Inf, 0), nil)
		owners.lister, owners.cluster = pages, "c1"
		passed := func(pause time.Duration) map[string]temporal.Chain {
			time.Sleep(pause)
			states, err := owners.states(t.Context(), marks)
			require.NoError(t, err)
			return states
		}
		passed(0)
		passed(askOpenAfter)
		require.Equal(t, "ExecutionStatus = 'Running' AND WorkflowType = 'NodeMaintenance' AND WorkflowId STARTS_WITH 'node/c1/'", pages.Query)
		require.Zero(t, server.Reads(marks[0].Owner))

		server.Set(marks[0].Owner, activitytest.WasTerminated)
		pages.Pages[0] = running[1:20]
		require.Equal(t, temporal.ChainClosed, passed(askOpenAfter)[marks[0].Owner].State)
		require.Equal(t, 1, server.Reads(marks[0].Owner))
		require.Zero(t, server.Reads(marks[1].Owner))

		server.Set(marks[1].Owner, activitytest.WasTerminated) // the list never learns of it
		require.Equal(t, temporal.ChainClosed, passed(lookUpOpenAfter)[marks[1].Owner].State)

		owners.lister = failingList{}
		reads := server.Reads(marks[2].Owner)
		passed(askOpenAfter)
		require.Equal(t, reads+1, server.Reads(marks[2].Owner), "if they cannot be listed, each is looked up")
	})
}

type failingList struct{}

func (failingList) ListWorkflow(context.Context, *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	return nil, errors.New("no answer")
}

func TestOnlyTheMaintenancesOfAClusterAreListed(t *testing.T) {
	server := activitytest.NewWorkflows()
	require.NotNil(t, (&Activities{Temporal: server}).ownersOf(t.Context(), AwaitOrphansInput{Cluster: "c1"}).lister)
	require.Nil(t, (&Activities{Temporal: server}).ownersOf(t.Context(), AwaitOrphansInput{}).lister, "the hub has rollouts")
	require.Nil(t, (&Activities{}).ownersOf(t.Context(), AwaitOrphansInput{Cluster: "c1"}).lister, "this worker has no access to Temporal")
}

func TestManyWorkflowsThatBeginKeepTheSweeperAwakeOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := activitytest.NewWorkflows()
		sweeper := &Activities{Temporal: server}
		begins := func(cluster string, pause time.Duration) int {
			time.Sleep(pause)
			require.NoError(t, sweeper.WakeSweeper(t.Context(), WakeSweeperInput{Cluster: cluster, Begins: true}))
			return len(server.Woken)
		}
		require.Equal(t, 1, begins("c1", 0))
		require.Equal(t, 1, begins("c1", time.Second))
		require.Equal(t, 2, begins("c2", 0))
		require.Equal(t, 3, begins("c1", quietTime/6))
		require.NoError(t, sweeper.WakeSweeper(t.Context(), WakeSweeperInput{Cluster: "c1"}))
		require.Len(t, server.Woken, 4, "a wake is sent at once")
	})
}
