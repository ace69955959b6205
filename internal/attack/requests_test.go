package attack

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// requestBy is a NodeMaintenance of mallory, which may ask for what Drydock must not do.
func requestBy(name string, spec maintenancev1.NodeMaintenanceSpec) *maintenancev1.NodeMaintenance {
	spec.NodeName, spec.RequestorID = "worker-1", "mallory.example.com"
	return &maintenancev1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: name}, Spec: spec}
}

func job(namespace string, pod corev1.PodSpec) *maintenancev1.Action {
	pod.RestartPolicy = corev1.RestartPolicyNever
	if pod.Containers == nil {
		pod.Containers = []corev1.Container{{Name: "c", Image: "registry.example.com/shell:1.0"}}
	}
	return &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{
		Namespace: namespace, Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: corev1.PodTemplateSpec{Spec: pod}}},
	}}
}

// forbiddenActions are Jobs that the clusters file does not allow.
func forbiddenActions() map[string]*maintenancev1.Action {
	host := corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}
	return map[string]*maintenancev1.Action{
		"host-pid":          job("drydock-jobs", corev1.PodSpec{HostPID: true}),
		"host-path":         job("drydock-jobs", corev1.PodSpec{Volumes: []corev1.Volume{{Name: "host", VolumeSource: host}}}),
		"account":           job("drydock-jobs", corev1.PodSpec{ServiceAccountName: "drydock-initiator", AutomountServiceAccountToken: new(true)}),
		"system-namespace":  job("drydock-system", corev1.PodSpec{}),
		"own-namespace":     job(tenantNamespace, corev1.PodSpec{}),
		"another-image":     job("drydock-jobs", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "evil.example.com/shell:1.0"}}}),
		"privileged":        job("drydock-jobs", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/shell:1.0", SecurityContext: &corev1.SecurityContext{Privileged: new(true)}}}}),
		"of-another-secret": job("drydock-jobs", corev1.PodSpec{Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/shell:1.0", EnvFrom: []corev1.EnvFromSource{{SecretRef: &corev1.SecretEnvSource{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}}}}}}}),
	}
}

// A tenant who may request maintenances has a Job run that the clusters file does not allow, which would be root on the node. The object shows the refusal, the node
// stays in service, and the object goes when it is deleted.
func tenantRequestsForbiddenJob(t *testing.T) {
	spoke := outsideSpoke()
	tenant := asMallory(t, spoke)
	for name, action := range forbiddenActions() {
		t.Run(name, func(t *testing.T) {
			object := requestBy(name, maintenancev1.NodeMaintenanceSpec{Action: action})
			require.NoError(t, tenant.Create(t.Context(), object))
			awaitReady(t, object, func(ready metav1.Condition) bool { return ready.Reason == string(maintenancev1.NodeFailed) })
			var current maintenancev1.NodeMaintenance
			require.NoError(t, tenant.Get(t.Context(), client.ObjectKeyFromObject(object), &current))
			require.NotNil(t, current.Status.Failure, "%+v", current.Status)
			require.Contains(t, current.Status.Failure.Message, "spec.action.job")
			require.NoError(t, tenant.Delete(t.Context(), object))
			awaitGone(t, object)
		})
	}
	requireInService(t, spoke.Client, "worker-1")
}

// Values that no request may have, because they overflow, never end, or cost too much. The API server refuses most of them by the CRD.
func tenantRequestsBreakingValues(t *testing.T) {
	spoke := outsideSpoke()
	tenant := asMallory(t, spoke)
	long := strings.Repeat("a", 250<<10)
	check := func(expression string) []drydockv1.HealthCheck {
		return []drydockv1.HealthCheck{{Name: "c", CEL: &drydockv1.CELCheck{APIVersion: "v1", Kind: "Node", Name: "worker-1", Expression: expression}}}
	}
	for name, spec := range map[string]maintenancev1.NodeMaintenanceSpec{
		"negative-drain":  {DrainSpec: &maintenancev1.DrainSpec{TimeoutSeconds: new(int32(-1))}},
		"negative-health": {HealthTimeoutSeconds: new(int32(-2147483648))},
		"negative-lock":   {LockTimeoutSeconds: new(int32(-5))},
		"long-release":    {LockRelease: long},
		"long-selector":   {DrainSpec: &maintenancev1.DrainSpec{PodSelector: long}},
		"long-expression": {HealthChecks: check(long)},
		"long-window":     {MaintenanceWindows: []drydockv1.WindowName{drydockv1.WindowName(long)}},
	} {
		require.True(t, apierrors.IsInvalid(tenant.Create(t.Context(), requestBy(name, spec))), name)
	}

	// An expression that would take minutes, and a message of control characters.
	costly := "[1,2,3,4,5,6,7,8,9,10]" + strings.Repeat(".map(x,[1,2,3,4,5,6,7,8,9,10].map(y,x*y))", 1)
	for range 5 {
		costly = "[1,2,3,4,5,6,7,8,9,10].all(x," + costly + ".size()>0)"
	}
	object := requestBy("costly", maintenancev1.NodeMaintenanceSpec{HealthChecks: check(costly)})
	object.Spec.HealthChecks[0].TimeoutSeconds = new(int32(1))
	if err := tenant.Create(t.Context(), object); !apierrors.IsInvalid(err) {
		require.NoError(t, err)
		require.NoError(t, tenant.Delete(t.Context(), object))
		awaitGone(t, object)
	}
	requireInService(t, spoke.Client, "worker-1")
}

// A tenant's MaintenanceOperatorConfig does not raise the budgets of the cluster: only the one in drydock-system counts.
func tenantRaisesBudgets(t *testing.T) {
	spoke := outsideSpoke()
	tenant, guard := asMallory(t, spoke), guardPod(t, spoke)
	all := intstr.FromString("100%")
	config := &maintenancev1.MaintenanceOperatorConfig{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "budgets"}}
	config.Spec.MaxParallelOperations, config.Spec.MaxUnavailable = &all, &all
	require.NoError(t, tenant.Create(t.Context(), config))
	t.Cleanup(func() { _ = tenant.Delete(context.Background(), config) })
	first := maintain(t, spoke, guard.node, nil)
	first.awaitState(maintenancev1.NodeDraining)
	second := maintain(t, spoke, otherWorker(guard.node), nil)
	second.await(func(s maintenancev1.NodeMaintenanceStatus) bool {
		return s.Wait != nil && strings.Contains(s.Wait.Message, "allows 1 of")
	})
	second.signal("cancel")
	first.signal("cancel")
	first.awaitState(maintenancev1.NodeCancelled)
	second.awaitState(maintenancev1.NodeCancelled)
}

func otherWorker(node string) string {
	if node == "worker-1" {
		return "worker-2"
	}
	return "worker-1"
}

// The address of a health check is that of a server of the tenant, which redirects to one that only the worker reaches.
func healthCheckRedirects(t *testing.T) {
	var reached atomic.Int32
	secret := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reached.Add(1) }))
	defer secret.Close()
	redirecting := httptest.NewServer(http.RedirectHandler(secret.URL+"/latest/meta-data", http.StatusFound))
	defer redirecting.Close()

	spoke := outsideSpoke()
	tenant := asMallory(t, spoke)
	check := func(address string) []drydockv1.HealthCheck {
		return []drydockv1.HealthCheck{{Name: "own", TimeoutSeconds: new(int32(5)), HTTP: &drydockv1.HTTPCheck{URL: address}}}
	}
	elsewhere := requestBy("elsewhere", maintenancev1.NodeMaintenanceSpec{HealthChecks: check("http://169.254.169.254/latest/meta-data")})
	require.NoError(t, tenant.Create(t.Context(), elsewhere))
	awaitReady(t, elsewhere, func(ready metav1.Condition) bool { return ready.Reason == string(maintenancev1.NodeFailed) })
	require.NoError(t, tenant.Delete(t.Context(), elsewhere))
	awaitGone(t, elsewhere)

	redirected := maintain(t, spoke, "worker-2", func(object *maintenancev1.NodeMaintenance) { object.Spec.HealthChecks = check(redirecting.URL) })
	redirected.awaitState(maintenancev1.NodeReady)
	redirected.signal("done")
	status := redirected.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.State == maintenancev1.NodeFailed })
	require.Contains(t, status.Failure.Message, fmt.Sprint(http.StatusFound))
	require.Zero(t, reached.Load())
}

// awaitReady waits until the condition Ready of a request matches.
func awaitReady(t *testing.T, object *maintenancev1.NodeMaintenance, matches func(metav1.Condition) bool) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), outsideSpoke(), object.Name+" is answered", []client.Object{&maintenancev1.NodeMaintenance{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var current maintenancev1.NodeMaintenance
			err := reader.Get(ctx, client.ObjectKeyFromObject(object), &current)
			ready := meta.FindStatusCondition(current.Status.Conditions, maintenancev1.ConditionReady)
			return ready != nil && matches(*ready), client.IgnoreNotFound(err)
		}))
}

func awaitGone(t *testing.T, object *maintenancev1.NodeMaintenance) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), outsideSpoke(), object.Name+" is gone", []client.Object{&maintenancev1.NodeMaintenance{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			err := reader.Get(ctx, client.ObjectKeyFromObject(object), &maintenancev1.NodeMaintenance{})
			return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
		}))
}
