package chaos

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/history/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/temporal"
)

// smallRollout starts a rollout on nodes of one spoke, one after the other.
func (s *scenarioRun) smallRollout(t *testing.T, at target, change func(*ranv1.ClusterGroupUpgradeSpec), nodes ...string) *work {
	t.Helper()
	return s.rollOut(t, shape{name: "-" + at.spoke.Name, clusters: []*devstack.Cluster{at.spoke}, nodes: nodes, maxConcurrency: 1}, change)
}

// slowDrain starts a rollout, and waits until a pod blocks the drain of its first node.
func (s *scenarioRun) slowDrain(t *testing.T, at target, nodes ...string) (w *work, unblock func()) {
	t.Helper()
	slow := target{at.spoke, nodes[0]}
	pod := s.barePod(t, slow, map[string]string{devstack.AnnotationLeaveAfter: forever})
	w = s.smallRollout(t, at, nil, nodes...)
	s.awaitWaiting(t, s.awaitMaintenance(t, w, slow), "Drain")
	return w, func() { endTermination(t, slow, pod) }
}

func clusterState(step ranv1.ClusterStep, moment, activity string, reach func(*testing.T, *scenarioRun, target) reached) state {
	return state{workflow: temporal.ClusterUpgrade, state: string(step), moment: moment, activity: activity, reach: reach}
}

// inspecting: a restarted worker connects to the cluster and has no answer yet. It restarts the worker, so no other state may be reached at the same
// time.
func inspecting() state {
	return clusterState(ranv1.StepInspect, "", "InspectCluster", func(t *testing.T, s *scenarioRun, at target) reached {
		stopRequest(s, at, faultproxy.Match{Verbs: []string{"get"}, Resource: "namespaces", Name: "kube-system"})
		s.restartWorker(t)
		w := s.smallRollout(t, at, nil, at.node)
		s.awaitScheduled(t, s.awaitCluster(t, w, at.spoke), "InspectCluster")
		return reached{workflow: w.ofCluster(at.spoke)}
	})
}

// planning: a restarted worker cannot list the ManagedClusters. It restarts the worker, so no other state may be reached at the same time. The
// requests are refused, not stopped, because a cache never cancels a stopped watch.
func planning() state {
	return groupState("planning", "PlanRollout", func(t *testing.T, s *scenarioRun, at target) reached {
		injection := s.Proxy(s.Hub).Inject(faultproxy.Rule{
			Match: faultproxy.Match{Verbs: []string{"list", "watch"}, Resource: "managedclusters"},
			Fault: faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded)),
		})
		s.restartWorker(t)
		w := s.smallRollout(t, at, nil, at.node)
		s.awaitScheduled(t, w.workflow, "PlanRollout")
		require.Eventually(t, func() bool { return injection.Injected() > 0 }, waitLimit, 10*time.Millisecond, "the worker does not request the ManagedClusters")
		return reached{workflow: w.workflow}
	})
}

// restartWorker restarts the worker, which loses its caches.
func (s *scenarioRun) restartWorker(t *testing.T) {
	t.Helper()
	require.NoError(t, s.Worker.Stop())
	require.NoError(t, s.Worker.Start(t.Context()))
}

func clusterLocks() state {
	return clusterState(ranv1.StepClusterLocks, "", "AwaitClusterLocks", func(t *testing.T, s *scenarioRun, at target) reached {
		unlock := s.lockCluster(t, at.spoke)
		w := s.smallRollout(t, at, nil, at.node)
		s.awaitWaiting(t, s.awaitCluster(t, w, at.spoke), "AwaitClusterLocks")
		return reached{workflow: w.ofCluster(at.spoke), unblock: unlock}
	})
}

func controlPlaneNodes() state {
	return clusterState(ranv1.StepControlPlane, "a node running", "NodeMaintenance: Drain", func(t *testing.T, s *scenarioRun, at target) reached {
		w, unblock := s.slowDrain(t, at, controlPlane, at.node)
		return reached{workflow: w.ofCluster(at.spoke), unblock: unblock}
	})
}

func workerNodes() state {
	return clusterState(ranv1.StepWorkers, "one node running, one waiting for a slot", "NodeMaintenance: Drain", func(t *testing.T, s *scenarioRun, at target) reached {
		w, unblock := s.slowDrain(t, at, at.node, "worker-2")
		s.awaitEvent(t, w.ofCluster(at.spoke), "a node waits for a slot", func(event *history.HistoryEvent) bool {
			return event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == temporal.SignalSlotResponse
		})
		return reached{workflow: w.ofCluster(at.spoke), unblock: unblock}
	})
}

// clusterHealth: a maintained node is not healthy when the maintenance of the last one ends.
func clusterHealth() state {
	return clusterState(ranv1.StepHealthChecks, "", "AwaitClusterHealthy", func(t *testing.T, s *scenarioRun, at target) reached {
		last := target{at.spoke, "worker-2"}
		pod := s.barePod(t, last, map[string]string{devstack.AnnotationLeaveAfter: forever})
		w := s.smallRollout(t, at, nil, at.node, last.node)
		s.awaitWaiting(t, s.awaitMaintenance(t, w, last), "Drain")
		s.setReady(t, at, false)
		endTermination(t, last, pod)
		s.awaitWaiting(t, w.ofCluster(at.spoke), "AwaitClusterHealthy")
		return reached{workflow: w.ofCluster(at.spoke), unblock: func() { s.setReady(t, at, true) }}
	})
}

// clusterRequest is a state in which the maintenance request of a cluster is created or withdrawn. The write is lost, or only its answer.
func clusterRequest(verb string, answerOnly bool) state {
	step, moment, activity := ranv1.StepClusterLocks, "request lost: the maintenance request", "RequestClusterMaintenance"
	if verb == "delete" {
		step, moment, activity = ranv1.StepCleaningUp, "request lost: the withdrawal of the request", "WithdrawClusterMaintenance"
	}
	if answerOnly {
		moment = "answer lost" + moment[len("request lost"):]
	}
	return clusterState(step, moment, activity, func(t *testing.T, s *scenarioRun, at target) reached {
		injection := stopRequest(s, at, faultproxy.Match{Verbs: []string{verb}, Resource: "clustermaintenancerequests"})
		w := s.smallRollout(t, at, nil, at.node)
		arrived := reached{workflow: w.ofCluster(at.spoke)}
		if answerOnly {
			arrived.beforeCrash = s.forwardBeforeCrash(t, at, injection)
		} else {
			awaitStopped(t, injection)
			arrived.injection = injection
		}
		return arrived
	})
}

func groupState(name, activity string, reach func(*testing.T, *scenarioRun, target) reached) state {
	return state{workflow: temporal.ClusterGroupUpgrade, state: name, activity: activity, reach: reach}
}

func notEnabled() state {
	return groupState("NotEnabled", "", func(t *testing.T, s *scenarioRun, at target) reached {
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.Enable = new(false) }, at.node)
		s.awaitCompleted(t, w.workflow, "PlanRollout")
		return reached{workflow: w.workflow, unblock: func() { s.signalIfRunning(t, w.workflow, temporal.SignalEnable) }}
	})
}

// inBatch is a state in which the canary's batch is running, or the one after it.
func inBatch(canary bool) state {
	name := "InProgress, a later batch"
	if canary {
		name = "InProgress, the canary's batch"
	}
	return groupState(name, "ClusterUpgrade: NodeMaintenance: Drain", func(t *testing.T, s *scenarioRun, at target) reached {
		slow := target{s.Spokes[2], at.node}
		if canary {
			slow.spoke = s.Spokes[1]
		}
		pod := s.barePod(t, slow, map[string]string{devstack.AnnotationLeaveAfter: forever})
		w := s.rollOut(t, shape{clusters: s.Spokes[1:3], nodes: []string{at.node}, maxConcurrency: 1}, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.RemediationStrategy.Canaries = []string{s.Spokes[1].Name}
		})
		s.awaitWaiting(t, s.awaitMaintenance(t, w, slow), "Drain")
		return reached{workflow: w.workflow, unblock: func() { endTermination(t, slow, pod) }}
	})
}

// paused: running work has ended, and nothing new starts.
func paused() state {
	return groupState("Paused", "AwaitDeletedClusters", func(t *testing.T, s *scenarioRun, at target) reached {
		w, unblock := s.slowDrain(t, at, at.node, "worker-2")
		s.signal(t, w.workflow, temporal.SignalPause)
		s.awaitEvent(t, w.ofCluster(at.spoke), "it is paused", func(event *history.HistoryEvent) bool {
			return event.GetWorkflowExecutionSignaledEventAttributes().GetSignalName() == temporal.SignalPause
		})
		unblock()
		done := false
		s.awaitEvent(t, w.ofCluster(at.spoke), "the running node is done", func(event *history.HistoryEvent) bool {
			done = done || event.EventType == enums.EVENT_TYPE_CHILD_WORKFLOW_EXECUTION_COMPLETED
			return done && event.EventType == enums.EVENT_TYPE_WORKFLOW_TASK_COMPLETED
		})
		return reached{workflow: w.workflow, unblock: func() { s.signalIfRunning(t, w.workflow, temporal.SignalResume) }}
	})
}

// The states in which the actions before and after a rollout change a cluster.
const (
	beforeEnable    = "beforeEnable"
	afterCompletion = "afterCompletion"
)

// changing is a state in which the labels of a cluster are changed before its work, or restored after it.
func changing(before bool) state {
	name, body := beforeEnable, `"`+fixtureLabel+`":"running"`
	if !before {
		name, body = afterCompletion, `"`+fixtureLabel+`":null`
	}
	return groupState(name, "ChangeClusters", func(t *testing.T, s *scenarioRun, at target) reached {
		injection := stopRequest(s, target{spoke: s.Hub}, faultproxy.Match{Verbs: []string{"patch"}, Resource: "managedclusters", Name: at.spoke.Name, Body: body})
		w := s.smallRollout(t, at, func(spec *ranv1.ClusterGroupUpgradeSpec) {
			spec.Actions.BeforeEnable = &ranv1.BeforeEnable{AddClusterLabels: map[string]string{fixtureLabel: "running"}}
			spec.Actions.AfterCompletion = &ranv1.AfterCompletion{RemoveClusterLabels: []string{fixtureLabel}}
		}, at.node)
		w.labels = true
		awaitStopped(t, injection)
		return reached{workflow: w.workflow, injection: injection}
	})
}

// cleaningUp is a state in which a node is about to be returned, because the rollout was cancelled or has timed out.
func cleaningUp(name, end string, change func(*ranv1.ClusterGroupUpgradeSpec), stop func(*testing.T, *scenarioRun, *work)) state {
	return groupState(name, "ClusterUpgrade: NodeMaintenance: ReturnNode", func(t *testing.T, s *scenarioRun, at target) reached {
		pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
		injection := stopRequest(s, at, faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodes", Name: at.node, Body: `"unschedulable":null`})
		w := s.smallRollout(t, at, change, at.node)
		w.end = end
		s.awaitWaiting(t, s.awaitMaintenance(t, w, at), "Drain")
		stop(t, s, w)
		awaitStopped(t, injection)
		return reached{workflow: w.workflow, unblock: func() { endTermination(t, at, pod) }}
	})
}

func cancelling() state {
	return cleaningUp("cancelling", cancelled, nil, func(t *testing.T, s *scenarioRun, w *work) { s.signal(t, w.workflow, temporal.SignalCancel) })
}

func timedOut() state {
	return cleaningUp("cleaning up after a timeout", ranv1.ReasonTimedOut, oneMinute, func(*testing.T, *scenarioRun, *work) {})
}
