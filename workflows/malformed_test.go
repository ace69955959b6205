package workflows_test

import (
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/locks"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/notification"
	"drydock.dev/drydock/workflows/onboarding"
	"drydock.dev/drydock/workflows/portal"
	"drydock.dev/drydock/workflows/preflight"
	"drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
	"drydock.dev/drydock/workflows/window"
	"drydock.dev/drydock/workflows/workflowtest"
)

// started are the workflows that a client of Temporal may start.
var started = []any{
	rollout.ClusterGroupUpgrade, clusterupgrade.ClusterUpgrade, rollout.ClusterPreparation, nodemaintenance.NodeMaintenance, preflight.Preflight, locks.WorkloadLockController,
	sweeper.Sweeper, slots.MaintenanceScheduler, harbor.HarborCluster, onboarding.Onboarding, window.MaintenanceWindow, window.WindowNotification, notification.Notification, portal.StatusPortal,
	emergencystop.EmergencyStop,
}

// signals, updates and queries are those that any workflow listens to.
var (
	signals = []string{
		temporal.SignalAnnounce, temporal.SignalAnnouncement, temporal.SignalClusterProgress, temporal.SignalDone, temporal.SignalEnable, temporal.SignalFail, temporal.SignalHeld,
		temporal.SignalHold, temporal.SignalKeepAwake, temporal.SignalMoved, temporal.SignalNodeProgress, temporal.SignalNodeUpdate, temporal.SignalObject, temporal.SignalObserved, temporal.SignalPause,
		temporal.SignalPreparationProgress, temporal.SignalRecover, temporal.SignalResume, temporal.SignalResync, temporal.SignalSlotRequests, temporal.SignalSlotResponse,
		temporal.SignalSlotReturn, temporal.SignalSubscribeHolds, temporal.SignalSubscribeWindow, temporal.SignalUnsubscribeHolds, temporal.SignalUnsubscribeWindow,
		temporal.SignalWake, temporal.SignalWindow, temporal.SignalCancel,
	}
	updates = []string{
		temporal.UpdateApply, temporal.UpdateApprove, temporal.UpdateCancel, temporal.UpdateCancelMaintenance, temporal.UpdateDeclare, temporal.UpdateDefine, temporal.UpdateEdit,
		temporal.UpdateEnd, temporal.UpdateExtend, temporal.UpdateHold, temporal.UpdateJoin, temporal.UpdateOverride, temporal.UpdateRelease, temporal.UpdateRetry, temporal.UpdateDelete,
	}
	queries = []string{temporal.QueryStatus, temporal.QueryRollout, temporal.QueryPreviewEdit, temporal.QueryHeld, temporal.QueryObjectStatus}
)

func TestAnInputThatCannotBeDecodedIsAnInvalidSpec(t *testing.T) {
	options, err := temporal.Connection{Worker: true}.Options(nil, nil)
	require.NoError(t, err)
	for kind, start := range started {
		w := workflowtest.NewWorld(t)
		w.SetFailureConverter(options.FailureConverter)
		w.RegisterAs("started", start)
		w.ExecuteWorkflow("started", json.RawMessage(`7`))
		require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(w.GetWorkflowError()), "workflow %d: %v", kind, w.GetWorkflowError())
	}
	w, rejected := workflowtest.NewWorld(t), error(nil)
	w.SetFailureConverter(options.FailureConverter)
	w.RegisterAs("started", emergencystop.EmergencyStop)
	w.SimulateAfter(time.Minute, func() {
		w.UpdateWorkflow(temporal.UpdateHold, "", &testsuite.TestUpdateCallback{
			OnAccept: func() {}, OnReject: func(err error) { rejected = err }, OnComplete: func(any, error) {},
		}, json.RawMessage(`[7]`))
	})
	w.SimulateAfter(time.Hour, w.CancelWorkflow)
	w.ExecuteWorkflow("started", json.RawMessage(`{}`))
	require.Error(t, rejected)
	failure := options.FailureConverter.ErrorToFailure(rejected) // as the worker sends it
	require.Equal(t, temporal.ErrInvalidSpec, failure.GetApplicationFailureInfo().GetType(), "%v", rejected)
}

// Otherwise a workflow that never ends would wait for the workers of no cluster.
func TestAnInputWithoutItsClusterIsAnInvalidSpec(t *testing.T) {
	for _, start := range []any{clusterupgrade.ClusterUpgrade, nodemaintenance.NodeMaintenance, locks.WorkloadLockController, sweeper.Sweeper, slots.MaintenanceScheduler, harbor.HarborCluster} {
		w := workflowtest.NewWorld(t)
		w.RegisterAs("started", start)
		w.ExecuteWorkflow("started", json.RawMessage(`{}`))
		require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(w.GetWorkflowError()), "%T: %v", start, w.GetWorkflowError())
	}
}

// Whatever JSON a client starts a workflow with, and sends to it: a panic would block the workflow for ever, because Temporal retries its task.
func FuzzNoInputMakesAWorkflowPanic(f *testing.F) {
	for _, in := range []string{
		`{}`, `null`, `[]`, `"x"`, `7`,
		`{"object":{"metadata":{"name":"x"},"spec":{}}}`,
		`{"object":{"metadata":{"name":"x","namespace":"y"},"spec":{"action":{"type":"job"},"drainSpec":null,"nodeName":""}},"cluster":"c"}`,
		`{"object":{"spec":{"nodeMaintenance":{},"clusters":["a","a",""],"remediationStrategy":{"maxConcurrency":-1,"timeout":-5,"canaries":["z"]}}},"startedBy":"ann"}`,
		`{"object":{"spec":{"managedPolicies":["p"],"clusters":["a"],"remediationStrategy":{"maxConcurrency":1}},"status":{"clusters":[{"batch":-7}]}},"previousRun":{}}`,
		`{"cluster":"c","carried":{}}`, `{"cluster":"c","carried":{"findings":[{}],"state":{},"queue":[{}],"status":{}}}`,
		`{"retry":{}}`, `{"retry":null,"previousRun":{"status":{},"phase":"batches","nextBatch":-1}}`, `{"previousRun":{"phase":"batches","nextBatch":99,"startedBatch":{}}}`,
		`{"window":{}}`, `{"object":{"spec":{"schedule":{"rrule":"FREQ=SECONDLY","duration":"1ns"}}}}`, `{"name":"main","carried":{"components":[{}],"maintenances":[{}]}}`,
		`{"state":{"number":-1,"holds":[{}]},"subscribers":[{}]}`, `{"object":null,"source":{},"policies":null}`,
	} {
		for kind := range started {
			f.Add(uint8(kind), in)
		}
	}
	f.Fuzz(func(t *testing.T, kind uint8, in string) {
		if !json.Valid([]byte(in)) {
			return // the data converter refuses it
		}
		w := workflowtest.NewWorld(t)
		w.RegisterAs("started", started[int(kind)%len(started)])
		w.SetWorkflowRunTimeout(24 * time.Hour) // not all end when they are cancelled
		for i, signal := range signals {
			w.SimulateAfter(time.Duration(i+1)*time.Second, func() { w.SignalWorkflow(signal, json.RawMessage(in)) })
		}
		for i, update := range updates {
			w.SimulateAfter(time.Minute+time.Duration(i)*time.Second, func() {
				w.UpdateWorkflow(update, "", &testsuite.TestUpdateCallback{
					OnAccept: func() {}, OnReject: func(error) {}, OnComplete: func(any, error) {},
				}, json.RawMessage(in))
			})
		}
		for i, query := range queries {
			for _, after := range []time.Duration{time.Millisecond, 30 * time.Second, 2 * time.Minute} {
				w.SimulateAfter(after+time.Duration(i)*time.Millisecond, func() { _, _ = w.QueryWorkflow(query, json.RawMessage(in)) })
			}
		}
		w.SimulateAfter(time.Hour, w.CancelWorkflow)
		w.ExecuteWorkflow("started", json.RawMessage(in))
		panicked, ok := errors.AsType[*sdktemporal.PanicError](w.GetWorkflowError())
		require.False(t, ok, "workflow %d with %s: %v", int(kind)%len(started), in, panicked)
	})
}
