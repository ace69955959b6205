package chaos

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/chaos/invariants"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
	"drydock.dev/drydock/workflows/kit"
)

// controlPlane is the node of a spoke that goes alone.
const controlPlane = "control-plane-1"

// requireInvariants holds a scenario that is over to what must always be true.
func requireInvariants(t *testing.T, s *scene) {
	t.Helper()
	var clusters []invariants.Cluster
	var violations []string
	for _, spoke := range s.Spokes {
		cluster := s.judged(t, spoke)
		clusters = append(clusters, cluster)
		violations = append(violations, cluster.Violations()...)
	}
	for _, w := range s.works {
		if w.rollout {
			violations = append(violations, invariants.Order(w.plan, w.maxConcurrency, clusters)...)
		}
		violations = append(violations, s.judgeHistories(t, w)...)
	}
	require.Empty(t, violations, strings.Join(violations, "\n"))
}

// judged is a spoke with all that was done to it, and what the works of the scenario were allowed and have promised.
func (s *scene) judged(t *testing.T, spoke *devstack.Cluster) invariants.Cluster {
	t.Helper()
	cluster := invariants.Cluster{
		Name: spoke.Name, Actions: settledActions(t, spoke), Since: s.began, ControlPlane: []string{controlPlane}, AnswersLost: s.answers.of(spoke),
		AtOnce: max(1, s.allowed[spoke.Name]),
	}
	for _, w := range s.works {
		nodes := w.nodes[spoke.Name]
		if w.followed {
			cluster.Again = append(cluster.Again, nodes...)
		}
		if w.end != ended {
			continue
		}
		cluster.Maintained = append(cluster.Maintained, nodes...)
		if w.job {
			cluster.Worked = append(cluster.Worked, nodes...)
		}
	}
	return cluster
}

// settledActions returns what was done to a spoke when nothing that was done so far can be missing. An event of the audit log may follow its
// answer by an instant: a request of our own, whose event is there, shows that those before it are there, too.
func settledActions(t *testing.T, spoke *devstack.Cluster) []fleet.Action {
	t.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	_, err := spoke.Client.CoreV1().ConfigMaps(namespace).Get(t.Context(), marker, metav1.GetOptions{})
	require.Error(t, err)
	var actions []fleet.Action
	require.Eventually(t, func() bool {
		events, err := spoke.AuditEvents()
		require.NoError(t, err)
		actions = fleet.ActionsOf(events)
		last := events[max(0, len(events)-1000):]
		return slices.ContainsFunc(last, func(e auditv1.Event) bool { return e.ObjectRef != nil && e.ObjectRef.Name == marker })
	}, waitLimit, 50*time.Millisecond, "the audit log of %s does not show our own request", spoke.Name)
	return actions
}

// judgeHistories reads all histories of a work: they are well-formed, and today's code goes through them as it did. Those of runs that were
// terminated break off.
func (s *stage) judgeHistories(t *testing.T, w *work) []string {
	t.Helper()
	if !w.terminated {
		return s.judgeRuns(t, w.workflow, invariants.History)
	}
	s.awaitClosed(t, w)
	return s.judgeRuns(t, w.workflow, func(run history.Run) []string {
		if run.Events[len(run.Events)-1].EventType == enumspb.EVENT_TYPE_WORKFLOW_EXECUTION_TERMINATED {
			return invariants.Tasks(run)
		}
		return invariants.History(run)
	})
}

// awaitClosed waits for the ends of the children of a work: those of a workflow that was terminated outlive it.
func (s *stage) awaitClosed(t *testing.T, w *work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	runs, err := history.Read(ctx, s.temporal, w.workflow)
	require.NoError(t, err)
	for _, run := range runs {
		_ = s.temporal.GetWorkflow(ctx, run.WorkflowID, run.RunID).Get(ctx, nil) // how it ended is in its history
		require.NoError(t, ctx.Err(), "%s does not end", run.WorkflowID)
	}
}

// judgeRuns judges the histories of a workflow and its children, and has today's code go through them.
func (s *stage) judgeRuns(t *testing.T, workflowID string, judge func(history.Run) []string) []string {
	t.Helper()
	runs, err := history.Read(t.Context(), s.temporal, workflowID)
	require.NoError(t, err)
	quiet := log.NewStructuredLogger(slog.New(slog.DiscardHandler))
	replayer, err := worker.NewWorkflowReplayerWithOptions(worker.WorkflowReplayerOptions{
		DataConverter: temporal.DataConverter(), Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}},
	})
	require.NoError(t, err)
	workflows.Register(replayer, false)
	var violations []string
	for _, run := range runs {
		violations = append(violations, judge(run)...)
		execution := worker.ReplayWorkflowHistoryOptions{OriginalExecution: workflow.Execution{ID: run.WorkflowID, RunID: run.RunID}}
		if err := replayer.ReplayWorkflowHistoryWithOptions(quiet, &historypb.History{Events: run.Events}, execution); err != nil {
			violations = append(violations, fmt.Sprintf("%s: replay: %v", run.WorkflowID, err))
		}
	}
	return violations
}

// requireSoundEntities judges the workflows that serve all scenarios, and never end.
func (s *stage) requireSoundEntities(t *testing.T) {
	t.Helper()
	ids := []string{temporal.EmergencyStopID}
	for _, spoke := range s.Spokes {
		ids = append(ids, temporal.MaintenanceSchedulerID(spoke.Name), temporal.SweeperID(spoke.Name))
	}
	var violations []string
	for _, id := range ids {
		if s.everBegun(t, id) {
			violations = append(violations, s.judgeRuns(t, id, invariants.Tasks)...)
		}
	}
	require.Empty(t, violations, strings.Join(violations, "\n"))
}

// everBegun reports whether anybody has needed an entity so far.
func (s *stage) everBegun(t *testing.T, entity string) bool {
	t.Helper()
	_, err := s.temporal.DescribeWorkflow(t.Context(), entity, "")
	if errors.As(err, new(*serviceerror.NotFound)) {
		return false
	}
	require.NoError(t, err)
	return true
}
