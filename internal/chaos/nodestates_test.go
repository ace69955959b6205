package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/temporal"
)

// nodeWaits are the states of NodeMaintenance that last until the cluster changes or the requestor sends a signal.
func nodeWaits() []state {
	return []state{
		nodeWait(maintenancev1.NodeScheduled, "AwaitNodeLocks", func(t *testing.T, s *scenarioRun, at target) reached {
			unlock := s.lock(t, at, lcmv1.LockActive)
			w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
			return reached{workflow: w.workflow, unblock: unlock}
		}),
		nodeWait(maintenancev1.NodeWaitForPodCompletion, "AwaitPodCompletion", func(t *testing.T, s *scenarioRun, at target) reached {
			pod := s.barePod(t, at, nil)
			w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{
				WaitForPodCompletion: &maintenancev1.WaitForPodCompletionSpec{PodSelector: fixtureLabel}, Action: job(nil),
			})
			return reached{workflow: w.workflow, unblock: func() { removePod(t, at, pod) }}
		}),
		draining(),
		jobRunning(),
		awaitingRequestor(maintenancev1.NodeReady, temporal.SignalDone),
		awaitingRequestor(maintenancev1.NodeRequestorFailed, temporal.SignalRecover, temporal.SignalDone),
		nodeWait(maintenancev1.NodeHealthChecks, "AwaitNodeHealthy", func(t *testing.T, s *scenarioRun, at target) reached {
			pod := s.barePod(t, at, map[string]string{devstack.AnnotationReadyAfter: forever})
			w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil), HealthChecks: []drydockv1.HealthCheck{{
				Name:      "the pod is ready",
				Condition: &drydockv1.ConditionCheck{APIVersion: "v1", Kind: "Pod", Namespace: podNamespace, Name: pod, Type: "Ready"},
			}}})
			return reached{workflow: w.workflow, unblock: func() {
				unannotate(t, at.spoke, podNamespace, devstack.AnnotationReadyAfter, metav1.ListOptions{LabelSelector: fixtureLabel + "=" + pod})
			}}
		}),
		nodeWait(maintenancev1.NodeCleaningUp, "AwaitNodeLocksActive", func(t *testing.T, s *scenarioRun, at target) reached {
			unlock := s.lock(t, at, lcmv1.LockInactive)
			w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
			return reached{workflow: w.workflow, unblock: unlock}
		}),
	}
}

// nodeWait is a state in which an activity has reported that it waits.
func nodeWait(in maintenancev1.NodeState, activity string, reach func(*testing.T, *scenarioRun, target) reached) state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(in), activity: activity,
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			r := reach(t, s, at)
			s.awaitWaiting(t, r.workflow, activity)
			return r
		},
	}
}

// draining: a pod terminates slowly.
func draining() state {
	return nodeWait(maintenancev1.NodeDraining, "Drain", func(t *testing.T, s *scenarioRun, at target) reached {
		pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)})
		return reached{workflow: w.workflow, unblock: func() { endTermination(t, at, pod) }}
	})
}

// jobRunning: the Job runs.
func jobRunning() state {
	s := nodeWait(maintenancev1.NodeReady, "RunJob", func(t *testing.T, s *scenarioRun, at target) reached {
		w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(map[string]string{devstack.AnnotationCompleteAfter: forever})})
		return reached{workflow: w.workflow, unblock: func() { completeJob(t, at) }}
	})
	s.moment = "the Job running"
	return s
}

// awaitingRequestor: the requestor works on the node, or its work has failed.
func awaitingRequestor(in maintenancev1.NodeState, signals ...string) state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(in), moment: "the requestor working", activity: "AwaitStale",
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll()})
			s.awaitScheduled(t, w.workflow, "AwaitStale")
			if in == maintenancev1.NodeRequestorFailed {
				s.signal(t, w.workflow, temporal.SignalFail)
				s.awaitPhase(t, w.workflow, string(in))
			}
			return reached{workflow: w.workflow, unblock: func() {
				for _, signal := range signals {
					s.signalIfRunning(t, w.workflow, signal)
				}
			}}
		},
	}
}

// request is a request during which the worker ends.
type request struct {
	in       maintenancev1.NodeState
	what     string
	activity string
	// match selects the request for a node.
	match func(s *scenarioRun, at target) faultproxy.Match
	// cancel: it is sent only when the maintenance is cancelled while its Job runs.
	cancel bool
	// locked: a lock of the node is released first.
	locked bool
	// slow: the pod terminates slowly. A lost answer has no effect after the termination.
	slow bool
}

// nodeRequests are the writes of a NodeMaintenance, in order.
func nodeRequests() []request {
	ofNode := func(verb, resource, body string) func(*scenarioRun, target) faultproxy.Match {
		return func(_ *scenarioRun, at target) faultproxy.Match {
			return faultproxy.Match{Verbs: []string{verb}, Resource: resource, Name: at.node, Body: body}
		}
	}
	ofMaintenance := func(verb, resource string) func(*scenarioRun, target) faultproxy.Match {
		return func(s *scenarioRun, at target) faultproxy.Match {
			m := faultproxy.Match{Verbs: []string{verb}, Resource: resource, Name: s.name + "-" + at.spoke.Name + "-" + at.node + "*"}
			if verb == "create" {
				m.Name, m.Body = "", s.name+"-"+at.spoke.Name+"-"+at.node
			}
			return m
		}
	}
	return []request{
		{in: maintenancev1.NodePending, what: "the planned condition", activity: "AcceptMaintenance", match: ofNode("patch", "nodes/status", "MaintenancePlanned")},
		{in: maintenancev1.NodeScheduled, what: "the maintenance request", activity: "AcquireNode", match: func(_ *scenarioRun, at target) faultproxy.Match {
			return faultproxy.Match{Verbs: []string{"create"}, Resource: "nodemaintenancerequests", Body: at.node}
		}},
		{
			in: maintenancev1.NodeScheduled, what: "the condition of the maintenance", activity: "AcquireNode",
			match: ofNode("patch", "nodes/status", `"type":"MaintenanceInProgress","status":"True"`),
		},
		{in: maintenancev1.NodeScheduled, what: "the cordon", activity: "AcquireNode", match: ofNode("patch", "nodes", `"unschedulable":true`)},
		{in: maintenancev1.NodeCordon, what: "the cordon after the release of a lock", activity: "Cordon", match: ofNode("patch", "nodes", `"unschedulable":true`), locked: true},
		{in: maintenancev1.NodeDraining, what: "an eviction", activity: "Drain", match: func(s *scenarioRun, at target) faultproxy.Match {
			return faultproxy.Match{Verbs: []string{"create"}, Resource: "pods/eviction", Name: s.name + "-" + at.node}
		}, slow: true},
		{in: maintenancev1.NodeReady, what: "the creation of the job", activity: "RunJob", match: ofMaintenance("create", "jobs")},
		{in: maintenancev1.NodeCleaningUp, what: "the deletion of a running job", activity: "RemoveJob", match: ofMaintenance("delete", "jobs"), cancel: true},
		{in: maintenancev1.NodeCleaningUp, what: "the release of the job", activity: "ReturnNode", match: ofMaintenance("patch", "jobs")},
		{
			in: maintenancev1.NodeCleaningUp, what: "the removal of the conditions", activity: "ReturnNode",
			match: ofNode("patch", "nodes/status", `{"$patch":"delete","type":"MaintenanceInProgress"}`),
		},
		{in: maintenancev1.NodeCleaningUp, what: "the uncordon", activity: "ReturnNode", match: ofNode("patch", "nodes", `"unschedulable":null`)},
		{in: maintenancev1.NodeCleaningUp, what: "the withdrawal of the request", activity: "ReturnNode", match: func(_ *scenarioRun, at target) faultproxy.Match {
			return faultproxy.Match{Verbs: []string{"delete"}, Resource: "nodemaintenancerequests", Name: "drydock-" + at.node + "-*"}
		}},
	}
}

// nodeRequest returns the request of nodeRequests with that description.
func nodeRequest(what string) request {
	all := nodeRequests()
	return all[slices.IndexFunc(all, func(r request) bool { return r.what == what })]
}

// lost is the state in which the worker has sent the request, and the API server has not received it.
func (r request) lost() state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(r.in), moment: "request lost: " + r.what, activity: r.activity,
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			injection := stopRequest(s, at, r.match(s, at))
			arrived := r.reach(t, s, at)
			awaitStopped(t, injection)
			arrived.injection = injection
			return arrived
		},
	}
}

// unanswered is the state in which the API server has executed the request, and the worker has no answer.
func (r request) unanswered() state {
	return state{
		workflow: temporal.NodeMaintenance, state: string(r.in), moment: "answer lost: " + r.what, activity: r.activity,
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			injection := stopRequest(s, at, r.match(s, at))
			arrived := r.reach(t, s, at)
			arrived.beforeCrash = s.forwardBeforeCrash(t, at, injection)
			return arrived
		},
	}
}

// lockRelease is the state in which a lock of the vRouter is about to be released: its permit is recorded, and the change, or its answer, is in
// flight.
func lockRelease(answered bool) state {
	moment := "the release of a lock: request lost"
	if answered {
		moment = "the release of a lock: answer lost"
	}
	return state{
		workflow: temporal.WorkloadLockController, state: "Running", moment: moment, activity: "ApplyWorkloadLocks",
		reach: func(t *testing.T, s *scenarioRun, at target) reached {
			injection := stopRequest(s, at, faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodeworkloadlocks/status", Name: "vrouter-" + at.node, Body: `"inactive"`})
			s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
			arrived := reached{workflow: temporal.WorkloadLockControllerID(at.spoke.Name, "vrouter")}
			if answered {
				arrived.beforeCrash = s.forwardBeforeCrash(t, at, injection)
			} else {
				awaitStopped(t, injection)
			}
			return arrived
		},
	}
}

// stopRequest stops every request that matches.
func stopRequest(s *scenarioRun, at target, match faultproxy.Match) *faultproxy.Injection {
	return s.Proxy(at.spoke).Inject(faultproxy.Rule{Match: match, Fault: faultproxy.Stop()})
}

// forwardBeforeCrash waits for a stopped request, and returns a function that forwards it immediately before the crash.
func (s *scenarioRun) forwardBeforeCrash(t *testing.T, at target, injection *faultproxy.Injection) func() {
	t.Helper()
	stopped := awaitStopped(t, injection)
	return func() {
		began := time.Now()
		for !stopped.Forward() { // the request timed out, and the worker sends it again
			stopped = awaitStopped(t, injection)
		}
		if stopped.Resource == "pods/eviction" {
			s.answers.lose(began, at.spoke)
		}
	}
}

// reach starts the maintenance that sends the request.
func (r request) reach(t *testing.T, s *scenarioRun, at target) reached {
	t.Helper()
	spec := maintenancev1.NodeMaintenanceSpec{DrainSpec: drainAll(), Action: job(nil)}
	switch {
	case r.slow:
		pod := s.barePod(t, at, map[string]string{devstack.AnnotationLeaveAfter: forever})
		return reached{workflow: s.maintain(t, at, spec).workflow, unblock: func() { endTermination(t, at, pod) }}
	case r.locked:
		unlock := s.lock(t, at, lcmv1.LockActive)
		w := s.maintain(t, at, spec)
		s.awaitWaiting(t, w.workflow, "AwaitNodeLocks")
		unlock()
		return reached{workflow: w.workflow}
	case !r.cancel:
		s.barePod(t, at, nil)
		return reached{workflow: s.maintain(t, at, spec).workflow}
	}
	spec.Action = job(map[string]string{devstack.AnnotationCompleteAfter: forever})
	w := s.maintain(t, at, spec)
	w.end = cancelled
	s.awaitWaiting(t, w.workflow, "RunJob")
	s.signal(t, w.workflow, temporal.SignalCancel)
	return reached{workflow: w.workflow}
}

// signal sends a signal as a user does.
func (s *scenarioRun) signal(t *testing.T, workflow, signal string) {
	t.Helper()
	require.NoError(t, s.temporal.SignalWorkflow(t.Context(), workflow, "", signal, temporal.SignalRequest{Actor: "ann", Reason: s.name}))
}

// signalIfRunning sends a signal unless the workflow was terminated.
func (s *scenarioRun) signalIfRunning(t *testing.T, workflow, signal string) {
	t.Helper()
	if s.isRunning(t, workflow) {
		s.signal(t, workflow, signal)
	}
}

func (s *scenarioRun) isRunning(t *testing.T, workflow string) bool {
	t.Helper()
	description, err := s.temporal.DescribeWorkflowExecution(t.Context(), workflow, "")
	require.NoError(t, err)
	return description.WorkflowExecutionInfo.Status == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
}
