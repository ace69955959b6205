package lockcontroller

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/temporal"
)

func TestAnApplicationHasALockForEachNode(t *testing.T) {
	a := newApplication(t, 2)
	report := a.step()
	require.Equal(t, 2, report.Active)
	require.Equal(t, locks.Keep, report.Cluster.Action)
	require.Equal(t, lcmv1.LockActive, a.clusterLock().Status.State)
	for _, node := range a.nodes {
		require.Equal(t, lcmv1.LockActive, a.lock(node).Status.State)
		require.Equal(t, a.in.Owner, kube.Owner(a.lock(node)))
	}

	activitytest.Changed(t, a.nodes[0], func(node *corev1.Node) { node.Labels[a.in.Policy.ControllerName] = "disabled" })
	a.stepUntil(func(report locks.Report) bool { return report.Total == 1 })
	require.NoError(t, a.cluster.Client.Delete(t.Context(), activitytest.GetNode(t, a.nodes[1])))
	a.stepUntil(func(report locks.Report) bool { return report.Total == 0 })

	report, err := (&Activities{Clusters: activitytest.Clusters}).ApplyWorkloadLocks(t.Context(), a.in)
	require.NoError(t, err, "repeated after a lost reply")
	require.Zero(t, report.Total)
}

func TestANodeLockIsReleasedAndHeldAgainBeforeTheNext(t *testing.T) {
	a := newApplication(t, 2)
	a.step()
	first := a.request(a.nodes[0])
	require.Equal(t, 1, a.step().Inactive)
	require.Equal(t, lcmv1.LockInactive, a.lock(a.nodes[0]).Status.State)
	require.Equal(t, &lcmv1.InactivationProgress{Description: "Update completed successfully", Percentage: 100}, a.lock(a.nodes[0]).Status.InactivationProgress)
	require.Equal(t, &lcmv1.InactivationProgress{Description: "1 out of 2 nodes updated", Percentage: 50}, a.clusterLock().Status.InactivationProgress)

	second := a.request(a.nodes[1])
	report := a.step()
	require.Equal(t, 1, report.Inactive)
	require.Equal(t, fmt.Sprintf("waits for %s (at most 1 inactive at once)", a.nodes[0]), a.lock(a.nodes[1]).Status.ErrorMessage)

	a.removePod(a.nodes[0])
	a.withdraw(first)
	a.stepUntil(func(report locks.Report) bool { return report.Wait().Reason == string(locks.PodNotBack) })
	require.Equal(t, lcmv1.LockInactive, a.lock(a.nodes[0]).Status.State)
	require.Contains(t, a.lock(a.nodes[0]).Status.ErrorMessage, "the application is not back")

	a.addPod(a.nodes[0])
	a.stepUntil(func(locks.Report) bool { return a.lock(a.nodes[0]).Status.State == lcmv1.LockActive })
	require.Empty(t, a.lock(a.nodes[0]).Status.ErrorMessage)
	require.Equal(t, lcmv1.LockInactive, a.lock(a.nodes[1]).Status.State)

	a.withdraw(second)
	a.stepUntil(func(report locks.Report) bool { return report.Active == 2 })
	require.Equal(t, &lcmv1.InactivationProgress{Description: "Update is currently in progress"}, a.lock(a.nodes[0]).Status.InactivationProgress)
	require.Equal(t, &lcmv1.InactivationProgress{Description: "0 out of 2 nodes updated"}, a.clusterLock().Status.InactivationProgress)
}

func TestALockFollowsItsPod(t *testing.T) {
	a := newApplication(t, 1)
	a.step()
	a.run()
	a.awayUntilReady()
	a.awaitState(a.nodes[0], lcmv1.LockActive)
}

// BenchmarkALockFollowsItsPod measures how long after the pod of a node is ready its lock holds the node again.
func BenchmarkALockFollowsItsPod(b *testing.B) {
	a := newApplication(b, 1)
	a.step()
	a.run()
	var took []time.Duration
	for b.Loop() {
		a.awayUntilReady()
		ready := time.Now()
		a.awaitState(a.nodes[0], lcmv1.LockActive)
		took = append(took, time.Since(ready))
	}
	slices.Sort(took)
	b.ReportMetric(took[len(took)/2].Seconds()*1000, "p50-ms")
	b.ReportMetric(took[len(took)*99/100].Seconds()*1000, "p99-ms")
}

func TestTheClusterLockReportsTheUpdatedNodes(t *testing.T) {
	a := newApplication(t, 3)
	a.step()
	maintenance := activitytest.Created(t, &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "maintenance-"}})
	a.step()
	for i, want := range []int32{33, 66, 100} {
		request := a.request(a.nodes[i])
		a.stepUntil(func(report locks.Report) bool { return report.Inactive == 1 })
		require.Equal(t, want, a.clusterLock().Status.InactivationProgress.Percentage)
		a.withdraw(request)
		a.stepUntil(func(report locks.Report) bool { return report.Inactive == 0 })
		require.Equal(t, want, a.clusterLock().Status.InactivationProgress.Percentage)
	}
	a.withdraw(maintenance)
	a.stepUntil(func(report locks.Report) bool {
		return report.Progress == locks.Progress{Description: "0 out of 3 nodes updated", Total: 3}
	})
	require.Equal(t, &lcmv1.InactivationProgress{Description: "0 out of 3 nodes updated"}, a.clusterLock().Status.InactivationProgress)
}

func TestTheClusterLockIsReleasedWhenTheApplicationIsStable(t *testing.T) {
	a := newApplication(t, 1)
	a.in.Policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "control", StableSeconds: 1, Workload: &drydockv1.WorkloadCheck{
		Namespace: a.in.Policy.Namespace, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "control"}},
	}}}
	a.step()
	maintenance := activitytest.Created(t, &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "maintenance-"}})
	report := a.step()
	require.Equal(t, string(locks.ClusterNotHealthy), report.Wait().Reason)
	require.Equal(t, lcmv1.LockActive, a.clusterLock().Status.State)
	require.Contains(t, a.clusterLock().Status.ErrorMessage, "control: ")

	activitytest.Created(t, control(a.in.Policy.Namespace))
	a.stepUntil(func(locks.Report) bool {
		return strings.Contains(a.clusterLock().Status.ErrorMessage, "must stay so for 1s")
	})
	a.run() // without an event, the stable time passes and the lock becomes inactive
	require.Eventually(t, func() bool { return a.clusterLock().Status.State == lcmv1.LockInactive }, activitytest.EventTimeout, 20*time.Millisecond)
	a.request(a.nodes[0])
	a.awaitState(a.nodes[0], lcmv1.LockInactive)
	require.Eventually(t, func() bool {
		return a.lock(a.nodes[0]).Annotations[lcmv1.AnnotationUpdatedFor] == string(maintenance.UID)
	}, activitytest.EventTimeout, 5*time.Millisecond)
	a.withdraw(maintenance)
	require.Eventually(t, func() bool { return a.clusterLock().Status.State == lcmv1.LockActive }, activitytest.EventTimeout, 5*time.Millisecond)
}

func TestHealthIsEvaluatedWhenALockIsFoundActive(t *testing.T) {
	a := newApplication(t, 1)
	a.in.Policy.ClusterHealth = []drydockv1.HealthCheck{{Name: "control", Workload: &drydockv1.WorkloadCheck{
		Namespace: a.in.Policy.Namespace, Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "control"}},
	}}}
	activitytest.Created(t, control(a.in.Policy.Namespace))
	a.step()
	activitytest.Created(t, &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{GenerateName: "maintenance-"}})
	a.stepUntil(func(locks.Report) bool { return a.clusterLock().Status.State == lcmv1.LockInactive })
	a.request(a.nodes[0])
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	c := &controller{cluster: cluster, in: a.in}
	require.NoError(t, c.read(t.Context()))

	activitytest.WriteLockState(t, a.clusterLock(), lcmv1.LockActive, "") // another client activates it
	_, err = c.keep(t.Context())
	require.NoError(t, err)
	require.Equal(t, lcmv1.LockInactive, a.clusterLock().Status.State)
	require.Empty(t, a.clusterLock().Status.ErrorMessage)
}

func TestAPodThatMissesItsDeadlineFailsTheLockWithoutAnEvent(t *testing.T) {
	a := newApplication(t, 1)
	a.in.Policy.NodePodDeadlineSeconds = ptr.To[int32](2)
	a.step()
	request := a.request(a.nodes[0])
	a.step()
	a.removePod(a.nodes[0])
	a.withdraw(request)
	a.stepUntil(func(report locks.Report) bool {
		if report.Failed == 1 {
			require.Equal(t, string(locks.PodDeadlinePassed), report.Wait().Reason)
		}
		return report.Failed == 1
	})
	require.Equal(t, lcmv1.LockFailed, a.lock(a.nodes[0]).Status.State)
	a.addPod(a.nodes[0])
	a.stepUntil(func(report locks.Report) bool { return report.Active == 1 })
}

func TestAPodMissingDuringARequestFailsTheLockWithoutAnEvent(t *testing.T) {
	a := newApplication(t, 1)
	a.in.Policy.NodePodDeadlineSeconds = ptr.To[int32](2)
	a.removePod(a.nodes[0])
	a.step()
	a.request(a.nodes[0])
	a.stepUntil(func(report locks.Report) bool {
		if report.Failed == 1 {
			require.Equal(t, string(locks.PodDeadlinePassed), report.Wait().Reason)
		}
		return report.Failed == 1
	})
	require.Equal(t, lcmv1.LockFailed, a.lock(a.nodes[0]).Status.State)
	a.addPod(a.nodes[0])
	a.stepUntil(func(report locks.Report) bool { return report.Inactive == 1 })
}

func TestAnInvalidLockPolicyIsRefused(t *testing.T) {
	a := newApplication(t, 0)
	a.in.Policy.NodeSelector.MatchExpressions = []metav1.LabelSelectorRequirement{{Key: "role", Operator: "Is"}}
	_, err := (&Activities{Clusters: activitytest.Clusters}).ObserveWorkloadLocks(t.Context(), a.in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "spec.nodeSelector")
}

// inactiveNodes follows the application's locks through a watch and remembers which nodes were inactive at the same time.
type inactiveNodes struct {
	mu       sync.Mutex
	current  map[string]bool
	most     int
	together []string
}

func (a *application) watchInactive() *inactiveNodes {
	seen := &inactiveNodes{current: map[string]bool{}}
	informer, err := a.cluster.Cache.GetInformer(a.t.Context(), &lcmv1.NodeWorkloadLock{})
	require.NoError(a.t, err)
	note := func(object any, exists bool) {
		lock := object.(*lcmv1.NodeWorkloadLock)
		if lock.Spec.ControllerName != a.in.Policy.ControllerName {
			return
		}
		seen.mu.Lock()
		defer seen.mu.Unlock()
		delete(seen.current, lock.Spec.NodeName)
		if exists && lock.Status.State == lcmv1.LockInactive {
			seen.current[lock.Spec.NodeName] = true
		}
		if len(seen.current) > seen.most {
			seen.most, seen.together = len(seen.current), nil
			for node := range seen.current {
				seen.together = append(seen.together, node)
			}
		}
	}
	registration, err := informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc:    func(object any) { note(object, true) },
		UpdateFunc: func(_, object any) { note(object, true) },
		DeleteFunc: func(object any) {
			if lock, ok := object.(*lcmv1.NodeWorkloadLock); ok {
				note(lock, false)
			}
		},
	})
	require.NoError(a.t, err)
	a.t.Cleanup(func() { require.NoError(a.t, informer.RemoveEventHandler(registration)) })
	return seen
}

func (s *inactiveNodes) requireAtMost(t *testing.T, limit int) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	require.LessOrEqual(t, s.most, limit, "inactive at the same time: %v", s.together)
}

// Four applications in parallel; a hundred rounds in all in a soak.
func TestTwoSimultaneousRequestsAreServedOneAfterTheOther(t *testing.T) {
	const applications = 4
	rounds := 5
	if devstacktest.Soak() {
		rounds = 25
	}
	for i := range applications {
		t.Run(fmt.Sprintf("application %d", i+1), func(t *testing.T) {
			t.Parallel()
			a := newApplication(t, 2)
			a.step()
			seen := a.watchInactive()
			// Two concurrent controllers, as when a timed-out attempt continues.
			a.run()
			a.run()
			for range rounds {
				a.race()
			}
			seen.requireAtMost(t, 1)
		})
	}
}

// race requests both nodes at the same instant and returns when each was served.
func (a *application) race() {
	a.t.Helper()
	requests := make([]*lcmv1.NodeMaintenanceRequest, 2)
	var both errgroup.Group
	for i, node := range a.nodes {
		requests[i] = &lcmv1.NodeMaintenanceRequest{
			ObjectMeta: metav1.ObjectMeta{GenerateName: "race-"}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: node},
		}
		both.Go(func() error { return a.cluster.Client.Create(a.t.Context(), requests[i]) })
	}
	require.NoError(a.t, both.Wait())
	var served []string
	for range a.nodes {
		var node string
		require.Eventually(a.t, func() bool {
			i := slices.IndexFunc(a.nodes, func(n string) bool {
				return !slices.Contains(served, n) && a.lock(n).Status.State == lcmv1.LockInactive
			})
			if i >= 0 {
				node = a.nodes[i]
			}
			return i >= 0
		}, activitytest.EventTimeout, 10*time.Millisecond, "served so far: %v", served)
		served = append(served, node)
		a.withdraw(requests[slices.Index(a.nodes, node)])
		a.awaitState(node, lcmv1.LockActive)
	}
}

func TestTheLocksReportTheReleaseOfTheApplication(t *testing.T) {
	a := newApplication(t, 1)
	a.in.Policy.Release = "25.1"
	a.step()
	require.Equal(t, "25.1", a.lock(a.nodes[0]).Status.Release)
	require.Equal(t, "25.1", a.clusterLock().Status.Release)
	a.in.Policy.Release = ""
	a.step()
	require.Empty(t, a.lock(a.nodes[0]).Status.Release)
	require.Empty(t, a.clusterLock().Status.Release)
}
