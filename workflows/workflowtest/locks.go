package workflowtest

import (
	"testing"

	"drydock.dev/drydock/activities/lockcontroller"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	locksworkflow "drydock.dev/drydock/workflows/locks"
)

// LockWorld simulates the locks of an application. Each call of ObserveWorkloadLocks returns the next of the due changes, and waits
// after the last.
type LockWorld struct {
	*World
	due     []lockcontroller.Due
	Reports []locks.Report
}

// NewLockWorld returns a world without due changes.
func NewLockWorld(t *testing.T) *LockWorld {
	w := &LockWorld{World: NewWorld(t), Reports: []locks.Report{{Cluster: ClusterLock(lcmv1.LockActive, locks.NoRequest), Total: 2, Active: 2}}}
	Simulate(w.World, "ObserveWorkloadLocks", func(lockcontroller.Input) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		next := w.due[0]
		w.due = w.due[1:]
		w.Blocked["ObserveWorkloadLocks"] = len(w.due) == 0
		return next
	})
	Simulate(w.World, "ApplyWorkloadLocks", func(lockcontroller.Input) any {
		w.Mu.Lock()
		defer w.Mu.Unlock()
		last := w.Reports[0]
		if len(w.Reports) > 1 {
			w.Reports = w.Reports[1:]
		}
		return last
	})
	w.Blocked["ObserveWorkloadLocks"] = true
	return w
}

// AddDue adds a change that is due, and the state of the locks after it.
func (w *LockWorld) AddDue(change locks.LockDecision, report locks.Report) {
	w.Blocked["ObserveWorkloadLocks"] = false
	w.due = append(w.due, lockcontroller.Due{Changes: []locks.LockDecision{change}})
	w.Reports = append(w.Reports, report)
}

// Run runs the lock controller.
func (w *LockWorld) Run(in locksworkflow.Input) {
	w.ExecuteWorkflow(locksworkflow.WorkloadLockController, in)
}

// LockInput is the input of the lock controller of application tf on cluster c1.
func LockInput() locksworkflow.Input {
	return locksworkflow.Input{Cluster: "c1", Policy: drydockv1.WorkloadLockPolicy{Spec: drydockv1.WorkloadLockPolicySpec{ControllerName: "tf", Namespace: "tf"}}}
}

// ClusterLock returns a decision that keeps the state of the cluster's lock.
func ClusterLock(state lcmv1.LockState, reason locks.Reason) locks.LockDecision {
	return locks.LockDecision{Kind: locks.ClusterLockKind, Name: "tf", Action: locks.Keep, From: state, To: state, Reason: reason}
}
