package e2e

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// On each cluster a policy is Pending until the policy that it depends on is enforced. The copies depend on the original policies, in their
// namespaces.
func TestPoliciesAreRolledOutInOrderOfTheirDependencies(t *testing.T) {
	reserve(t, policyHub)
	houses := []string{"house-1", "house-2"}
	for _, house := range houses {
		register(t, house, nil)
	}
	createOnHub(t, `
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {namespace: kube-public, name: drydock-rollouts}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: drydock-rollouts}
subjects: [{kind: ServiceAccount, namespace: drydock-system, name: drydock-hub}]`)
	createOnHub(t, strings.Replace(allClustersBound, "default", "kube-public", 1))
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 300 * time.Millisecond }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	const dependency = "ependencies: [{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, name: OTHER, compliance: Compliant}]"
	on := func(other string) string { return strings.Replace(dependency, "OTHER", other, 1) }
	createOnHub(t, strings.Replace(informPolicy("roof", "", houses...), "- objectDefinition:", "- extraD"+on("walls")+"\n    objectDefinition:", 1))
	createOnHub(t, strings.Replace(informPolicy("walls", "", houses...), "disabled: false", "disabled: false\n  d"+on("ground"), 1))
	createOnHub(t, informPolicy("ground", "", houses...))
	awaitNonCompliant(t, len(houses), "ground")
	require.Eventually(t, func() bool {
		return compliance(t, "house-1", "walls") == "Pending" && compliance(t, "house-2", "roof") == "Pending"
	}, stateLimit, 50*time.Millisecond)

	startRollout(t, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: kube-public, name: houses}
spec:
  clusters: [house-1, house-2]
  managedPolicies: [ground, walls, roof]
  policyEnforcement: Copy
  remediationStrategy: {maxConcurrency: 2, timeout: 10}`)
	status, code := awaitEnd(t, "kube-public/houses")
	require.Zero(t, code, "%v", status.Conditions)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	for _, house := range houses {
		var order []string
		for _, enforcement := range hub.Enforcements() {
			if enforcement.Cluster == house && enforcement.Began {
				_, policy, _ := strings.Cut(enforcement.Policy, "houses-")
				policy, _, _ = strings.Cut(policy, "-")
				order = append(order, policy)
			}
		}
		require.Equal(t, []string{"ground", "walls", "roof"}, order)
	}
	requireNothingEnforced(t, hub)
}

// compliance is the compliance status of a cluster with a policy; empty: unknown.
func compliance(t *testing.T, cluster, policy string) string {
	t.Helper()
	replica := &unstructured.Unstructured{}
	replica.SetAPIVersion("policy.open-cluster-management.io/v1")
	replica.SetKind("Policy")
	if hubClient(t).Get(t.Context(), client.ObjectKey{Namespace: cluster, Name: "default." + policy}, replica) != nil {
		return ""
	}
	compliant, _, _ := unstructured.NestedString(replica.Object, "status", "compliant")
	return compliant
}
