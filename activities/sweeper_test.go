package activities

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// newLookout is an attempt at AwaitOrphans. What other tests have marked is of unknown holders to it.
func newLookout(t *testing.T, server *someWorkflows, in AwaitOrphansInput) *lookout {
	t.Helper()
	cluster, err := clusters.Cluster(t.Context(), spokeName)
	require.NoError(t, err)
	return &lookout{cluster: cluster, in: in, server: server, owners: newOwners(server), quiet: time.Hour, emptySince: time.Now()}
}

// now looks at the cluster as the API server has it.
func (l *lookout) now(t *testing.T) Orphans {
	t.Helper()
	found, err := l.look(t.Context(), l.cluster.Client)
	require.NoError(t, err)
	return found
}

func look(t *testing.T, server *someWorkflows, in AwaitOrphansInput) Orphans {
	t.Helper()
	return newLookout(t, server, in).now(t)
}

// everything has a maintenance mark all that one can mark, and stops in the middle of its job.
func everything(t *testing.T, ref NodeRef) RunJobInput {
	t.Helper()
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := initiator().WithdrawNodeMaintenance(context.Background(), NodeLockInput{NodeRef: ref})
		require.NoError(t, err)
	})
	require.NoError(t, planMaintenance(t.Context(), ref))
	work := firmware(t, ref, lasting("1h"))
	_, stop := running(t, work)
	stop()
	t.Cleanup(func() { require.NoError(t, jobs().RemoveJob(context.Background(), work)) })
	return work
}

func kindsOf(orphans []Orphan) []MarkKind {
	var kinds []MarkKind
	for _, orphan := range orphans {
		kinds = append(kinds, orphan.Kind)
	}
	return kinds
}

func TestAGlanceAtAClusterIsFourRequestsAndSeesWhetherAnythingIsMarked(t *testing.T) {
	ref := testNode(t)
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	defer giveBack(t, ref)
	var requests atomic.Int32
	counted := func(name string) *rest.Config {
		config := rest.CopyConfig(stack.Cluster(name).Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return transport(func(r *http.Request) (*http.Response, error) {
				requests.Add(1)
				return next.RoundTrip(r)
			})
		})
		return config
	}
	both := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{spokeName: counted(spokeName), hubName: counted(hubName)}), kube.Options{})
	t.Cleanup(both.Close)
	sweeper := &Sweeper{Clusters: both, Temporal: newWorkflows()}
	for name, marked := range map[string]bool{spokeName: true, hubName: false} {
		for range 2 { // what the cluster serves is asked the first time
			requests.Store(0)
			found, err := sweeper.AnyMarks(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, marked, found, name)
		}
		require.EqualValues(t, 4, requests.Load(), name)
	}
}

func TestEverythingThatATerminatedMaintenanceHasMarkedIsFoundAndTakenBackByItsMarks(t *testing.T) {
	ref := testNode(t)
	work := everything(t, ref)
	server := newWorkflows()
	server.set(ref.Owner, wasTerminated)

	left := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkJob, MarkNode, MarkNodeRequest}, kindsOf(left), "in the order of a clean-up")
	require.Equal(t, "Job "+work.Job.Namespace+"/"+nameOfJob(work), left[0].String())
	require.Contains(t, left[0].Ended, "Terminated at")
	job := OrphanedJob{Cluster: spokeName, Namespace: left[0].Namespace, Name: left[0].Name, Owner: left[0].Owner}
	for range 2 { // also when it was done already
		require.NoError(t, jobs().RemoveOrphanedJob(t.Context(), job))
		require.Empty(t, podsIn(t, work.Job.Namespace), "they are gone when it returns")
	}
	require.True(t, giveBack(t, NodeRef{Cluster: spokeName, Node: left[1].Node, Owner: left[1].Owner}).Uncordoned)
	byMark := NodeLockInput{NodeRef: NodeRef{Cluster: spokeName, Node: left[2].Node, Owner: left[2].Owner}}
	_, err := initiator().WithdrawNodeMaintenance(t.Context(), byMark)
	require.NoError(t, err)

	requireNoTrace(t, ref.Node)
	requireJobGone(t, work)
	require.Empty(t, requestsFor(t, ref.Node))
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestWhatAMaintenanceMarksWhileItWaitsForItsNodeIsFoundBesideWhoHasIt(t *testing.T) {
	second := testNode(t)
	first := second
	first.Owner = "node/spoke/default/first/first-run"
	require.NoError(t, planMaintenance(t.Context(), second))
	changed(t, second.Node, annotated(kube.AnnotationOwner, first.Owner))
	server := newWorkflows()
	server.set(first.Owner, stillRunning)
	server.set(second.Owner, wasTerminated)

	found := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkNode}, kindsOf(found))
	require.Equal(t, second.Owner, found[0].Owner)
	giveBack(t, second)
	node := getNode(t, second.Node)
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned))
	require.Equal(t, first.Owner, kube.Owner(node), "the first has it still")
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestAWorkflowThatGoesOnIsAskedAboutOnceInAWhile(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	server := newWorkflows()
	server.set(ref.Owner, stillRunning)
	lookout := newLookout(t, server, AwaitOrphansInput{})
	for range 3 { // at every change of any node
		require.Empty(t, lookout.now(t).Orphans)
	}
	require.Equal(t, 1, server.timesAsked(ref.Owner))

	server.set(ref.Owner, wasTerminated)
	known := lookout.owners.known[ref.Owner]
	known.at = known.at.Add(-askOpenAfter)
	lookout.owners.known[ref.Owner] = known
	require.Len(t, lookout.now(t).Orphans, 1)
	giveBack(t, ref)
	lookout.now(t)
	require.NotContains(t, lookout.owners.known, ref.Owner, "nothing is remembered of those that have no mark")
}

func TestAMarkThatIsSetWhileTheSweeperWatchesIsFoundAtOnce(t *testing.T) {
	ref := testNode(t)
	server := newWorkflows()
	server.set(ref.Owner, wasTerminated)
	sweeper := &Sweeper{Clusters: clusters, Temporal: server, Quiet: time.Hour}
	in := AwaitOrphansInput{Cluster: spokeName, Unknown: look(t, server, AwaitOrphansInput{}).Unknown}
	found := make(chan Orphans, 1)
	go func() {
		orphans, err := sweeper.AwaitOrphans(t.Context(), in)
		assert.NoError(t, err)
		found <- orphans
	}()
	cordon(t, ref) // as the activity of a terminated workflow does that knows nothing of it yet
	select {
	case orphans := <-found:
		require.Equal(t, ref.Owner, orphans.Orphans[0].Owner)
	case <-time.After(newsLimit):
		t.Fatal("it is not found")
	}
}

func TestAMarkThatTheCacheShowsButThatIsGoneIsNoOrphan(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	server := newWorkflows()
	server.set(ref.Owner, wasTerminated)
	node := getNode(t, ref.Node)
	giveBack(t, ref)
	stale := nodeMarks(node)
	require.Len(t, stale, 1)
	cluster, err := clusters.Cluster(t.Context(), spokeName)
	require.NoError(t, err)
	is, err := stands(t.Context(), cluster.Client, stale[0])
	require.NoError(t, err)
	require.False(t, is)
}

func TestTheMarksOfASecondMaintenanceByTheSameNameAreNotTheFirsts(t *testing.T) {
	ref := testNode(t)
	first, second := ref, ref
	second.Owner = "node/spoke/default/" + ref.Node + "/second-run"
	server := newWorkflows()
	server.set(second.Owner, stillRunning) // under the id of the first, which is over
	cordon(t, first)
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)

	server.set(first.Owner, wasTerminated)
	require.Equal(t, first.Owner, look(t, server, AwaitOrphansInput{}).Orphans[0].Owner)
	giveBack(t, first)
	cordon(t, second)
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
	require.Contains(t, giveBack(t, first).Note, "it is under maintenance by", "a sweep that comes late touches nothing")
	require.True(t, getNode(t, ref.Node).Spec.Unschedulable)
}

func TestWhatAPersonWantsKeptStays(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
	}{
		{"a node that is to be kept cordoned", annotated(kube.AnnotationKeepCordoned, "true")},
		{"a cordon that was there before", annotated(kube.AnnotationFormerState, string(kube.FormerUnschedulable))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := testNode(t)
			cordon(t, ref)
			changed(t, ref.Node, tt.change)
			server := newWorkflows()
			server.set(ref.Owner, wasTerminated)
			require.Len(t, look(t, server, AwaitOrphansInput{}).Orphans, 1)
			require.Contains(t, giveBack(t, ref).Note, "left cordoned")
			require.True(t, getNode(t, ref.Node).Spec.Unschedulable)
			require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
		})
	}
}

func TestWithoutAMarkNothingIsFound(t *testing.T) {
	ref := testNode(t)
	changed(t, ref.Node, cordoned) // by a person
	foreign := created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node, Scope: lcmv1.ScopeOS},
	})
	marks, err := findMarks(t.Context(), testCluster(t).Client)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(marks, func(m Mark) bool { return m.Name == ref.Node || m.Name == foreign.Name }))
}

func TestAJobThatIsKeptForItsLogsIsNoMark(t *testing.T) {
	ref := testNode(t)
	in := firmware(t, ref, map[string]string{devstack.AnnotationExitCode: "1"})
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(jobs().RunJob(t.Context(), in)))
	giveBack(t, ref)
	server := newWorkflows()
	server.set(ref.Owner, wasTerminated)
	left := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkJob}, kindsOf(left))
	require.NoError(t, jobs().RemoveOrphanedJob(t.Context(), OrphanedJob{Cluster: spokeName, Namespace: left[0].Namespace, Name: left[0].Name, Owner: left[0].Owner}))
	require.NotNil(t, jobOf(t, in), "it failed: its logs are kept")
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestAMarkOfAnUnknownHolderIsReportedOnce(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	found := look(t, newWorkflows(), AwaitOrphansInput{})
	require.Empty(t, found.Orphans)
	mark := Mark{Kind: MarkNode, Name: ref.Node, Node: ref.Node, Owner: ref.Owner}
	require.Contains(t, found.Unknown, mark)

	server := newWorkflows()
	sweeper := &Sweeper{Clusters: clusters, Temporal: server, Quiet: time.Hour}
	first, err := sweeper.AwaitOrphans(t.Context(), AwaitOrphansInput{Cluster: spokeName})
	require.NoError(t, err)
	require.Contains(t, first.Unknown, mark)
	ended := make(chan Orphans, 1)
	go func() {
		next, err := sweeper.AwaitOrphans(t.Context(), AwaitOrphansInput{Cluster: spokeName, Unknown: first.Unknown})
		assert.NoError(t, err)
		ended <- next
	}()
	require.Never(t, func() bool { return len(ended) > 0 }, time.Second, 50*time.Millisecond)
	giveBack(t, ref)
	require.NotContains(t, (<-ended).Unknown, mark)
}

func TestAMarkOfAnUnknownHolderIsReportedThoughNobodyCanSayWhoWaitsForTheScheduler(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	server := newWorkflows()
	server.set(temporal.MaintenanceSchedulerID(spokeName)+"/run", wasTerminated)
	server.blind = serviceerror.NewUnavailable("visibility is away")
	found := look(t, server, AwaitOrphansInput{Cluster: spokeName})
	require.Contains(t, found.Unknown, Mark{Kind: MarkNode, Name: ref.Node, Node: ref.Node, Owner: ref.Owner})

	lookout := newLookout(t, server, AwaitOrphansInput{Cluster: spokeName, Unknown: found.Unknown})
	_, err := lookout.look(t.Context(), lookout.cluster.Client)
	require.ErrorContains(t, err, "visibility is away", "there is nothing else to say")
	lookout.in.Left = []Mark{{Kind: MarkNode, Name: "gone", Node: "gone", Owner: ref.Owner}}
	require.Equal(t, lookout.in.Left, lookout.now(t).Gone)
}

func TestTheRequestForAClusterIsAnOrphanOnlyWhenTheNodesOfItsRolloutAreBack(t *testing.T) {
	ref := testNode(t)
	ref.Owner = temporal.NodeMaintenanceID(spokeName, "ops", rollout.NodeMaintenanceName("june", ref.Node)) + "/first-run"
	upgrade := ClusterLockInput{Cluster: spokeName, Owner: temporal.ClusterUpgradeID("ops", "june", spokeName) + "/first-run", Scope: lcmv1.ScopeOS}
	_, err := initiator().RequestClusterMaintenance(t.Context(), upgrade)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, initiator().WithdrawClusterMaintenance(context.Background(), upgrade)) })
	cordon(t, ref)
	server := newWorkflows()
	server.set(upgrade.Owner, wasTerminated)
	server.set(ref.Owner, stillRunning) // it was cancelled, and cleans up
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)

	giveBack(t, ref)
	asked := Mark{Kind: MarkNodeRequest, Name: "drydock-" + ref.Node, Node: ref.Node, Owner: ref.Owner}
	_, out := nodeOutFor(Mark{Kind: MarkClusterRequest, Owner: upgrade.Owner}, []Mark{asked})
	require.True(t, out, "the locks of its node are asked to let go still")
	require.Equal(t, []MarkKind{MarkClusterRequest}, kindsOf(look(t, server, AwaitOrphansInput{}).Orphans))
	require.NoError(t, initiator().WithdrawClusterMaintenance(t.Context(), upgrade))
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestTheMarksOfAnOwnerThatCouldNotBeSweptCountAgainLater(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	server := newWorkflows()
	server.set(ref.Owner, wasTerminated)
	later := func(pause time.Duration) AwaitOrphansInput {
		return AwaitOrphansInput{Later: []LaterOwner{{Owner: ref.Owner, Until: time.Now().Add(pause)}}}
	}
	require.Empty(t, look(t, server, later(time.Minute)).Orphans)
	orphans := look(t, server, later(-time.Second)).Orphans
	require.Len(t, orphans, 1)

	// Somebody may remove the mark meanwhile, or reset the workflow.
	in := later(time.Minute)
	in.Left = []Mark{orphans[0].Mark}
	require.Empty(t, look(t, server, in).Gone)
	server.set(ref.Owner, stillRunning)
	require.Equal(t, in.Left, look(t, server, in).Gone)
	server.set(ref.Owner, wasTerminated)
	in.Cluster, in.Unknown = spokeName, look(t, server, in).Unknown
	giveBack(t, ref)
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	for found := (Orphans{}); !slices.Equal(in.Left, found.Gone); in.Unknown = found.Unknown { // what other tests have marked goes as well
		var err error
		found, err = (&Sweeper{Clusters: clusters, Temporal: server, Quiet: time.Hour}).AwaitOrphans(ctx, in)
		require.NoError(t, err)
	}
}

func TestAClusterWithoutMarksIsQuietAfterAWhile(t *testing.T) {
	began := time.Now()
	found, err := (&Sweeper{Clusters: clusters, Temporal: newWorkflows(), Quiet: time.Nanosecond}).AwaitOrphans(t.Context(), AwaitOrphansInput{Cluster: hubName})
	require.NoError(t, err)
	require.Equal(t, Orphans{Quiet: true}, found)
	require.Less(t, time.Since(began), 20*time.Second)
}

// Those that wait for a slot ask again by themselves, but after an hour at times.
func TestASchedulerThatWasTerminatedIsStartedAnewWhereSomebodyMayWaitForIt(t *testing.T) {
	for _, tt := range []struct {
		name    string
		status  enumspb.WorkflowExecutionStatus
		askers  []string
		started bool
	}{
		{"it was terminated", wasTerminated, []string{"cgu/default/june/spoke"}, true},
		{"it goes on", stillRunning, []string{"cgu/default/june/spoke"}, false},
		{"nobody is there who could wait", wasTerminated, nil, false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			id := temporal.MaintenanceSchedulerID(spokeName)
			for what, looks := range map[string]func(*someWorkflows){
				"while something is marked": func(server *someWorkflows) {
					lookout := newLookout(t, server, AwaitOrphansInput{Cluster: spokeName})
					lookout.now(t)
					lookout.now(t) // a moment later nobody is asked again
				},
				"at rest": func(server *someWorkflows) {
					_, err := (&Sweeper{Clusters: clusters, Temporal: server}).AnyMarks(t.Context(), spokeName)
					require.NoError(t, err)
				},
			} {
				server := newWorkflows()
				server.set(id+"/run", tt.status)
				server.listed = tt.askers
				looks(server)
				require.Equal(t, 1, server.timesAsked(id+"/run"), what)
				require.Equal(t, tt.started, len(server.woken) == 1 && server.woken[0].ID == id, what)
			}
		})
	}
}

func TestAWakeStartsTheSweeperOfTheCluster(t *testing.T) {
	server := newWorkflows()
	require.NoError(t, (&Sweeper{Temporal: server}).WakeSweeper(t.Context(), WakeSweeperInput{Cluster: "c1", By: "node/c1/ops/n1", Why: "it begins"}))
	require.Len(t, server.woken, 1)
	require.Equal(t, "sweeper/c1", server.woken[0].ID)
	require.Equal(t, temporal.TaskQueue, server.woken[0].TaskQueue)
}
