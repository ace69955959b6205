package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// harborSpoke is a spoke with simulated operators for Harbor.
type harborSpoke struct {
	*devstack.Cluster
	operators *operators.Operators
	api       client.Client
}

func newHarborSpoke(t *testing.T, spoke *devstack.Cluster) *harborSpoke {
	t.Helper()
	simulated, err := theFleet.SimulateHarborOperators(t.Context(), spoke)
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	s := newHarborSpokeWithoutOperators(t, spoke)
	s.operators = simulated
	return s
}

func newHarborSpokeWithoutOperators(t *testing.T, spoke *devstack.Cluster) *harborSpoke {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	api, err := client.New(spoke.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return &harborSpoke{Cluster: spoke, api: api}
}

func (s *harborSpoke) apply(t *testing.T, namespace string) {
	t.Helper()
	succeeds(t, "harbor", "apply", "-f", exampleHarbor(t, namespace), "--cluster", s.Name)
}

// exampleHarbor writes the example of the documentation with replaced text, and returns its path.
func exampleHarbor(t *testing.T, namespace string, oldnew ...string) string {
	t.Helper()
	text, err := os.ReadFile("../../docs/examples/harbor-cluster.yaml")
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "harbor.yaml")
	changed := strings.NewReplacer(append(oldnew, "namespace: registry", "namespace: "+namespace)...).Replace(string(text))
	require.NoError(t, os.WriteFile(path, []byte(changed), 0o600))
	return path
}

// becomes waits until the status of a HarborCluster satisfies a condition.
func (s *harborSpoke) becomes(t *testing.T, namespace, what string, matches func(goharborv1.HarborClusterStatus) bool) {
	t.Helper()
	require.NoError(t, theFleet.AwaitHarbor(t.Context(), s.Cluster, namespace, "main", what, matches))
}

func healthyHarbor(s goharborv1.HarborClusterStatus) bool {
	return s.Status == goharborv1.StatusHealthy
}

func waitsFor(kind goharborv1.ConditionType, reason string) func(goharborv1.HarborClusterStatus) bool {
	return func(s goharborv1.HarborClusterStatus) bool {
		for _, condition := range s.Conditions {
			if condition.Type == kind {
				return condition.Status == metav1.ConditionUnknown && condition.Reason == reason
			}
		}
		return false
	}
}

// createdObject is an object that Drydock has created.
type createdObject struct {
	schema.GroupVersionResource
	name string
}

// in is the same object of the Harbor in another namespace.
func (o createdObject) in(t *testing.T, s *harborSpoke, from, namespace string) *unstructured.Unstructured {
	t.Helper()
	kind, err := s.api.RESTMapper().KindFor(o.GroupVersionResource)
	require.NoError(t, err)
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(strings.ReplaceAll(o.name, from, namespace))
	return object
}

// created counts how often Drydock has created each object of a namespace.
func (s *harborSpoke) created(t *testing.T, namespace string) map[createdObject]int {
	t.Helper()
	created := map[createdObject]int{}
	for _, event := range devstacktest.AuditEvents(t, s.Cluster) {
		if event.Stage == auditv1.StageResponseComplete && event.ResponseStatus != nil && event.ResponseStatus.Code == http.StatusCreated && event.ObjectRef != nil &&
			event.ObjectRef.Namespace == namespace && event.User.Username == "system:serviceaccount:drydock-system:drydock-initiator" {
			of := event.ObjectRef
			created[createdObject{schema.GroupVersionResource{Group: of.APIGroup, Version: of.APIVersion, Resource: of.Resource}, of.Name}]++
		}
	}
	return created
}

func TestAHarborIsCreatedOnceDespiteWorkerCrashesAtEachStep(t *testing.T) {
	alone(t)
	spoke := newHarborSpoke(t, theFleet.Spokes[0])
	type step struct {
		kind   operators.Kind
		object func(namespace string) string
		waits  func(goharborv1.HarborClusterStatus) bool
	}
	named := func(name string) func(string) string { return func(string) string { return name } }
	steps := []step{
		{operators.Postgresql, func(namespace string) string { return "postgresql-" + namespace + "-main" }, waitsFor(goharborv1.DatabaseReady, "Creating")},
		{operators.Tenant, named("minio-main"), waitsFor(goharborv1.StorageReady, "PoolNotInitialized")},
		{operators.Harbor, named("main-harbor"), waitsFor(goharborv1.ServiceReady, "dependencyStatus")},
	}
	for i, step := range steps {
		namespace := fmt.Sprintf("harbor-%d", i)
		spoke.operators.Simulate(step.kind, namespace, step.object(namespace), operators.Behaviour{After: -1})
		require.NoError(t, theFleet.AddHarborNamespace(t.Context(), spoke.Cluster, namespace))
		spoke.apply(t, namespace)
	}
	for i, step := range steps {
		spoke.becomes(t, fmt.Sprintf("harbor-%d", i), "waiting for "+string(step.kind), step.waits)
	}
	require.NoError(t, theFleet.AddHarborNamespace(t.Context(), spoke.Cluster, "harbor-late"))
	spoke.apply(t, "harbor-late") // in any state when the worker is killed

	require.NoError(t, theFleet.Worker.Kill())
	for i, step := range steps {
		namespace := fmt.Sprintf("harbor-%d", i)
		spoke.operators.Simulate(step.kind, namespace, step.object(namespace), operators.Behaviour{})
	}
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	namespaces := []string{"harbor-0", "harbor-1", "harbor-2", "harbor-late"}
	for _, namespace := range namespaces {
		spoke.becomes(t, namespace, "healthy", healthyHarbor)
		for object, times := range spoke.created(t, namespace) {
			require.Equal(t, 1, times, "%s was created more than once", object)
		}
	}
	// The third Harbor had all its objects before. A create that the killed worker did not wait for is logged as cancelled, although it succeeded.
	all := spoke.created(t, namespaces[2])
	require.Len(t, all, 11, "%v", all)
	for _, namespace := range namespaces {
		for object := range all {
			found := object.in(t, spoke, namespaces[2], namespace)
			require.NoError(t, spoke.api.Get(t.Context(), client.ObjectKeyFromObject(found), found))
		}
	}
	checkHarborCommands(t, spoke, namespaces[1])
	server, workflow := temporalClient(t), temporal.HarborClusterID(spoke.Name, namespaces[0], "main")
	run, err := server.DescribeWorkflowExecution(t.Context(), workflow, "")
	require.NoError(t, err)
	succeeds(t, "harbor", "cancel", "main", "-n", namespaces[0], "--cluster", spoke.Name) // the next run must wait for the end of this one
	for _, namespace := range namespaces {
		output := succeeds(t, "harbor", "delete", "main", "-n", namespace, "--cluster", spoke.Name, "--wait")
		require.Equal(t, "note: its resources are removed; data policy: Retain", lastLine(output))
		require.Error(t, spoke.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "main"}, &goharborv1.HarborCluster{}))
		left := &unstructured.Unstructured{}
		left.SetGroupVersionKind(harbor.Harbor)
		err := spoke.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "main-harbor"}, left)
		require.True(t, apierrors.IsNotFound(err), "Harbor of %s is not deleted: %v", namespace, err)
	}
	err = server.GetWorkflow(t.Context(), workflow, run.WorkflowExecutionInfo.Execution.RunId).Get(t.Context(), nil)
	require.True(t, sdktemporal.IsCanceledError(err), "%v", err)
}

// checkHarborCommands checks the CLI for a Harbor that becomes unhealthy and recovers.
func checkHarborCommands(t *testing.T, spoke *harborSpoke, namespace string) {
	t.Helper()
	require.Contains(t, succeeds(t, "harbor", "status", namespace+"/main", "--cluster", spoke.Name), "HarborCluster "+namespace+"/main in cluster "+spoke.Name+": healthy for ")
	spoke.operators.Simulate(operators.Tenant, namespace, "minio-main", operators.Behaviour{Down: true})
	spoke.becomes(t, namespace, "unhealthy", func(s goharborv1.HarborClusterStatus) bool { return s.Status == goharborv1.StatusUnhealthy })
	a := drydock(t, "harbor", "status", namespace+"/main", "--cluster", spoke.Name, "-o", "json")
	require.Equal(t, 1, a.code)
	require.Contains(t, a.err, "is unhealthy")
	var answer struct {
		Status struct {
			Harbor goharborv1.HarborClusterStatus
		}
	}
	require.NoError(t, json.Unmarshal([]byte(a.out), &answer))
	require.Equal(t, goharborv1.StatusUnhealthy, answer.Status.Harbor.Status)
	spoke.operators.Simulate(operators.Tenant, namespace, "minio-main", operators.Behaviour{})
	spoke.becomes(t, namespace, "healthy", healthyHarbor)

	checkHarborWait(t, spoke, namespace)
	a = drydock(t, "harbor", "delete", "none", "-n", namespace, "--cluster", spoke.Name)
	require.Equal(t, 1, a.code)
	require.Contains(t, a.err, "cluster "+spoke.Name+" has no HarborCluster "+namespace+"/none")
}

// checkHarborWait changes a healthy Harbor, and requires that --wait waits for the change although Harbor is still healthy.
func checkHarborWait(t *testing.T, spoke *harborSpoke, namespace string) {
	t.Helper()
	spoke.operators.Simulate(operators.Harbor, namespace, "main-harbor", operators.Behaviour{Absent: true})
	apply := []string{"harbor", "apply", "-f", exampleHarbor(t, namespace, "version: 2.5.0", "version: 2.6.0"), "--cluster", spoke.Name, "--wait"}
	a := drydock(t, append(apply, "--timeout", "5s")...)
	require.NotZero(t, a.code, "%s", a.out)
	spoke.operators.Simulate(operators.Harbor, namespace, "main-harbor", operators.Behaviour{})
	require.Contains(t, lastLine(succeeds(t, apply...)), "HarborCluster "+namespace+"/main: healthy")
	hc := &goharborv1.HarborCluster{}
	require.NoError(t, spoke.api.Get(t.Context(), client.ObjectKey{Namespace: namespace, Name: "main"}, hc))
	require.Equal(t, int64(2), hc.Generation)
}

func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	return lines[len(lines)-1]
}
