package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/agent"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// setUnschedulable cordons or uncordons the nodes of a spoke: its pods stay pending, or run.
func setUnschedulable(t *testing.T, spoke *devstack.Cluster, unschedulable bool) {
	t.Helper()
	nodes, err := spoke.Client.CoreV1().Nodes().List(context.Background(), metav1.ListOptions{})
	require.NoError(t, err)
	for _, node := range nodes.Items {
		_, err := spoke.Client.CoreV1().Nodes().Patch(context.Background(), node.Name, types.MergePatchType, fmt.Appendf(nil, `{"spec":{"unschedulable":%t}}`, unschedulable), metav1.PatchOptions{})
		require.NoError(t, err)
	}
}

// preparationPod waits for the pod of a Job in a namespace of a spoke.
func preparationPod(t *testing.T, spoke *devstack.Cluster, namespace string) *corev1.Pod {
	t.Helper()
	var pods *corev1.PodList
	require.Eventually(t, func() bool {
		var err error
		pods, err = spoke.Client.CoreV1().Pods(namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil && len(pods.Items) == 1
	}, stateLimit, 100*time.Millisecond, "the pod in %s", namespace)
	return &pods.Items[0]
}

// atolls registers clusters that only the hub reaches, each with the agent of a spoke, and binds a policy to them.
func atolls(t *testing.T, policy string, offline func(string) bool, clusters map[string]*devstack.Cluster) *agent.Agents {
	t.Helper()
	var names []string
	configs := map[string]*rest.Config{}
	for name, spoke := range clusters {
		register(t, name, nil)
		names, configs[name] = append(names, name), spoke.Config
	}
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return 0 }})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	agents, err := agent.Start(t.Context(), theFleet.Hub.Config, configs, agent.Options{Offline: offline})
	require.NoError(t, err)
	t.Cleanup(agents.Stop)
	createOnHub(t, informPolicy(policy, "", names...))
	awaitNonCompliant(t, len(names), policy)
	require.NoError(t, theFleet.Hub.Apply(t.Context(), "docs/examples/precaching-config.yaml"))
	return agents
}

// blockedBy reports whether a blocker of a rollout has this message.
func blockedBy(status ranv1.ClusterGroupUpgradeStatus, message string) bool {
	return status.Wait != nil && slices.ContainsFunc(status.Wait.Blockers, func(b drydockv1.Blocker) bool { return strings.Contains(b.Message, message) })
}

// One cluster is prepared, the Job of another fails, and a third is offline until the first is complete.
func TestClustersWithoutCredentialsArePreparedByTheirAgents(t *testing.T) {
	reserve(t, policyHub, "spoke-4", "spoke-5", "spoke-6")
	const name, policy = "agents-prepare", "atoll-motd"
	calm, failing, offline := theFleet.Spokes[3], theFleet.Spokes[4], theFleet.Spokes[5]
	var isOffline atomic.Bool
	isOffline.Store(true)
	agents := atolls(t, policy, func(cluster string) bool { return cluster == "atoll-offline" && isOffline.Load() },
		map[string]*devstack.Cluster{"atoll-calm": calm, "atoll-failing": failing, "atoll-offline": offline})
	setAvailable(t, "atoll-offline", "Unknown")
	setUnschedulable(t, failing, true)
	t.Cleanup(func() { setUnschedulable(t, failing, false) })
	startRollout(t, fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: %s}
spec:
  clusters: [atoll-calm, atoll-failing, atoll-offline]
  managedPolicies: [%s]
  preCaching: true
  preCachingConfigRef: {name: june}
  backup: true
  remediationStrategy: {maxConcurrency: 3, timeout: 30}`, name, policy))

	pod := preparationPod(t, failing, "openshift-talo-pre-cache")
	_, err := failing.Client.CoreV1().Pods(pod.Namespace).Patch(t.Context(), pod.Name, types.MergePatchType, fmt.Appendf(nil, `{"metadata":{"annotations":{%q:"7"}}}`, devstack.AnnotationExitCode), metav1.PatchOptions{})
	require.NoError(t, err)
	awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Precaching != nil && s.Precaching.Status["atoll-failing"] == ranv1.PreparationStarting && s.Precaching.Status["atoll-calm"] == ranv1.PreparationSucceeded
	})
	setUnschedulable(t, failing, false)
	awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return clusterOf(s, "atoll-calm").State == ranv1.ClusterComplete && s.Wait != nil && s.Wait.Reason == ranv1.ReasonClustersOffline &&
			s.Precaching.Status["atoll-offline"] == ranv1.PreparationNotStarted && s.Backup.Status["atoll-offline"] == ranv1.PreparationNotStarted
	})
	requireNoPreparationJobs(t, offline)
	isOffline.Store(false)
	setAvailable(t, "atoll-offline", "True")
	agents.Wake()

	status, code := awaitEnd(t, name)
	require.Equal(t, 1, code)
	require.Equal(t, "True PartiallyDone: Precaching failed for 1 clusters; failed: atoll-failing", condition(t, status, ranv1.ConditionPrecachingSucceeded))
	require.Equal(t, "True BackupCompleted: Backup is completed for all clusters", condition(t, status, ranv1.ConditionBackupSucceeded))
	require.EqualValues(t, 2, status.Counts.Complete)
	failed := clusterOf(status, "atoll-failing")
	require.Contains(t, failed.Message, "failed on cluster atoll-failing: BackoffLimitExceeded")
	require.Contains(t, failed.Message, "kubectl logs -n openshift-talo-pre-cache job/")
	require.Empty(t, viewsAndActions(t, name))
	require.Eventually(t, func() bool { return agents.Err() == nil }, stateLimit, 100*time.Millisecond, "conflicts with other writers are retried")
	for _, spoke := range []*devstack.Cluster{calm, offline} {
		requireNoPreparationJobs(t, spoke)
	}
	kept, err := failing.Client.BatchV1().Jobs(pod.Namespace).List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, kept.Items, 1, "a failed Job stays for a day")
	removeJob(t, failing, &kept.Items[0])
}

func removeJob(t *testing.T, spoke *devstack.Cluster, job *batchv1.Job) {
	t.Helper()
	require.NoError(t, spoke.Client.BatchV1().Jobs(job.Namespace).Delete(t.Context(), job.Name, metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}))
	requireNoPreparationJobs(t, spoke)
}

// One Job runs, and the agent of the other cluster has not answered yet.
func TestACancelledPreparationByAgentsLeavesNothing(t *testing.T) {
	reserve(t, policyHub, "spoke-5", "spoke-6")
	const name, policy = "agents-cancelled", "lagoon-motd"
	running, silent := theFleet.Spokes[4], theFleet.Spokes[5]
	var isSilent atomic.Bool
	isSilent.Store(true)
	agents := atolls(t, policy, func(cluster string) bool { return cluster == "lagoon-silent" && isSilent.Load() },
		map[string]*devstack.Cluster{"lagoon-running": running, "lagoon-silent": silent})
	setAvailable(t, "lagoon-silent", "Unknown")
	setUnschedulable(t, running, true)
	t.Cleanup(func() { setUnschedulable(t, running, false) })
	startRollout(t, fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: %s}
spec:
  clusters: [lagoon-running, lagoon-silent]
  managedPolicies: [%s]
  backup: true
  remediationStrategy: {maxConcurrency: 2, timeout: 30}`, name, policy))
	preparationPod(t, running, "openshift-talo-backup")
	awaitStatus(t, name, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Backup != nil && s.Backup.Status["lagoon-running"] == ranv1.PreparationStarting && blockedBy(s, "its ManagedCluster is not Available since ")
	})
	succeeds(t, "upgrade", "cancel", name)
	awaitEnd(t, name)
	require.Empty(t, viewsAndActions(t, name))
	requireNoPreparationJobs(t, running)
	isSilent.Store(false)
	agents.Wake()
	awaitServed(t, "lagoon-silent", "default")
	agents.Stop() // after what it has begun
	for _, action := range agents.Actions() {
		require.True(t, strings.HasPrefix(action, "lagoon-running "), action)
	}
}
