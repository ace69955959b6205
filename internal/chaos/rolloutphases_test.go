package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/temporal"
)

// waitingForApproval: the rollout waits for its approval.
func waitingForApproval() state {
	return groupState("WaitingForApproval", "", func(t *testing.T, s *scenarioRun, at target) reached {
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true} }, at.node)
		s.awaitReason(t, w.workflow, ranv1.ReasonWaitingForApproval)
		return reached{workflow: w.workflow, unblock: func() {
			if s.isRunning(t, w.workflow) {
				s.drydock(t, "upgrade", "approve", w.name, "-n", namespace)
			}
		}}
	})
}

// blocked: another rollout, which does not exist yet, must succeed first.
func blocked() state {
	return groupState("blocked", "AwaitBlockers", func(t *testing.T, s *scenarioRun, at target) reached {
		blocker := shape{name: "-blocker", clusters: []*devstack.Cluster{at.spoke}, nodes: []string{"worker-3"}, maxConcurrency: 1}
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: namespace, Name: s.name + blocker.name}}
		}, at.node)
		s.awaitReason(t, w.workflow, ranv1.ReasonMissingBlockingCR)
		return reached{workflow: w.workflow, unblock: func() { s.rollOut(t, blocker, nil) }}
	})
}

// preparing is a state in which a Job for precaching or a backup is about to be created.
func preparing(name string, change func(*ranv1.ClusterGroupUpgradeSpec)) state {
	return groupState(name, "ClusterPreparation: RunClusterJob", func(t *testing.T, s *scenarioRun, at target) reached {
		require.NoError(t, s.Hub.Apply(t.Context(), "docs/examples/precaching-config.yaml"))
		injection := stopRequest(s, at, faultproxy.Match{Verbs: []string{"create"}, Resource: "jobs"})
		w := s.smallRollout(t, at, change, at.node)
		awaitStopped(t, injection)
		return reached{workflow: w.workflow}
	})
}

func precaching() state {
	return preparing("precaching", func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.PreCaching, spec.PreCachingConfigRef = true, &ranv1.ObjectRef{Namespace: namespace, Name: "june"}
	})
}

func backingUp() state {
	return preparing("backup", func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Backup = true })
}

// soaking: the first cluster soaks before the second one starts.
func soaking() state {
	return groupState("soaking", "AwaitDeletedClusters", func(t *testing.T, s *scenarioRun, at target) reached {
		w := s.rollOut(t, shape{clusters: s.Spokes[1:3], nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.RemediationStrategy.SoakSeconds = soakSeconds
		})
		s.awaitEvent(t, w.workflow, "the first cluster soaks", func(event *historypb.HistoryEvent) bool {
			timer := event.GetTimerStartedEventAttributes()
			return timer.GetStartToFireTimeout().AsDuration() == soakSeconds*time.Second
		})
		return reached{workflow: w.workflow}
	})
}

// offline: the cluster is not Available when it should start.
func offline() state {
	return groupState("ClustersOffline", "AwaitClustersBack", func(t *testing.T, s *scenarioRun, at target) reached {
		s.setAvailability(t, at.spoke, `[{"type":"ManagedClusterConditionAvailable","status":"Unknown","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]`)
		back := func() { s.setAvailability(t, at.spoke, "null") }
		t.Cleanup(back)
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(false) }, at.node)
		awaitStatus(t, s, w.workflow, "shows that its cluster is offline", func(status ranv1.ClusterGroupUpgradeStatus) bool {
			return len(status.Clusters) > 0 && status.Clusters[0].Reason == ranv1.ReasonClusterOffline
		})
		s.signal(t, w.workflow, temporal.SignalEnable)
		s.awaitScheduled(t, w.workflow, "AwaitClustersBack")
		return reached{workflow: w.workflow, unblock: back}
	})
}

// catchingUp: a cluster that was offline when its batch came is running, after the others.
func catchingUp() state {
	return groupState("InProgress, the catch-up batch", "ClusterUpgrade: NodeMaintenance: Drain", func(t *testing.T, s *scenarioRun, at target) reached {
		late, other := target{s.Spokes[1], at.node}, s.Spokes[2]
		s.setAvailability(t, late.spoke, `[{"type":"ManagedClusterConditionAvailable","status":"Unknown","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]`)
		back := func() { s.setAvailability(t, late.spoke, "null") }
		t.Cleanup(back)
		pod := s.barePod(t, late, map[string]string{devstack.AnnotationLeaveAfter: forever})
		w := s.rollOut(t, shape{clusters: []*devstack.Cluster{late.spoke, other}, nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.Enable = new(false)
		})
		w.plan = [][]string{{other.Name}, {late.spoke.Name}}
		awaitStatus(t, s, w.workflow, "shows that a cluster is offline", func(status ranv1.ClusterGroupUpgradeStatus) bool {
			return len(status.Clusters) > 0 && status.Clusters[0].Reason == ranv1.ReasonClusterOffline
		})
		s.signal(t, w.workflow, temporal.SignalEnable)
		awaitStatus(t, s, w.workflow, "waits for the offline cluster", func(status ranv1.ClusterGroupUpgradeStatus) bool {
			return status.Wait != nil && status.Wait.Reason == ranv1.ReasonClustersOffline
		})
		back()
		s.awaitWaiting(t, s.awaitMaintenance(t, w, late), "Drain")
		return reached{workflow: w.workflow, unblock: func() { endTermination(t, late, pod) }}
	})
}

// setAvailability sets the conditions of a ManagedCluster, as JSON.
func (s *scenarioRun) setAvailability(t *testing.T, spoke *devstack.Cluster, conditions string) {
	t.Helper()
	_, err := s.managedClusterAPI(t).Patch(context.Background(), spoke.Name, types.MergePatchType, []byte(`{"status":{"conditions":`+conditions+`}}`), metav1.PatchOptions{}, "status")
	require.NoError(t, err)
}

// soakSeconds is long enough for a fault, and differs from all other timers.
const soakSeconds = 17
