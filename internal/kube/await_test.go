package kube_test

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/envtest"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

func installLocks(t *testing.T) {
	t.Helper()
	_, err := envtest.InstallCRDs(stack.Cluster("spoke").Config, envtest.CRDInstallOptions{
		Paths: []string{"../../deploy/crds/lcm.mirantis.com_nodeworkloadlocks.yaml"}, ErrorIfPathMissing: true,
	})
	require.NoError(t, err)
}

func newNode(t *testing.T, cluster *kube.Cluster) *corev1.Node {
	t.Helper()
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{GenerateName: "node-"}}
	require.NoError(t, cluster.Client.Create(t.Context(), node))
	return node
}

func label(t *testing.T, cluster *kube.Cluster, node *corev1.Node, value string) {
	t.Helper()
	patch := client.MergeFrom(node.DeepCopy())
	node.Labels = map[string]string{"test": value}
	require.NoError(t, cluster.Client.Patch(t.Context(), node, patch))
}

// awaiting runs Await in the background and counts the checks.
func awaiting(ctx context.Context, cluster *kube.Cluster, kind client.Object, done func() bool) (checks *atomic.Int32, result chan error) {
	checks, result = &atomic.Int32{}, make(chan error, 1)
	go func() {
		result <- cluster.Await(ctx, []client.Object{kind}, func(context.Context) (bool, error) {
			checks.Add(1)
			return done(), nil
		})
	}()
	return checks, result
}

func TestAwaitChecksAgainWhenAnObjectChanges(t *testing.T) {
	cluster := spoke(t)
	node := newNode(t, cluster)
	var due atomic.Bool
	checks, result := awaiting(t.Context(), cluster, &corev1.Node{}, due.Load)
	require.Eventually(t, func() bool { return checks.Load() == 1 }, 5*time.Minute, time.Millisecond)
	require.Never(t, func() bool { return checks.Load() > 1 }, 200*time.Millisecond, 10*time.Millisecond, "nothing has changed")

	due.Store(true)
	began := time.Now()
	label(t, cluster, node, "changed")
	require.NoError(t, <-result)
	require.Less(t, time.Since(began), 25*time.Second, "not by the safety interval")
}

func TestAwaitChecksOnlyAfterChangesOfWatchedObjects(t *testing.T) {
	cluster := spoke(t)
	watched, other := newNode(t, cluster), newNode(t, cluster)
	var due atomic.Bool
	checks, result := awaiting(t.Context(), cluster, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: watched.Name}}, due.Load)
	require.Eventually(t, func() bool { return checks.Load() == 1 }, 5*time.Minute, time.Millisecond)
	label(t, cluster, other, "changed")
	require.Never(t, func() bool { return checks.Load() > 1 }, 200*time.Millisecond, 10*time.Millisecond)
	due.Store(true)
	label(t, cluster, watched, "changed")
	require.NoError(t, <-result)
}

func TestRecordedHasTheObjectsThatChanged(t *testing.T) {
	cluster := spoke(t)
	changing, deleted, other := newNode(t, cluster), newNode(t, cluster), newNode(t, cluster)
	nodes := kube.Record(&corev1.Node{})
	awaitChange := func(change func(), of string) (changed []string) {
		t.Helper()
		started, once, result := make(chan struct{}), sync.Once{}, make(chan error, 1)
		go func() {
			result <- cluster.Await(t.Context(), []client.Object{nodes}, func(context.Context) (bool, error) {
				once.Do(func() { close(started) })
				for _, key := range nodes.Take() {
					changed = append(changed, key.Name)
				}
				return slices.Contains(changed, of), nil
			})
		}()
		<-started
		change()
		require.NoError(t, <-result)
		return changed
	}
	awaitChange(func() { label(t, cluster, other, "changed") }, other.Name) // the events of its creation come before

	require.NotContains(t, awaitChange(func() { label(t, cluster, changing, "changed") }, changing.Name), other.Name)
	changed := awaitChange(func() { require.NoError(t, cluster.Client.Delete(t.Context(), deleted)) }, deleted.Name)
	require.NotContains(t, changed, other.Name)
	require.NotContains(t, changed, changing.Name, "each change is taken once")
}

func TestAwaitEndsWithItsContextOrTheErrorOfACheck(t *testing.T) {
	cluster := spoke(t)
	newNode(t, cluster)
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, func(context.Context) (bool, error) { return true, nil })) // starts the informer
	before := runtime.NumGoroutine()

	for range 50 {
		ctx, cancel := context.WithCancel(t.Context())
		checks, result := awaiting(ctx, cluster, &corev1.Node{}, func() bool { return false })
		require.Eventually(t, func() bool { return checks.Load() > 0 }, 5*time.Minute, time.Millisecond)
		cancel()
		require.ErrorIs(t, <-result, context.Canceled)
	}
	broken := errors.New("broken")
	err := cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, func(context.Context) (bool, error) { return false, broken })
	require.ErrorIs(t, err, broken)
	require.Eventually(t, func() bool { return runtime.NumGoroutine() <= before+2 }, 5*time.Minute, 20*time.Millisecond)
}

func TestManyChangesDuringACheckCauseOneMoreCheck(t *testing.T) {
	cluster := spoke(t)
	node := newNode(t, cluster)
	entered, proceed := make(chan struct{}), make(chan struct{})
	checks, result := 0, make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		result <- cluster.Await(ctx, []client.Object{&corev1.Node{}}, func(context.Context) (bool, error) {
			checks++
			if checks == 1 {
				close(entered)
				<-proceed
			}
			return false, nil
		})
	}()
	<-entered
	for _, value := range []string{"a", "b", "c", "d", "e"} {
		label(t, cluster, node, value)
	}
	require.NoError(t, cluster.Await(t.Context(), []client.Object{&corev1.Node{}}, func(ctx context.Context) (bool, error) {
		var cached corev1.Node
		err := cluster.Cache.Get(ctx, client.ObjectKeyFromObject(node), &cached)
		return cached.Labels["test"] == "e", err
	}))
	close(proceed)
	require.Never(t, func() bool { return len(result) > 0 }, 200*time.Millisecond, 20*time.Millisecond)
	cancel()
	require.ErrorIs(t, <-result, context.Canceled)
	require.LessOrEqual(t, checks, 5, "on a slow machine, the last events may come late")
}

func TestAKindThatIsNotServedIsAnErrorUnlessItIsOptional(t *testing.T) {
	cluster := spoke(t)
	kind := &lcmv1.ClusterWorkloadLock{}
	err := cluster.Await(t.Context(), []client.Object{kind}, func(context.Context) (bool, error) { return true, nil })
	require.ErrorContains(t, err, "cluster spoke does not serve lcm.mirantis.com/v1alpha1, Kind=ClusterWorkloadLock")
	require.NoError(t, cluster.Await(t.Context(), []client.Object{kube.IfServed(kind)}, func(context.Context) (bool, error) { return true, nil }))
}
