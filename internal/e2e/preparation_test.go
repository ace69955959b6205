package e2e

import (
	"context"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/precache"
)

// labelsOf reads the labels of a ManagedCluster from the hub.
func labelsOf(t *testing.T, cluster string) map[string]string {
	t.Helper()
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"})
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	require.NoError(t, hub.Get(t.Context(), client.ObjectKey{Name: cluster}, object))
	return object.Labels
}

func condition(t *testing.T, status ranv1.ClusterGroupUpgradeStatus, conditionType string) string {
	t.Helper()
	message := conditionMessage(status, conditionType)
	require.NotEmpty(t, message, "there is no condition %s", conditionType)
	return message
}

// conditionMessage is the status, reason and message of a condition; empty if the status does not have it.
func conditionMessage(status ranv1.ClusterGroupUpgradeStatus, conditionType string) string {
	c := meta.FindStatusCondition(status.Conditions, conditionType)
	if c == nil {
		return ""
	}
	return string(c.Status) + " " + c.Reason + ": " + c.Message
}

// withoutJobPermission removes the permission to create preparation Jobs in a namespace of a spoke, during the test.
func withoutJobPermission(t *testing.T, spoke *devstack.Cluster, namespace string) {
	t.Helper()
	bindings := spoke.Client.RbacV1().RoleBindings(namespace)
	require.NoError(t, bindings.Delete(t.Context(), "drydock-preparation", metav1.DeleteOptions{}))
	t.Cleanup(func() { require.NoError(t, spoke.Apply(context.Background(), "deploy/rbac/preparation.yaml")) })
}

const preparation = `preCaching: true
  preCachingConfigRef: {name: june}
  backup: true
  actions:
    beforeEnable: {addClusterLabels: {being-upgraded: ""}}
    afterCompletion: {addClusterLabels: {upgraded: "yes"}, deleteClusterLabels: {being-upgraded: ""}}`

func TestARolloutMayOnlyLabelClusters(t *testing.T) {
	reserve(t, "spoke-5", "spoke-6")
	startRollout(t, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: labels-only, namespace: default}
spec:
  clusters: [spoke-5, spoke-6]
  remediationStrategy: {maxConcurrency: 1}
  actions:
    beforeEnable: {addClusterLabels: {temporary: "1"}}
    afterCompletion: {addClusterLabels: {labelled: "yes"}, removeClusterLabels: [temporary]}
`)
	status, code := awaitEnd(t, "labels-only")
	require.Zero(t, code)
	require.EqualValues(t, 2, status.Counts.Skipped)
	for _, cluster := range []string{"spoke-5", "spoke-6"} {
		require.Equal(t, "yes", labelsOf(t, cluster)["labelled"])
		require.NotContains(t, labelsOf(t, cluster), "temporary")
	}
}

func TestClustersThatCannotBePrecachedOrBackedUpLeaveTheRollout(t *testing.T) {
	reserve(t, "spoke-1", "spoke-2", "spoke-3")
	require.NoError(t, theFleet.Hub.Apply(t.Context(), "docs/examples/precaching-config.yaml"))
	withoutJobPermission(t, theFleet.Spokes[1], precache.NamespaceBackup)
	startRollout(t, rollout("prepared", preparation, 60, "spoke-1", "spoke-2", "spoke-3"))
	status, code := awaitEnd(t, "prepared")

	require.Equal(t, 1, code)
	require.Equal(t, "True PrecacheSpecIsWellFormed: Precaching spec is valid and consistent", condition(t, status, ranv1.ConditionPrecacheSpecValid))
	require.Equal(t, "True PrecachingCompleted: Precaching is completed for all clusters", condition(t, status, ranv1.ConditionPrecachingSucceeded))
	require.Equal(t, "True PartiallyDone: Backup failed for 1 clusters; failed: spoke-2", condition(t, status, ranv1.ConditionBackupSucceeded))
	require.Equal(t, [][]string{{"spoke-1"}, {"spoke-3"}}, status.RemediationPlan)
	failed := status.Clusters[2]
	require.Equal(t, "spoke-2", failed.Name, "clusters that left the plan are listed last")
	require.Contains(t, failed.Message, "apply deploy/rbac/preparation.yaml on it")

	require.Equal(t, "yes", labelsOf(t, "spoke-1")["upgraded"])
	require.NotContains(t, labelsOf(t, "spoke-1"), "being-upgraded")
	require.NotContains(t, labelsOf(t, "spoke-2"), "upgraded")
	for _, spoke := range theFleet.Spokes[:3] {
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
		requireNoPreparationJobs(t, spoke)
	}
}

func requireNoPreparationJobs(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), spoke, "the Jobs of preparations are removed", []client.Object{&batchv1.Job{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var jobs batchv1.JobList
			err := reader.List(ctx, &jobs)
			for _, job := range jobs.Items {
				if strings.HasPrefix(job.Namespace, "openshift-talo-") {
					return false, err
				}
			}
			return true, err
		}))
}

func TestARolloutWithoutABackedUpClusterFailsBeforeAnyChange(t *testing.T) {
	reserve(t, "spoke-4")
	withoutJobPermission(t, theFleet.Spokes[3], precache.NamespaceBackup)
	before := len(initiatorActions(t, theFleet.Spokes[3]))
	startRollout(t, rollout("unprepared", "backup: true", 60, "spoke-4"))
	status, code := awaitEnd(t, "unprepared")
	require.Equal(t, 1, code)
	require.Equal(t, "False Failed: Backup failed for all the clusters; failed: spoke-4", condition(t, status, ranv1.ConditionBackupSucceeded))
	require.True(t, strings.HasPrefix(condition(t, status, ranv1.ConditionSucceeded), "False Failed: Failed on 1 of 1 clusters"))
	require.Len(t, initiatorActions(t, theFleet.Spokes[3]), before)
}
