package sweeper

import (
	"context"
	"net/http"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/locks"
	"drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// newSearch returns an attempt of AwaitOrphans. Marks of other tests belong to unknown owners.
func newSearch(t *testing.T, server *activitytest.Workflows, in AwaitOrphansInput) *search {
	t.Helper()
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	return &search{cluster: cluster, in: in, allowed: jobsAnywhere, server: server, owners: newOwners(t.Context(), server, rate.NewLimiter(lookUpsPerSecond, lookUpsAtOnce), nil), quiet: time.Hour, emptySince: time.Now()}
}

// now reads the cluster from the API server.
func (l *search) now(t *testing.T) Orphans {
	t.Helper()
	found, err := l.read(t.Context(), l.cluster.Client)
	require.NoError(t, err)
	return found
}

// settledMarks returns when the cache has the current marks, those of earlier tests included.
func settledMarks(t *testing.T) {
	t.Helper()
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		current, _, err := findMarks(t.Context(), cluster.Client, jobsAnywhere)
		assert.NoError(c, err)
		cached, _, err := findMarks(t.Context(), cluster.Cache, jobsAnywhere)
		assert.NoError(c, err)
		assert.ElementsMatch(c, current, cached)
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

func look(t *testing.T, server *activitytest.Workflows, in AwaitOrphansInput) Orphans {
	t.Helper()
	return newSearch(t, server, in).now(t)
}

// everything starts a maintenance that marks every kind of object, and stops it during its Job.
func everything(t *testing.T, ref activitykit.NodeRef) jobs.RunJobInput {
	t.Helper()
	_, err := activitytest.Nodes().AcquireNode(t.Context(), node.AcquireNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	t.Cleanup(func() {
		_, err := activitytest.Initiator().WithdrawNodeMaintenance(context.Background(), locks.NodeLockInput{NodeRef: ref})
		require.NoError(t, err)
	})
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	work := activitytest.Firmware(t, ref, activitytest.Lasting("1h"))
	_, stop := activitytest.Running(t, work)
	stop()
	t.Cleanup(func() { require.NoError(t, activitytest.Jobs().RemoveJob(context.Background(), work)) })
	return work
}

func kindsOf(orphans []Orphan) []MarkKind {
	var kinds []MarkKind
	for _, orphan := range orphans {
		kinds = append(kinds, orphan.Kind)
	}
	return kinds
}

func TestAQuickCheckFindsAnyMarkWithFourRequests(t *testing.T) {
	ref := activitytest.TestNode(t)
	_, err := activitytest.Nodes().AcquireNode(t.Context(), node.AcquireNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	defer activitytest.ReturnNode(t, ref)
	var requests atomic.Int32
	counted := func(name string) *rest.Config {
		config := rest.CopyConfig(activitytest.Stack.Cluster(name).Config)
		config.Wrap(func(next http.RoundTripper) http.RoundTripper {
			return activitytest.Transport(func(r *http.Request) (*http.Response, error) {
				requests.Add(1)
				return next.RoundTrip(r)
			})
		})
		return config
	}
	both := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: counted(activitytest.SpokeName), activitytest.HubName: counted(activitytest.HubName)}), kube.Options{})
	t.Cleanup(both.Close)
	sweeper := &Activities{Clusters: both, Temporal: activitytest.NewWorkflows()}
	for name, marked := range map[string]bool{activitytest.SpokeName: true, activitytest.HubName: false} {
		for range 2 { // the first call also reads the served kinds
			requests.Store(0)
			found, err := sweeper.AnyMarks(t.Context(), name)
			require.NoError(t, err)
			require.Equal(t, marked, found, name)
		}
		require.EqualValues(t, 4, requests.Load(), name)
	}
}

func TestAllMarksOfATerminatedMaintenanceAreCleanedUp(t *testing.T) {
	ref := activitytest.TestNode(t)
	work := everything(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)

	left := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkJob, MarkNode, MarkNodeRequest}, kindsOf(left), "in the order of a cleanup")
	require.Equal(t, "Job "+work.Job.Namespace+"/"+jobs.NameOfJob(work), left[0].String())
	require.Contains(t, left[0].Ended, "Terminated at")
	job := jobs.OrphanedJob{Cluster: activitytest.SpokeName, Namespace: left[0].Namespace, Name: left[0].Name, Owner: left[0].Owner}
	for range 2 { // the second call repeats the cleanup
		require.NoError(t, activitytest.Jobs().RemoveOrphanedJob(t.Context(), job))
		require.Empty(t, activitytest.PodsIn(t, work.Job.Namespace), "the pods are gone when it returns")
	}
	require.True(t, activitytest.ReturnNode(t, activitykit.NodeRef{Cluster: activitytest.SpokeName, Node: left[1].Node, Owner: left[1].Owner}).Uncordoned)
	byMark := locks.NodeLockInput{NodeRef: activitykit.NodeRef{Cluster: activitytest.SpokeName, Node: left[2].Node, Owner: left[2].Owner}}
	_, err := activitytest.Initiator().WithdrawNodeMaintenance(t.Context(), byMark)
	require.NoError(t, err)

	activitytest.RequireNoTrace(t, ref.Node)
	activitytest.RequireJobGone(t, work)
	require.Empty(t, activitytest.RequestsFor(t, ref.Node))
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestMarksOfAWaitingMaintenanceAreFoundOnABusyNode(t *testing.T) {
	second := activitytest.TestNode(t)
	first := second
	first.Owner = "node/spoke/default/first/first-run"
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), second))
	activitytest.Changed(t, second.Node, activitytest.Annotated(kube.AnnotationOwner, first.Owner))
	server := activitytest.NewWorkflows()
	server.Set(first.Owner, activitytest.StillRunning)
	server.Set(second.Owner, activitytest.WasTerminated)

	found := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkNode}, kindsOf(found))
	require.Equal(t, second.Owner, found[0].Owner)
	activitytest.ReturnNode(t, second)
	node := activitytest.GetNode(t, second.Node)
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned))
	require.Equal(t, first.Owner, kube.Owner(node), "the first owner still has it")
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestAMarkSetDuringTheWatchIsFoundImmediately(t *testing.T) {
	ref := activitytest.TestNode(t)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	sweeper := &Activities{Clusters: activitytest.Clusters, Temporal: server, Quiet: time.Hour}
	in := AwaitOrphansInput{Cluster: activitytest.SpokeName, Unknown: look(t, server, AwaitOrphansInput{}).Unknown}
	settledMarks(t)
	found := make(chan Orphans, 1)
	go func() {
		orphans, err := sweeper.AwaitOrphans(t.Context(), in)
		assert.NoError(t, err)
		found <- orphans
	}()
	activitytest.Cordon(t, ref) // like an activity of a terminated workflow
	select {
	case orphans := <-found:
		require.Equal(t, ref.Owner, orphans.Orphans[0].Owner)
	case <-time.After(activitytest.EventTimeout):
		t.Fatal("the mark is not found")
	}
}

func TestAMarkOnlyInTheCacheIsNotAnOrphan(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	node := activitytest.GetNode(t, ref.Node)
	activitytest.ReturnNode(t, ref)
	stale := nodeMarks(node)
	require.Len(t, stale, 1)
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	is, err := stillMarked(t.Context(), cluster.Client, stale[0])
	require.NoError(t, err)
	require.False(t, is)
}

func TestKeepCordonedNodesStayCordoned(t *testing.T) {
	tests := []struct {
		name   string
		change func(*corev1.Node)
	}{
		{"a node with keep-cordoned", activitytest.Annotated(kube.AnnotationKeepCordoned, "true")},
		{"a node that was cordoned before", activitytest.Annotated(kube.AnnotationFormerState, string(kube.FormerUnschedulable))},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			activitytest.Cordon(t, ref)
			activitytest.Changed(t, ref.Node, tt.change)
			server := activitytest.NewWorkflows()
			server.Set(ref.Owner, activitytest.WasTerminated)
			require.Len(t, look(t, server, AwaitOrphansInput{}).Orphans, 1)
			require.Contains(t, activitytest.ReturnNode(t, ref).Note, "left cordoned")
			require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
			require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
		})
	}
}

func TestAClusterWithoutMarksHasNoOrphans(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Changed(t, ref.Node, activitytest.Cordoned) // by a person
	foreign := activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{GenerateName: "theirs-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node, Scope: lcmv1.ScopeOS},
	})
	marks, _, err := findMarks(t.Context(), activitytest.TestCluster(t).Client, jobsAnywhere)
	require.NoError(t, err)
	require.False(t, slices.ContainsFunc(marks, func(m Mark) bool { return m.Name == ref.Node || m.Name == foreign.Name }))
}

func TestAJobKeptForItsLogsIsNotAMark(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := activitytest.Firmware(t, ref, map[string]string{devstack.AnnotationExitCode: "1"})
	require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(activitytest.Jobs().RunJob(t.Context(), in)))
	activitytest.ReturnNode(t, ref)
	server := activitytest.NewWorkflows()
	server.Set(ref.Owner, activitytest.WasTerminated)
	left := look(t, server, AwaitOrphansInput{}).Orphans
	require.Equal(t, []MarkKind{MarkJob}, kindsOf(left))
	require.NoError(t, activitytest.Jobs().RemoveOrphanedJob(t.Context(), jobs.OrphanedJob{Cluster: activitytest.SpokeName, Namespace: left[0].Namespace, Name: left[0].Name, Owner: left[0].Owner}))
	require.NotNil(t, activitytest.JobOf(t, in), "a failed Job is kept for its logs")
	require.Empty(t, look(t, server, AwaitOrphansInput{}).Orphans)
}

func TestAClusterWithoutMarksBecomesQuiet(t *testing.T) {
	began := time.Now()
	found, err := (&Activities{Clusters: activitytest.Clusters, Temporal: activitytest.NewWorkflows(), Quiet: time.Nanosecond}).AwaitOrphans(t.Context(), AwaitOrphansInput{Cluster: activitytest.HubName})
	require.NoError(t, err)
	require.Equal(t, Orphans{Quiet: true}, found)
	require.Less(t, time.Since(began), activitytest.EventTimeout)
}

func TestAWakeSignalStartsTheSweeperOfTheCluster(t *testing.T) {
	server := activitytest.NewWorkflows()
	require.NoError(t, (&Activities{Temporal: server}).WakeSweeper(t.Context(), WakeSweeperInput{Cluster: "c1", By: "node/c1/ops/n1", Why: "it begins"}))
	require.Len(t, server.Woken, 1)
	require.Equal(t, "sweeper/c1", server.Woken[0].ID)
	require.Equal(t, temporal.TaskQueue, server.Woken[0].TaskQueue)
}
