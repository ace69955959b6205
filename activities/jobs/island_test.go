package jobs_test

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/views"
)

// island is a cluster for which the worker has no credentials. Its agent is simulated, and works on the shared spoke.
type island struct {
	t      *testing.T
	name   string
	agents *agent.Agents
	// offline: the agent does nothing. refusal is why it refuses actions; nil: it does not. forgets: it crashes after every other attempt, before it reports that.
	offline, forgets atomic.Bool
	// old: its API server is that of Kubernetes before 1.24, which does not count the ready pods of a Job.
	old      atomic.Bool
	attempts atomic.Int32
	refusal  atomic.Pointer[error]
}

func newIsland(t *testing.T) *island {
	t.Helper()
	hub := activitytest.Stack.Cluster(activitytest.HubName)
	i := &island{t: t, name: devstacktest.Namespace(t, hub)}
	activitytest.ManagedCluster(t, i.name, nil)
	agents, err := agent.Start(t.Context(), hub.Config, map[string]*rest.Config{i.name: activitytest.Stack.Cluster(activitytest.SpokeName).Config}, agent.Options{
		Offline: func(string) bool { return i.offline.Load() },
		Forgets: func(string) bool { return i.forgets.Load() && i.attempts.Add(1)%2 == 1 },
		Show: func(object map[string]any) {
			if status, is := object["status"].(map[string]any); is && i.old.Load() {
				status["active"] = int64(1)
				delete(status, "ready")
			}
		},
		Refuse: func(string) error {
			if refusal := i.refusal.Load(); refusal != nil {
				return *refusal
			}
			return nil
		},
	})
	require.NoError(t, err)
	t.Cleanup(agents.Stop)
	i.agents = agents
	return i
}

// preparation is a preparation Job of a rollout on the island.
func (i *island) preparation(rollout string, kind precache.Kind) jobs.ClusterJob {
	in := preparation(rollout, kind)
	in.Cluster, in.Interval = i.name, time.Second
	return in
}

func (i *island) refuse(err error) { i.refusal.Store(&err) }

func (i *island) accept() {
	i.refusal.Store(nil)
	i.agents.Wake()
}

// onHub returns the views, or the actions, of the island.
func (i *island) onHub(kind schema.GroupVersionKind) []unstructured.Unstructured {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind)
	if err := activitytest.BareCluster(i.t).Client.List(context.Background(), list, client.InNamespace(i.name)); err != nil {
		i.t.Error(err)
	}
	return list.Items
}

// await waits until the hub has so many views, or actions, of the island.
func (i *island) await(kind schema.GroupVersionKind, count int) []unstructured.Unstructured {
	i.t.Helper()
	var found []unstructured.Unstructured
	require.Eventually(i.t, func() bool {
		found = i.onHub(kind)
		return len(found) == count
	}, activitytest.EventTimeout, 20*time.Millisecond, "%d %ss", count, kind.Kind)
	return found
}

// setAvailable sets whether the hub sees the island, and waits until the cache has that.
func (i *island) setAvailable(available metav1.ConditionStatus) {
	i.t.Helper()
	activitytest.SetAvailable(i.t, i.name, available)
	hub, err := activitytest.Clusters.Hub(i.t.Context())
	require.NoError(i.t, err)
	require.Eventually(i.t, func() bool {
		registered, err := activitykit.ReadManagedCluster(i.t.Context(), hub, i.name)
		return err == nil && registered != nil && policies.Offline(registered) == (available != metav1.ConditionTrue)
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

// awaitViewed waits until the agent has shown the Job.
func (i *island) awaitViewed() {
	i.t.Helper()
	require.Eventually(i.t, func() bool {
		_, shown, _ := unstructured.NestedMap(i.await(views.Views, 1)[0].Object, "status", "result")
		return shown
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

// timeOut gives the Job more and more time, until the error of its time-out says this, and returns it.
func (i *island) timeOut(in jobs.ClusterJob, says string) error {
	i.t.Helper()
	for enough := time.Second; ; enough *= 2 {
		in.Deadline = time.Now().Add(enough)
		err := <-startPreparation(i.t, in)
		require.Equal(i.t, temporal.ErrJobTimedOut, temporal.ErrorType(err), "%v", err)
		require.False(i.t, time.Now().Before(in.Deadline))
		if strings.Contains(err.Error(), says) {
			return err
		}
		require.Less(i.t, enough, activitytest.EventTimeout, "%v does not say %q", err, says)
	}
}

// remove removes the Job, and requires that nothing is left on the hub.
func (i *island) remove(in jobs.ClusterJob) {
	i.t.Helper()
	in.Deadline = time.Now().Add(activitytest.EventTimeout)
	require.NoError(i.t, activitytest.Jobs().RemoveClusterJob(i.t.Context(), in))
	i.requireNothingLeft()
}

func (i *island) requireNothingLeft() {
	i.t.Helper()
	require.Empty(i.t, i.onHub(views.Views))
	require.Empty(i.t, i.onHub(views.Actions))
}

func (i *island) requireGone(in jobs.ClusterJob) {
	i.t.Helper()
	require.Eventually(i.t, func() bool { return clusterJob(i.t, in) == nil }, activitytest.EventTimeout, 50*time.Millisecond)
}

// created are the objects that the agent created.
func (i *island) created() []string {
	var created []string
	for _, action := range i.agents.Actions() {
		if _, what, is := strings.Cut(action, " Create "); is {
			created = append(created, what)
		}
	}
	return created
}
