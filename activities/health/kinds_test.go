package health

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/temporal"
)

// checked is the object of a check of one kind.
type checked struct {
	check drydockv1.HealthCheck
	// says makes the object healthy or unhealthy.
	says func(well bool)
	// old, unless nil, makes it healthy for an older generation.
	old func()
	// broken is the reason while the object is unhealthy.
	broken string
}

// Every kind of check has a timeout and a stable time, and ignores evidence of older generations. TestHarborClusters covers HarborClusters.
func TestChecksOfEachKind(t *testing.T) {
	for name, begin := range map[string]func(*testing.T) checked{
		"condition": checkedCondition, "workload": checkedWorkload, "pods": checkedPods, "node": checkedNode, "cel": checkedCEL,
		"prometheus": checkedPrometheus, "http": checkedHTTP,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := begin(t)
			c.check.Name = name
			requireFails := func(reason string) {
				c.check.TimeoutSeconds, c.check.StableSeconds = new(int32(1)), 0
				began := time.Now()
				err := <-clusterGateOf(t, c.check)
				require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err), "%v", err)
				require.ErrorContains(t, err, "health gate of cluster hub failed: "+name+": ")
				require.ErrorContains(t, err, "; seen so since ")
				require.GreaterOrEqual(t, time.Since(began), time.Second)
				if blockers := temporal.Blockers(err); len(blockers) > 0 {
					require.Equal(t, reason, blockers[0].Reason)
				}
			}
			c.says(false)
			requireFails(c.broken)
			if c.old != nil {
				c.old()
				requireFails(health.ReasonGenerationNotObserved)
			}
			c.check.TimeoutSeconds, c.check.StableSeconds = new(int32(300)), 1
			opens := clusterGateOf(t, c.check)
			well := time.Now()
			c.says(true)
			require.NoError(t, <-opens)
			require.GreaterOrEqual(t, time.Since(well), time.Second, "it must stay so for a second")
		})
	}
}

// checkedDeployment is a Deployment whose status the test writes.
func checkedDeployment(t *testing.T, broken string, check func(namespace string) drydockv1.HealthCheck) checked {
	d := web(t)
	says := func(well bool) {
		available, status := int32(1), corev1.ConditionFalse
		if well {
			available, status = 2, corev1.ConditionTrue
		}
		d.Status = appsv1.DeploymentStatus{
			ObservedGeneration: d.Generation, Replicas: 2, UpdatedReplicas: 2, ReadyReplicas: available, AvailableReplicas: available, UnavailableReplicas: 2 - available,
			Conditions: []appsv1.DeploymentCondition{{Type: appsv1.DeploymentAvailable, Status: status}},
		}
		require.NoError(t, hubCluster(t).Client.Status().Update(t.Context(), d))
	}
	return checked{check: check(d.Namespace), broken: broken, says: says, old: func() {
		says(true)
		d.Spec.Template.Spec.Containers[0].Image = "web:2"
		require.NoError(t, hubCluster(t).Client.Update(t.Context(), d))
	}}
}

func checkedCondition(t *testing.T) checked {
	return checkedDeployment(t, health.ReasonConditionNotMet, func(namespace string) drydockv1.HealthCheck {
		return drydockv1.HealthCheck{Condition: &drydockv1.ConditionCheck{APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web", Type: "Available"}}
	})
}

func checkedWorkload(t *testing.T) checked {
	return checkedDeployment(t, health.ReasonWorkloadNotAvailable, func(namespace string) drydockv1.HealthCheck {
		return drydockv1.HealthCheck{Workload: &drydockv1.WorkloadCheck{Namespace: namespace, Kinds: []drydockv1.WorkloadKind{drydockv1.Deployment}}}
	})
}

func checkedCEL(t *testing.T) checked {
	return checkedDeployment(t, health.ReasonExpressionFalse, func(namespace string) drydockv1.HealthCheck {
		return drydockv1.HealthCheck{CEL: &drydockv1.CELCheck{
			APIVersion: "apps/v1", Kind: "Deployment", Namespace: namespace, Name: "web", Expression: "object.status.readyReplicas >= 2",
		}}
	})
}

func checkedPods(t *testing.T) checked {
	namespace, hub := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName)), hubCluster(t).Client
	require.NoError(t, client.IgnoreAlreadyExists(hub.Create(t.Context(), &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "default"}})))
	pod := &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "web", Labels: map[string]string{"app": "web"}},
		Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "main", Image: "web"}}},
	}
	require.NoError(t, hub.Create(t.Context(), pod))
	says := func(well bool) {
		status := corev1.ConditionFalse
		if well {
			status = corev1.ConditionTrue
		}
		pod.Status = corev1.PodStatus{
			Phase: corev1.PodRunning, ObservedGeneration: pod.Generation, ContainerStatuses: []corev1.ContainerStatus{{Name: "main", Ready: well}},
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: status}},
		}
		require.NoError(t, hub.Status().Update(t.Context(), pod))
	}
	return checked{
		check:  drydockv1.HealthCheck{Pods: &drydockv1.PodCheck{Namespace: namespace, Selector: &metav1.LabelSelector{MatchLabels: pod.Labels}}},
		broken: health.ReasonPodNotReady, says: says,
		old: func() {
			says(true)
			pod.Spec.Containers[0].Image = "web:2"
			require.NoError(t, hub.Update(t.Context(), pod))
		},
	}
}

// checkedNode: conditions of nodes have no generation.
func checkedNode(t *testing.T) checked {
	labels := map[string]string{"checked": "node"}
	node := activitytest.Create(t, hubCluster(t), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "checked", Labels: labels}})
	return checked{
		check: drydockv1.HealthCheck{Node: &drydockv1.NodeCheck{Selector: &metav1.LabelSelector{MatchLabels: labels}}}, broken: health.ReasonNodeNotReady,
		says: func(well bool) {
			status := corev1.ConditionFalse
			if well {
				status = corev1.ConditionTrue
			}
			node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: status}}
			require.NoError(t, hubCluster(t).Client.Status().Update(t.Context(), node))
		},
	}
}

// checkedAddress is a server whose answer depends on its health.
func checkedAddress(t *testing.T, broken string, answer func(w http.ResponseWriter, well bool), check func(url string) drydockv1.HealthCheck) checked {
	var well atomic.Bool
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { answer(w, well.Load()) }))
	t.Cleanup(server.Close)
	return checked{check: check(server.URL), broken: broken, says: well.Store}
}

func checkedHTTP(t *testing.T) checked {
	return checkedAddress(t, "", func(w http.ResponseWriter, well bool) {
		if !well {
			w.WriteHeader(http.StatusServiceUnavailable)
		}
	}, func(url string) drydockv1.HealthCheck {
		return drydockv1.HealthCheck{HTTP: &drydockv1.HTTPCheck{URL: url}}
	})
}

// checkedPrometheus accepts only samples from after the step.
func checkedPrometheus(t *testing.T) checked {
	return checkedAddress(t, health.ReasonUnexpectedSample, func(w http.ResponseWriter, well bool) {
		value := 1
		if !well {
			value = 0
		}
		fmt.Fprintf(w, `{"status":"success","data":{"resultType":"vector","result":[{"metric":{"job":"web"},"value":[0,"%d"]}]}}`, value)
	}, func(url string) drydockv1.HealthCheck {
		return drydockv1.HealthCheck{Prometheus: &drydockv1.PrometheusCheck{URL: url, Query: "up", Expected: "== 1", MaxAgeSeconds: 1}}
	})
}
