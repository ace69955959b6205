package e2e

import (
	"cmp"
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
	rolloutpkg "drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

// A terminated workflow does not clean up. These tests terminate workflows in each state in which they can be blocked, as `temporal workflow
// terminate` does. The sweeper cleans up within half a minute.

const (
	controlPlane = "control-plane-1"
	testLabel    = "sweeper-test"
	longer       = "1000h"
)

// target is the node of a maintenance.
type target struct {
	*devstack.Cluster
	node string
}

func (s target) name() string { return "held-" + s.Name + "-" + s.node }

func (s target) workflowID() string { return temporal.NodeMaintenanceID(s.Name, "default", s.name()) }

// heldMaintenance is a maintenance that stays in a state.
type heldMaintenance struct {
	state maintenancev1.NodeState
	at    target
	spec  maintenancev1.NodeMaintenanceSpec
	// prepare creates the objects that block the maintenance. arrive waits until the state has set all its marks.
	prepare, arrive func(*testing.T, target)
	// after unblocks the cleanup once the workflow is terminated.
	after func(*testing.T, target)
}

func heldMaintenances() []heldMaintenance {
	spoke1, spoke2, spoke3, spoke4 := theFleet.Spokes[0], theFleet.Spokes[1], theFleet.Spokes[2], theFleet.Spokes[3]
	slow := map[string]string{devstack.AnnotationLeaveAfter: longer}
	endless := map[string]string{devstack.AnnotationCompleteAfter: longer}
	return []heldMaintenance{
		// Before the other worker of its cluster, because the vRouter releases one node at a time.
		{
			state: maintenancev1.NodeWaitForPodCompletion, at: target{spoke1, "worker-1"},
			spec:    maintenancev1.NodeMaintenanceSpec{WaitForPodCompletion: &maintenancev1.WaitForPodCompletionSpec{PodSelector: testLabel}},
			prepare: func(t *testing.T, at target) { barePod(t, at, nil) },
		},
		{
			// A maintenance with a Job cannot join the one that owns the node.
			state: maintenancev1.NodePending, at: target{spoke1, controlPlane},
			spec:    maintenancev1.NodeMaintenanceSpec{Action: jobAction(endless)},
			prepare: occupy, arrive: awaitPlanned, after: stillOccupied,
		},
		{
			state: maintenancev1.NodeScheduled, at: target{spoke1, "worker-2"},
			prepare: lockNode, arrive: awaitReason("WorkloadLocksHeld"),
		},
		{
			state: maintenancev1.NodeCordon, at: target{spoke4, "worker-1"},
			prepare: lockNode, arrive: refuseCordon,
		},
		{
			state: maintenancev1.NodeDraining, at: target{spoke2, "worker-1"},
			spec:    maintenancev1.NodeMaintenanceSpec{DrainSpec: &maintenancev1.DrainSpec{Force: true, PodSelector: testLabel}},
			prepare: func(t *testing.T, at target) { barePod(t, at, slow) }, arrive: awaitReason("Terminating"),
		},
		{
			state: maintenancev1.NodeReady, at: target{spoke2, controlPlane},
			spec: maintenancev1.NodeMaintenanceSpec{Action: jobAction(endless)}, arrive: awaitReason("JobRunning"),
		},
		{
			state: maintenancev1.NodeRequestorFailed, at: target{spoke4, controlPlane}, arrive: signalFailed,
		},
		{
			state: maintenancev1.NodeHealthChecks, at: target{spoke3, controlPlane},
			spec: maintenancev1.NodeMaintenanceSpec{HealthChecks: []drydockv1.HealthCheck{{
				Name: "the pod is ready", Condition: &drydockv1.ConditionCheck{APIVersion: "v1", Kind: "Pod", Namespace: "shop", Name: "bare-pod-" + controlPlane, Type: "Ready"},
			}}},
			prepare: func(t *testing.T, at target) {
				barePod(t, at, map[string]string{devstack.AnnotationReadyAfter: longer})
			},
			arrive: signalDone,
		},
		{
			state: maintenancev1.NodeCleaningUp, at: target{spoke3, "worker-1"},
			spec: maintenancev1.NodeMaintenanceSpec{Action: jobAction(map[string]string{
				devstack.AnnotationCompleteAfter: longer, devstack.AnnotationLeaveAfter: longer,
			})},
			arrive: cancelWhileTheJobRuns,
			after:  endJobTermination,
		},
	}
}

func TestTheSweeperCleansUpAMaintenanceTerminatedInAnyState(t *testing.T) {
	reserve(t, "spoke-1", "spoke-2", "spoke-3", "spoke-4")
	foreign := target{theFleet.Cluster("spoke-2"), "worker-2"}
	mark(t, foreign, "node/spoke-2/default/theirs/01a1f8f8-e90e-79c1-91aa-26fe2c78668f") // an owner of a Drydock in another Temporal namespace
	spokes := theFleet.Spokes[:4]
	for _, spoke := range spokes {
		allow(t, spoke, workers+1)
	}
	maintenances := heldMaintenances()
	marks := map[maintenancev1.NodeState][]string{}
	for _, held := range maintenances {
		if held.prepare != nil {
			held.prepare(t, held.at)
		}
		startMaintenance(t, held.at, held.spec)
		if held.arrive != nil {
			held.arrive(t, held.at)
		}
		awaitNodeState(t, held.at.workflowID(), held.state)
		marks[held.state] = marksOf(t, held.at)
		require.NotEmpty(t, marks[held.state], held.state)
	}
	for _, held := range maintenances {
		terminate(t, held.at.workflowID())
	}
	for _, held := range maintenances {
		if held.after != nil {
			held.after(t, held.at)
		}
		findings := awaitCleanedUp(t, held.at.Cluster, held.at.workflowID(), len(marks[held.state]))
		for i, finding := range findings {
			require.Contains(t, marks[held.state], finding.String(), held.state)
			require.Regexp(t, `^Terminated at \S+ by ann: by hand$`, finding.Ended, held.state)
			require.True(t, i == 0 || !finding.SettledAt.Before(findings[i-1].SettledAt), held.state)
		}
		require.Empty(t, marksOf(t, held.at), held.state)
	}
	requireReportedAndNotTouched(t, foreign)
	for _, spoke := range spokes {
		unlock(t, spoke)
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	}
}

// requireReportedAndNotTouched requires that the sweeper reports a node whose owner Temporal does not know, and does not change it. Then it removes
// the mark, as a user does.
func requireReportedAndNotTouched(t *testing.T, at target) {
	t.Helper()
	finding := func(state sweeper.FindingState) {
		ask(t, temporal.SweeperID(at.Name), func(s sweeper.Status) bool {
			return slices.ContainsFunc(s.Findings, func(f sweeper.Finding) bool { return f.Name == at.node && f.State == state })
		})
	}
	finding(sweeper.FindingUnknownOwner)
	require.Equal(t, "node/spoke-2/default/theirs", ownerOf(node(t, at.Cluster, at.node)))
	unknown := regexp.MustCompile(`NOT OK +sweeper spoke-2 +Node worker-2 is owned by node/spoke-2/default/theirs, unknown to Temporal: not changed`)
	cleanedUp := regexp.MustCompile(`ok +sweeper spoke-1 +[0-9]+ cleaned up, the last at .*Terminated at`)
	var doctor answer
	require.Eventually(t, func() bool { // a busy worker may not answer in time
		doctor = drydock(t, "doctor")
		return doctor.code == 1 && unknown.MatchString(doctor.out) && cleanedUp.MatchString(doctor.out)
	}, stateLimit, 200*time.Millisecond, "%+v", &doctor)
	t.Log("drydock doctor\n" + doctor.out)

	mark(t, at, "")
	finding(sweeper.FindingGone)
}

// mark sets the owner of a node; an empty owner removes the mark.
func mark(t *testing.T, at target, owner string) {
	t.Helper()
	value := "null"
	if owner != "" {
		value = strconv.Quote(owner)
	}
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, kube.AnnotationOwner, value)
	_, err := at.Client.CoreV1().Nodes().Patch(t.Context(), at.node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}

// heldRollout is a rollout over one cluster that stays in a step.
type heldRollout struct {
	name  string
	spoke *devstack.Cluster
	step  ranv1.ClusterStep
	// podOn is the node whose drain a pod blocks; empty: none.
	podOn string
	// prepare creates the objects that block the rollout. arrive waits for conditions of the step that its status does not show.
	prepare, arrive func(*testing.T, *devstack.Cluster)
	// terminated is the workflow that is terminated; the ClusterUpgrade unless set.
	terminated string
	// byItself: Temporal cancels the children of the workflow, so the sweeper has nothing to clean up.
	byItself bool
}

func (h heldRollout) rollout() string { return "gone-" + h.spoke.Name }

func (h heldRollout) clusterID() string {
	return temporal.ClusterUpgradeID("default", h.rollout(), h.spoke.Name)
}

func heldRollouts() []heldRollout {
	spokes := theFleet.Spokes
	return []heldRollout{
		{name: "while it waits for the locks of the cluster", spoke: spokes[0], step: ranv1.StepClusterLocks, prepare: lockCluster, arrive: awaitClusterHeld},
		{name: "while a control-plane node drains", spoke: spokes[1], step: ranv1.StepControlPlane, podOn: controlPlane},
		{name: "while a worker drains", spoke: spokes[2], step: ranv1.StepWorkers, podOn: "worker-1"},
		{name: "while its health is checked", spoke: spokes[3], step: ranv1.StepHealthChecks, podOn: "worker-2", arrive: makeUnhealthy},
		{
			name: "in the maintenance of a node", spoke: spokes[4], step: ranv1.StepWorkers, podOn: "worker-1",
			terminated: temporal.NodeMaintenanceID(spokes[4].Name, "default", rolloutpkg.NodeMaintenanceName("gone-"+spokes[4].Name, "worker-1")),
		},
		{
			name: "as a whole", spoke: spokes[5], step: ranv1.StepWorkers, podOn: "worker-1",
			terminated: temporal.ClusterGroupUpgradeID("default", "gone-"+spokes[5].Name), byItself: true,
		},
	}
}

func TestTheSweeperCleansUpARolloutTerminatedInAnyPhase(t *testing.T) {
	shared(t)
	for _, held := range heldRollouts() {
		t.Run(held.name, func(t *testing.T) {
			reserve(t, held.spoke.Name)
			if held.prepare != nil {
				held.prepare(t, held.spoke)
			}
			if held.podOn != "" {
				barePod(t, target{held.spoke, held.podOn}, map[string]string{devstack.AnnotationLeaveAfter: longer})
			}
			startRollout(t, drainingRollout(held))
			if held.podOn != "" {
				atNode := temporal.NodeMaintenanceID(held.spoke.Name, "default", rolloutpkg.NodeMaintenanceName(held.rollout(), held.podOn))
				ask(t, atNode, func(s maintenancev1.NodeMaintenanceStatus) bool {
					return s.Wait != nil && s.Wait.Reason == "Terminating"
				})
			}
			if held.arrive != nil {
				held.arrive(t, held.spoke)
			}
			ask(t, held.clusterID(), func(s ranv1.ClusterUpgradeStatus) bool {
				return s.Step == held.step && (held.podOn != "" || s.Wait != nil)
			})
			before := len(actionsOf(t, held.spoke))

			terminated := cmp.Or(held.terminated, held.clusterID())
			terminate(t, terminated)
			if !held.byItself {
				awaitCleanedUp(t, held.spoke, terminated, 1)
			}
			require.NoError(t, theFleet.Await(t.Context(), held.spoke, "the request for the cluster is withdrawn", []kubeclient.Object{&lcmv1.ClusterMaintenanceRequest{}},
				func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
					var requests lcmv1.ClusterMaintenanceRequestList
					err := reader.List(ctx, &requests)
					return len(requests.Items) == 0, err
				}))
			actions := actionsOf(t, held.spoke)[before:]
			if !held.byItself && held.podOn != "" && held.arrive == nil {
				require.Less(t, indexOf(actions, fleet.ActionUncordon), indexOf(actions, fleet.ActionWithdrawCluster), "the request for the cluster stays until its node is uncordoned")
			}
			require.Empty(t, fleet.Cordoned(actions), "nothing new starts")
			require.NoError(t, theFleet.AwaitCleanup(t.Context(), held.spoke))
		})
	}
}

// drainingRollout returns a rollout that drains only the pods of this test.
func drainingRollout(held heldRollout) string {
	return fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: %s, namespace: default}
spec:
  clusters: [%s]
  remediationStrategy: {maxConcurrency: 1, timeout: 60}
  nodeMaintenance: {drainSpec: {timeoutSeconds: 0, force: true, podSelector: %s}}
`, held.rollout(), held.spoke.Name, testLabel)
}

// awaitClusterHeld waits until the rollout has requested the cluster, and waits for its locks.
func awaitClusterHeld(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	ask(t, heldRollout{spoke: spoke}.clusterID(), func(s ranv1.ClusterUpgradeStatus) bool { return s.Wait != nil && s.Wait.Reason == "WorkloadLocksHeld" })
}

// makeUnhealthy makes a completed node NotReady before the last one is done, until the end of the test.
func makeUnhealthy(t *testing.T, spoke *devstack.Cluster) {
	t.Helper()
	annotate(t, spoke, "worker-1", `"injected fault"`)
	t.Cleanup(func() { annotate(t, spoke, "worker-1", "null") })
	require.NoError(t, theFleet.Await(t.Context(), spoke, "worker-1 is not ready", []kubeclient.Object{&corev1.Node{}}, func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
		var node corev1.Node
		err := reader.Get(ctx, kubeclient.ObjectKey{Name: "worker-1"}, &node)
		ready := kube.FindNodeCondition(&node, corev1.NodeReady)
		return ready != nil && ready.Status != corev1.ConditionTrue, err
	}))
	endSlowTermination(t, spoke, "bare-pod")
}

func annotate(t *testing.T, spoke *devstack.Cluster, node, value string) {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:%s}}}`, devstack.AnnotationNotReady, value)
	_, err := spoke.Client.CoreV1().Nodes().Patch(context.Background(), node, types.MergePatchType, patch, metav1.PatchOptions{})
	require.NoError(t, err)
}
