package rollout_test

import (
	"fmt"
	"slices"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

// replica of a policy in a cluster's namespace; with an empty wave it has none.
func replica(root, wave, action string) unstructured.Unstructured {
	object := unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"remediationAction": action}}}
	object.SetNamespace("spoke-1")
	object.SetName(root)
	object.SetLabels(map[string]string{policies.LabelRoot: root})
	if wave != "" {
		object.SetAnnotations(map[string]string{"ran.openshift.io/ztp-deploy-wave": wave})
	}
	return object
}

// While another rollout enforces a policy on the cluster, its replica enforces.
func TestPoliciesOfANewClusterAreOrderedByWave(t *testing.T) {
	foreign := replica("other.policy", "1", "inform")
	foreign.SetLabels(nil)
	names, err := rollout.OnboardingPolicies([]unstructured.Unstructured{
		replica("ztp.late", "100", "inform"), replica("ztp.b-second", "2", "Inform"), replica("ztp.a-second", "2", ""), replica("ztp.first", "-1", "inform"),
		replica("ztp.no-wave", "", "inform"), replica("ztp.enforced", "1", "enforce"), replica("ztp.with.dots", "3", "inform"), foreign,
	})
	require.NoError(t, err)
	require.Equal(t, []string{"first", "enforced", "a-second", "b-second", "with.dots", "late"}, names)

	_, err = rollout.OnboardingPolicies([]unstructured.Unstructured{replica("ztp.z", "soon", "inform"), replica("ztp.ok", "1", "inform"), replica("ztp.a", "1.5", "inform")})
	require.EqualError(t, err, `policy ztp.a: annotation ran.openshift.io/ztp-deploy-wave: "1.5" is not a whole number; policy ztp.z: annotation ran.openshift.io/ztp-deploy-wave: "soon" is not a whole number`)
}

func TestTheOrderOfPoliciesDoesNotDependOnTheInput(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var replicas []unstructured.Unstructured
		for i := range rapid.IntRange(0, 8).Draw(t, "policies") {
			replicas = append(replicas, replica(fmt.Sprintf("ztp.p%d", i), strconv.Itoa(rapid.IntRange(0, 3).Draw(t, "wave")), "inform"))
		}
		names, err := rollout.OnboardingPolicies(replicas)
		require.NoError(t, err)
		again, err := rollout.OnboardingPolicies(rapid.Permutation(slices.Clone(replicas)).Draw(t, "found"))
		require.NoError(t, err)
		require.Equal(t, names, again)
		require.Len(t, names, len(replicas))
	})
}

func TestAnAvailableClusterThatIsNotOnboardedIsSelected(t *testing.T) {
	cluster := func(status string, labels map[string]string) *unstructured.Unstructured {
		object := &unstructured.Unstructured{Object: map[string]any{}}
		object.SetLabels(labels)
		if status != "" {
			object.Object["status"] = map[string]any{"conditions": []any{
				map[string]any{"type": "HubAcceptedManagedCluster", "status": "True"}, map[string]any{"type": "ManagedClusterConditionAvailable", "status": status},
			}}
		}
		return object
	}
	require.True(t, rollout.ToOnboard(cluster("True", nil)))
	require.True(t, rollout.ToOnboard(cluster("True", map[string]string{"ztp-running": ""})), "another program set the label")
	require.False(t, rollout.ToOnboard(cluster("True", map[string]string{"ztp-done": ""})))
	require.False(t, rollout.ToOnboard(cluster("False", nil)))
	require.False(t, rollout.ToOnboard(cluster("Unknown", nil)))
	require.False(t, rollout.ToOnboard(cluster("", nil)))
}

func TestAnOnboardingRolloutIsValid(t *testing.T) {
	empty := rollout.OnboardingRollout("spoke-1", nil)
	require.Equal(t, rollout.Nothing, rollout.RemediationOf(&empty))
	plan := rollout.NewPlan(&empty, rollout.Inventory{Clusters: []rollout.Cluster{{Name: "spoke-1"}}}, noon)
	require.True(t, plan.Valid())
	require.Empty(t, plan.RemediationPlan)
	require.Equal(t, "spoke-1", plan.Skipped[0].Cluster, "the cluster is only labelled")
	require.Empty(t, rollout.CheckActions(&empty.Spec.Actions, nil))
	full := rollout.OnboardingRollout("spoke-1", []string{"a", "b"})
	require.Equal(t, rollout.ManagedPolicies, rollout.RemediationOf(&full))
	require.Equal(t, "ztp-install/spoke-1", full.Namespace+"/"+full.Name)
}
