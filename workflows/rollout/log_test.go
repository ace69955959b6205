package rollout_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	rolloutworkflow "drydock.dev/drydock/workflows/rollout"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestARolloutCanBeFollowedFromTheLog(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1"}, []string{"c2"})
	clusters.Outcomes["c2"] = workflowtest.UntilCancelled
	workflowtest.SignalWhen(w, func(status workflowtest.GroupStatus) bool { return status.Status.CurrentBatch == 2 }, temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"})
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	workflowtest.RequireCancelled[workflowtest.GroupStatus](w)
	// The hold may be read before the first batch, or after it.
	lines := slices.DeleteFunc(w.Log.Lines("cluster", "phase", "state", "batch", "actor", "reason"), func(line string) bool { return line == "Wait started reason=HoldUnknown" })
	require.Equal(t, []string{
		"Rollout enters a phase phase=plan",
		"Rollout planned",
		"Rollout enters a phase phase=blocked",
		"Rollout enters a phase phase=backup",
		"Rollout enters a phase phase=beforeEnable",
		"Rollout enters a phase phase=start",
		"Rollout enters a phase phase=batches",
		"Batch is in progress batch=1",
		"Wait started reason=BatchInProgress",
		"Cluster started cluster=c1 batch=1",
		"Batch starts no more clusters batch=1 reason=AllStarted",
		"Cluster ended cluster=c1 batch=1 state=complete reason=",
		"Batch ended batch=1 reason=AllStarted",
		"Batch is in progress batch=2",
		"Cluster started cluster=c2 batch=2",
		"Batch starts no more clusters batch=2 reason=AllStarted",
		"Rollout is being cancelled actor=ann reason=",
		"Batch starts no more clusters batch=2 reason=Cancelled",
		"Wait started reason=Cancelling",
		"Cluster ended cluster=c2 batch=2 state=cancelled reason=",
		"Batch ended batch=2 reason=Cancelled",
		"Rollout cleans up",
		"Rollout ended reason=Cancelled",
		"Wait ended",
	}, lines)
	for _, line := range w.Log.Lines("rollout") {
		require.Contains(t, line, " rollout=ops/june")
	}
}

func TestTheLogShowsWhenARolloutIsEnabledAndHealthy(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.SimulateDefaults()
	object := withHealthChecks(workflowtest.ARollout())
	object.Spec.Enable = new(bool)
	w.RegisterDelayedCallback(func() {
		edited := object.Spec
		edited.RemediationStrategy.Timeout = 99
		w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: edited})
	}, time.Hour)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalEnable, temporal.SignalRequest{Actor: "ann"}) }, 2*time.Hour)
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	workflowtest.RequireResult[workflowtest.GroupStatus](w)
	require.Subset(t, w.Log.Lines("cluster", "reason", "actor", "fields", "step", "clusters"), []string{
		"Rollout planned clusters=1",
		"Rollout does not start yet reason=NotEnabled",
		"Rollout edited actor=bob fields=[spec.remediationStrategy.timeout]",
		"Rollout enabled actor=ann reason=",
		"Health gate checks clusters clusters=1",
		"Health gate passed clusters=1",
		"Cluster enters a step cluster=c1 step=HealthChecks",
		"Batch ended reason=AllStarted",
	})
}

func TestTheLogShowsAFailedHealthGate(t *testing.T) {
	w, _ := workflowtest.NewGroupWorld(t, []string{"c1"})
	w.Fail["AwaitClusterHealthy"] = workflowtest.Always(temporal.Error(temporal.ErrHealthGateFailed, "no registry", nil))
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: withHealthChecks(workflowtest.ARollout())})
	workflowtest.RequireFailure[workflowtest.GroupStatus](w, temporal.ErrHealthGateFailed)
	require.Contains(t, w.Log.Lines("reason"), "Health gate failed reason=HealthGateFailed")
}

func TestTheLogShowsFailedPreparationsByCluster(t *testing.T) {
	jobs := map[string]error{"precaching c1": temporal.Error(temporal.ErrJobFailed, "exit code 3", nil)}
	w, _ := workflowtest.NewPreparedWorld(t, jobs, []string{"c1", "c2"})
	object := workflowtest.ARollout()
	object.Spec.PreCaching = true
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: object})
	require.Subset(t, w.Log.Lines("rollout", "cluster", "state", "kind", "reason"), []string{
		"Preparation of clusters started rollout=ops/june kind=precaching",
		"Preparation of a cluster changed rollout=ops/june kind=precaching cluster=c1 state=UnrecoverableError reason=JobFailed",
		"Preparation of a cluster changed rollout=ops/june kind=precaching cluster=c2 state=Succeeded reason=",
		"Cluster ended rollout=ops/june cluster=c1 state=failed reason=UnrecoverableError",
		"Preparation of clusters ended rollout=ops/june kind=precaching",
	})
}

func TestTheLogSaysWhyABatchStartsNoMoreClusters(t *testing.T) {
	w, clusters := workflowtest.NewGroupWorld(t, []string{"c1", "c2"})
	w.Plan.ComputedMaxFailures = 1
	clusters.Outcomes["c1"] = workflowtest.ClusterFails
	w.ExecuteWorkflow(rolloutworkflow.ClusterGroupUpgrade, rolloutworkflow.Input{Object: workflowtest.ARollout()})
	require.Subset(t, w.Log.Lines("batch", "reason"), []string{
		"Batch starts no more clusters batch=1 reason=Cautious",
		"Batch starts no more clusters batch=1 reason=TooManyFailures",
		"Batch ended batch=1 reason=TooManyFailures",
	})
}
