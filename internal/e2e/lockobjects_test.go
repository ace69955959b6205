package e2e

import (
	"context"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
)

// policyUser applies WorkloadLockPolicies with the API of Kubernetes alone.
type policyUser struct {
	t      *testing.T
	client client.Client
}

// routersPolicy is the spec of an application whose pods are the demo's routers.
func routersPolicy(controllerName string) map[string]any {
	return map[string]any{
		"controllerName": controllerName, "namespace": "network",
		"nodeSelector": map[string]any{
			"matchExpressions": []any{map[string]any{"key": "node-role.kubernetes.io/control-plane", "operator": "DoesNotExist"}},
		},
		"nodePodSelector": map[string]any{"matchLabels": map[string]any{"app": "vrouter"}},
	}
}

func newPolicyUser(t *testing.T, spoke *devstack.Cluster) *policyUser {
	t.Helper()
	c, err := client.New(spoke.Config, client.Options{})
	require.NoError(t, err)
	return &policyUser{t, c}
}

func policyNamed(name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion("drydock.dev/v1alpha1")
	object.SetKind("WorkloadLockPolicy")
	object.SetName(name)
	return object
}

// apply creates a policy, which is deleted after the test.
func (u *policyUser) apply(name string, spec map[string]any) {
	u.t.Helper()
	policy := policyNamed(name)
	policy.Object["spec"] = spec
	require.NoError(u.t, u.client.Create(u.t.Context(), policy))
	u.t.Cleanup(func() {
		_ = u.client.Delete(context.Background(), policyNamed(name))
		u.eventually(func() bool { return !u.exists(context.Background(), name) }, "policy %s is not released", name)
	})
}

func (u *policyUser) exists(ctx context.Context, name string) bool {
	u.t.Helper()
	err := u.client.Get(ctx, client.ObjectKey{Name: name}, policyNamed(name))
	return !apierrors.IsNotFound(err)
}

func (u *policyUser) patch(name, patch string) {
	u.t.Helper()
	require.NoError(u.t, u.client.Patch(u.t.Context(), policyNamed(name), client.RawPatch(types.MergePatchType, []byte(patch))))
}

func (u *policyUser) delete(name string) {
	u.t.Helper()
	require.NoError(u.t, u.client.Delete(u.t.Context(), policyNamed(name)))
}

func (u *policyUser) eventually(reached func() bool, message string, args ...any) {
	u.t.Helper()
	require.Eventually(u.t, reached, stateLimit, 200*time.Millisecond, append([]any{message}, args...)...)
}

// await waits until the condition Ready has this status and reason for the current generation, and so many locks of nodes are in these states.
func (u *policyUser) await(name, statusAndReason string, active, inactive int64) *unstructured.Unstructured {
	u.t.Helper()
	policy := policyNamed(name)
	u.eventually(func() bool {
		if u.client.Get(u.t.Context(), client.ObjectKey{Name: name}, policy) != nil {
			return false
		}
		observed, _, _ := unstructured.NestedInt64(policy.Object, "status", "observedGeneration")
		locks, _, _ := unstructured.NestedMap(policy.Object, "status", "nodeLocks")
		counted := active+inactive == 0 || locks["active"] == active && locks["inactive"] == inactive
		current := observed == policy.GetGeneration() || observed == 0 // a refusal writes its condition only
		return conditionOf(policy, "Ready") == statusAndReason && current && counted
	}, "policy %s is not %s with %d locks active, %d inactive: %v", name, statusAndReason, active, inactive, policy)
	return policy
}

// locks returns the names of the nodes that an application holds; "": the cluster.
func (u *policyUser) locks(controllerName string) (held []string) {
	u.t.Helper()
	for _, kind := range []string{"ClusterWorkloadLock", "NodeWorkloadLock"} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion("lcm.mirantis.com/v1alpha1")
		list.SetKind(kind + "List")
		require.NoError(u.t, u.client.List(u.t.Context(), list))
		for _, lock := range list.Items {
			if name, _, _ := unstructured.NestedString(lock.Object, "spec", "controllerName"); name == controllerName {
				node, _, _ := unstructured.NestedString(lock.Object, "spec", "nodeName")
				held = append(held, node)
			}
		}
	}
	return held
}

func TestAnAppliedWorkloadLockPolicyKeepsTheLocksOfItsApplication(t *testing.T) {
	reserve(t, "spoke-5")
	spoke := theFleet.Cluster("spoke-5")
	u := newPolicyUser(t, spoke)
	u.apply("routers", routersPolicy("edge"))
	u.await("routers", "True LocksKept", workers, 0)
	require.Len(t, u.locks("edge"), 1+workers)
	require.Contains(t, succeeds(t, "lock", "controller", "status", "edge", "--cluster", spoke.Name), "requested by WorkloadLockPolicy routers")

	foreign := &unstructured.Unstructured{Object: map[string]any{
		"apiVersion": "lcm.mirantis.com/v1alpha1", "kind": "ClusterMaintenanceRequest", "metadata": map[string]any{"name": "of-another-program"},
	}}
	require.NoError(t, u.client.Create(t.Context(), foreign))
	t.Cleanup(func() { _ = u.client.Delete(context.Background(), foreign) })
	maintenance := request(t, spoke, "locked", map[string]any{"nodeName": "worker-1"})
	u.eventually(func() bool {
		object, _ := maintenance.read()
		reason, _, _ := unstructured.NestedString(object.Object, "status", "wait", "reason")
		return reason == "ForeignMaintenance"
	}, "the maintenance does not wait for the other program")
	require.False(t, maintenance.cordoned("worker-1"))
	require.NoError(t, u.client.Delete(t.Context(), foreign))
	maintenance.await("True Ready")
	policy := u.await("routers", "True LocksKept", workers-1, 1)
	nodes, _, _ := unstructured.NestedSlice(policy.Object, "status", "nodes")
	require.Equal(t, "worker-1", nodes[0].(map[string]any)["node"])
	maintenance.delete()
	maintenance.awaitGone()
	u.await("routers", "True LocksKept", workers, 0)

	u.patch("routers", `{"spec":{"nodeSelector":{"matchLabels":{"kubernetes.io/hostname":"worker-2"}}}}`)
	u.await("routers", "True LocksKept", 1, 0)
	require.ElementsMatch(t, []string{"", "worker-2"}, u.locks("edge"))
	u.patch("routers", `{"spec":{"nodeSelector":{"matchExpressions":[{"key":"zone","operator":"Sometimes"}]}}}`)
	policy = u.await("routers", "False InvalidSpec", 1, 0)
	conditions, _, _ := unstructured.NestedSlice(policy.Object, "status", "conditions")
	require.Contains(t, conditions[0].(map[string]any)["message"], "spec.nodeSelector")
	u.patch("routers", `{"spec":{"nodeSelector":{"matchExpressions":null}}}`)
	u.await("routers", "True LocksKept", 1, 0)

	u.delete("routers")
	u.eventually(func() bool { return !u.exists(t.Context(), "routers") }, "the policy is not released")
	require.Empty(t, u.locks("edge"))
}

func TestOneControllerKeepsTheLocksOfAnApplication(t *testing.T) {
	reserve(t, "spoke-6")
	spoke := theFleet.Cluster("spoke-6")
	u := newPolicyUser(t, spoke)
	file := filepath.Join(t.TempDir(), "policy.yaml")
	require.NoError(t, os.WriteFile(file, []byte(`
apiVersion: drydock.dev/v1alpha1
kind: WorkloadLockPolicy
metadata: {name: edge}
spec:
  controllerName: edge
  namespace: network
  nodeSelector: {matchLabels: {kubernetes.io/hostname: worker-1}}
  nodePodSelector: {matchLabels: {app: vrouter}}
`), 0o600))
	command := func(verb string, args ...string) answer {
		return drydock(t, append([]string{"lock", "controller", verb, "--cluster", spoke.Name}, args...)...)
	}
	require.Zero(t, command("start", "-f", file).code)
	u.apply("first", routersPolicy("edge"))
	u.await("first", "False NameInUse", 0, 0)
	require.Zero(t, command("cancel", "edge").code)
	u.await("first", "True LocksKept", workers, 0)

	second := command("start", "-f", file)
	require.Equal(t, 1, second.code)
	require.Contains(t, second.err, "already running")
	u.apply("second", routersPolicy("edge"))
	u.await("second", "False NameInUse", 0, 0)

	u.delete("first")
	u.eventually(func() bool { return !u.exists(t.Context(), "first") }, "the policy is not released")
	require.Len(t, u.locks("edge"), 1+workers, "the other policy takes them over")
	u.await("second", "True LocksKept", workers, 0)

	require.Zero(t, command("cancel", "edge").code)
	u.await("second", "False Cancelled", workers, 0)
	u.patch("second", `{"spec":{"maxInactiveNodes":2}}`)
	u.await("second", "True LocksKept", workers, 0)
	require.Zero(t, command("cancel", "edge").code)
	u.await("second", "False Cancelled", workers, 0)
	u.delete("second")
	u.eventually(func() bool { return len(u.locks("edge")) == 0 }, "a deleted policy leaves locks of an ended controller")
}

// A policy is edited, another is replaced, and a third is deleted by force while no worker runs.
func TestPoliciesChangeWhileNoWorkerRuns(t *testing.T) {
	alone(t)
	spoke := theFleet.Cluster("spoke-3")
	u := newPolicyUser(t, spoke)
	for _, name := range []string{"edited", "replaced", "vanished"} {
		u.apply(name, routersPolicy(name))
		u.await(name, "True LocksKept", workers, 0)
	}
	require.NoError(t, theFleet.Worker.Kill())
	u.patch("edited", `{"spec":{"nodeSelector":{"matchLabels":{"kubernetes.io/hostname":"worker-2"}}}}`)
	for _, name := range []string{"replaced", "vanished"} {
		u.delete(name)
		u.patch(name, `{"metadata":{"finalizers":null}}`)
		require.False(t, u.exists(t.Context(), name))
	}
	u.apply("replaced", routersPolicy("replaced"))
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	u.await("edited", "True LocksKept", 1, 0)
	u.await("replaced", "True LocksKept", workers, 0)
	u.eventually(func() bool { return len(u.locks("vanished")) == 0 }, "the locks of the deleted policy stay")
	require.Len(t, u.locks("replaced"), 1+workers)
}
