package rollouts

import (
	"fmt"
	"math/rand"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

func finalStatus(namespace, name, reason string) SaveRolloutInput {
	return SaveRolloutInput{Owner: "cgu/" + namespace + "/" + name + "/first", RunID: "run-of-" + name, Object: ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name},
		Spec:       validSpec(),
		Status: ranv1.ClusterGroupUpgradeStatus{Conditions: []metav1.Condition{
			{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: reason},
		}},
	}}
}

// validSpec is a spec with which a rollout can start.
func validSpec() ranv1.ClusterGroupUpgradeSpec {
	return ranv1.ClusterGroupUpgradeSpec{
		Clusters: []string{"c1"}, NodeMaintenance: &ranv1.NodeMaintenanceRemediation{}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)},
	}
}

func TestASavedStatusReplacesTheOneBefore(t *testing.T) {
	rollouts := &Activities{Clusters: activitytest.Clusters}
	for _, reason := range []string{ranv1.ReasonFailed, ranv1.ReasonTimedOut} {
		in := finalStatus("default", "kept", reason)
		require.NoError(t, rollouts.SaveRollout(t.Context(), in))
		require.NoError(t, rollouts.SaveRollout(t.Context(), in), "a repeated save succeeds")

		kept := activitytest.GetSaved(t, "rollout.default.kept")
		require.True(t, kube.OwnedBy(kept, in.Owner))
		var object ranv1.ClusterGroupUpgrade
		require.NoError(t, yaml.UnmarshalStrict([]byte(kept.Data[rollout.SavedKey]), &object))
		require.Equal(t, "ClusterGroupUpgrade", object.Kind)
		require.Equal(t, reason, object.Status.Conditions[0].Reason)
	}
}

// A ConfigMap has at most 1 MiB. The spec and the plan have the random names of 10,000 clusters.
func TestARolloutOfTenThousandClustersIsSavedAndLoaded(t *testing.T) {
	random := rand.New(rand.NewSource(1))
	in := finalStatus("default", "largest", ranv1.ReasonFailed)
	in.Object.Spec.Clusters = nil
	var whole ranv1.ClusterGroupUpgradeStatus
	for i := range 10_000 {
		name := fmt.Sprintf("%016x%016x%016x%015x", random.Uint64(), random.Uint64(), random.Uint64(), random.Uint64()>>4)
		state := []ranv1.ClusterState{ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterComplete}[random.Intn(3)]
		whole.Clusters = append(whole.Clusters, ranv1.ClusterStatus{Name: name, State: state, Batch: int32(i/500 + 1), Message: strings.Repeat(name, 16)})
		in.Object.Spec.Clusters = append(in.Object.Spec.Clusters, name)
	}
	whole.Conditions, whole.RemediationPlan = in.Object.Status.Conditions, slices.Collect(slices.Chunk(in.Object.Spec.Clusters, 500))
	in.Object.Status = rollout.Shorten(whole, 500)
	rollouts := &Activities{Clusters: activitytest.Clusters}
	require.NoError(t, rollouts.SaveRollout(t.Context(), in))

	object, err := snapshot.SavedRollout(activitytest.GetSaved(t, "rollout.default.largest"), client.ObjectKey{Namespace: "default", Name: "largest"})
	require.NoError(t, err)
	require.Equal(t, in.Object.Spec.Clusters, object.Spec.Clusters)
	require.Equal(t, whole.RemediationPlan, object.Status.RemediationPlan)
	again, err := rollout.Retry(object.Status, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	require.Len(t, again.Clusters, 10_000)

	short := finalStatus("default", "largest", ranv1.ReasonTimedOut)
	require.NoError(t, rollouts.SaveRollout(t.Context(), short), "a short rollout replaces a long one")
	require.Empty(t, activitytest.GetSaved(t, "rollout.default.largest").BinaryData)
}

func TestTheConfigMapOfAnotherIsNotOverwritten(t *testing.T) {
	for name, owner := range map[string]string{"foreign": "", "other": "cgu/default/another/run"} {
		t.Run(name, func(t *testing.T) {
			theirs := &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{
				Namespace: kube.SystemNamespace, Name: "rollout.default." + name, Annotations: map[string]string{kube.AnnotationOwner: owner},
			}, Data: map[string]string{"mine": "yes"}}
			activitytest.Create(t, activitytest.BareCluster(t), theirs)
			err := (&Activities{Clusters: activitytest.Clusters}).SaveRollout(t.Context(), finalStatus("default", name, ranv1.ReasonFailed))
			require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, "annotation drydock.dev/owner does not name workflow cgu/default/"+name)
			require.Equal(t, map[string]string{"mine": "yes"}, activitytest.GetSaved(t, theirs.Name).Data)
		})
	}
}

// Rollouts are saved where only Drydock may write. The namespace of a rollout needs no rights for that.
func TestARolloutOfAnyNamespaceIsSaved(t *testing.T) {
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).SaveRollout(t.Context(), finalStatus("team-a", "kept", ranv1.ReasonFailed)))
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).SaveRollout(t.Context(), finalStatus("kube-public", "kept", ranv1.ReasonTimedOut)))
	object, err := snapshot.SavedRollout(activitytest.GetSaved(t, "rollout.kube-public.kept"), client.ObjectKey{Namespace: "kube-public", Name: "kept"})
	require.NoError(t, err)
	require.Equal(t, ranv1.ReasonTimedOut, object.Status.Conditions[0].Reason)
}
