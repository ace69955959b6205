package chaos

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/chaos/invariants"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

// controlPlane is the control-plane node of each spoke.
const controlPlane = "control-plane-1"

// requireInvariants checks the invariants after a scenario.
func requireInvariants(t *testing.T, s *scenarioRun) {
	t.Helper()
	var clusters []invariants.Cluster
	var violations []string
	for _, spoke := range s.Spokes {
		cluster := s.observedCluster(t, spoke)
		clusters = append(clusters, cluster)
		violations = append(violations, cluster.Violations()...)
	}
	for _, w := range s.works {
		if w.rollout {
			violations = append(violations, invariants.Order(w.plan, w.maxConcurrency, clusters)...)
		}
		violations = append(violations, s.checkHistories(t, w)...)
	}
	require.Empty(t, violations, strings.Join(violations, "\n"))
}

// observedCluster returns the actions on a spoke, with the limits and expected results of the scenario.
func (s *scenarioRun) observedCluster(t *testing.T, spoke *devstack.Cluster) invariants.Cluster {
	t.Helper()
	cluster := invariants.Cluster{
		Name: spoke.Name, Actions: fleet.ActionsOf(devstacktest.AuditEvents(t, spoke)), Since: s.began, ControlPlane: []string{controlPlane}, AnswersLost: s.answers.of(spoke),
		MaxOutOfService: max(1, s.allowed[spoke.Name]),
	}
	for _, w := range s.works {
		nodes := w.nodes[spoke.Name]
		if w.maintainedAgain {
			cluster.MaintainedTwice = append(cluster.MaintainedTwice, nodes...)
		}
		if w.end != ended {
			continue
		}
		cluster.Maintained = append(cluster.Maintained, nodes...)
		if w.job {
			cluster.WithJob = append(cluster.WithJob, nodes...)
		}
	}
	return cluster
}

// checkHistories checks and replays all histories of a work. Histories of terminated runs may be incomplete.
func (s *testFleet) checkHistories(t *testing.T, w *work) []string {
	t.Helper()
	if !w.terminated {
		return s.checkRuns(t, w.workflow, invariants.History)
	}
	s.awaitClosed(t, w)
	return s.checkRuns(t, w.workflow, func(run history.Run) []string {
		if run.Events[len(run.Events)-1].EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED {
			return invariants.Tasks(run)
		}
		return invariants.History(run)
	})
}

// awaitClosed waits until all runs of a work are closed. Children of a terminated workflow outlive it.
func (s *testFleet) awaitClosed(t *testing.T, w *work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	runs, err := history.Read(ctx, s.temporal, w.workflow)
	require.NoError(t, err)
	for _, run := range runs {
		_ = s.temporal.GetWorkflow(ctx, run.WorkflowID, run.RunID).Get(ctx, nil) // the history has the result
		require.NoError(t, ctx.Err(), "%s does not end", run.WorkflowID)
	}
}

// checkRuns checks and replays the histories of a workflow and its children.
func (s *testFleet) checkRuns(t *testing.T, workflowID string, check func(history.Run) []string) []string {
	t.Helper()
	runs, err := history.Read(t.Context(), s.temporal, workflowID)
	require.NoError(t, err)
	var violations []string
	for _, run := range runs {
		violations = append(violations, check(run)...)
		if err := workflows.Replay(run, client.Options{DataConverter: temporal.DataConverter()}); err != nil {
			violations = append(violations, fmt.Sprintf("%s: replay: %v", run.WorkflowID, err))
		}
	}
	return violations
}

// requireEntityInvariants checks the histories of workflows that never end.
func (s *testFleet) requireEntityInvariants(t *testing.T) {
	t.Helper()
	ids := []string{temporal.EmergencyStopID}
	for _, spoke := range s.Spokes {
		ids = append(ids, temporal.MaintenanceSchedulerID(spoke.Name), temporal.SweeperID(spoke.Name))
	}
	var violations []string
	for _, id := range ids {
		if s.wasStarted(t, id) {
			violations = append(violations, s.checkRuns(t, id, invariants.Tasks)...)
		}
	}
	require.Empty(t, violations, strings.Join(violations, "\n"))
}

// wasStarted reports whether a workflow was ever started.
func (s *testFleet) wasStarted(t *testing.T, workflowID string) bool {
	t.Helper()
	_, err := s.temporal.DescribeWorkflow(t.Context(), workflowID, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return false
	}
	require.NoError(t, err)
	return true
}
