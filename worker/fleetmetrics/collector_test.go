package fleetmetrics

import (
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"google.golang.org/protobuf/types/known/timestamppb"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// server is a Temporal server with node maintenances.
type server struct {
	down         error
	maintenances []*workflowpb.WorkflowExecutionInfo
	status       maintenancev1.NodeMaintenanceStatus
	// silent are the workflows that do not answer.
	silent map[string]bool

	mu      sync.Mutex
	queries map[string]int
}

func (s *server) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	found := &workflowservice.ListWorkflowExecutionsResponse{}
	for _, execution := range s.maintenances {
		running := execution.GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
		if strings.Contains(request.Query, "'NodeMaintenance'") && running == strings.Contains(request.Query, "= 'Running'") {
			found.Executions = append(found.Executions, execution)
		}
	}
	return found, s.down
}

func (s *server) QueryWorkflow(_ context.Context, id, _, _ string, _ ...any) (converter.EncodedValue, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.queries[id]++
	switch {
	case s.silent[id]:
		return nil, serviceerror.NewDeadlineExceeded("no answer")
	case !strings.HasPrefix(id, "node/"):
		return nil, serviceerror.NewNotFound("no such workflow")
	}
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(s.status)
	return client.NewValue(payloads), err
}

func maintenance(t *testing.T, name string, execution enumspb.WorkflowExecutionStatus, attributes map[string]string) *workflowpb.WorkflowExecutionInfo {
	t.Helper()
	info := &workflowpb.WorkflowExecutionInfo{
		Execution: &commonpb.WorkflowExecution{WorkflowId: temporal.NodeMaintenanceID("edge-1", "default", name), RunId: name}, Status: execution,
		SearchAttributes: &commonpb.SearchAttributes{IndexedFields: map[string]*commonpb.Payload{}},
	}
	if execution != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		info.CloseTime = timestamppb.Now()
	}
	for attribute, value := range attributes {
		payload, err := converter.GetDefaultDataConverter().ToPayload(value)
		require.NoError(t, err)
		info.SearchAttributes.IndexedFields[attribute] = payload
	}
	return info
}

func at(seconds int64) metav1.Time { return metav1.NewTime(time.Unix(seconds, 0)) }

// values are the metrics of a collector, by name and labels.
func values(t *testing.T, collector *Collector) map[string]float64 {
	t.Helper()
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(collector)
	families, err := registry.Gather()
	require.NoError(t, err)
	found := map[string]float64{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			key := strings.TrimPrefix(family.GetName(), "drydock_")
			for _, label := range metric.GetLabel() {
				key += " " + label.GetName() + "=" + label.GetValue()
			}
			found[key] = metric.GetGauge().GetValue()
		}
	}
	return found
}

func TestWaitsHaveTheirAgeAndAreQueriedOnce(t *testing.T) {
	const running = enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING
	waitsFor := func(reason string) map[string]string {
		return map[string]string{"DrydockCluster": "edge-1", "DrydockPhase": "Draining", "DrydockReason": reason}
	}
	temporal := &server{
		queries: map[string]int{}, status: maintenancev1.NodeMaintenanceStatus{Wait: &drydockv1.Wait{Reason: "Budget/zone-a", Since: at(1000)}},
		maintenances: []*workflowpb.WorkflowExecutionInfo{
			maintenance(t, "a", running, waitsFor("Budget/zone-a")),
			maintenance(t, "b", enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED, map[string]string{"DrydockPhase": "Ready"}),
			maintenance(t, "a", enumspb.WORKFLOW_EXECUTION_STATUS_COMPLETED, map[string]string{"DrydockPhase": "Failed"}),
		},
	}
	collector := NewCollector(temporal, slog.New(slog.DiscardHandler))
	for range 3 {
		collector.read(t.Context())
	}
	require.Equal(t, map[string]float64{
		"fleet_readable": 1, "workflows_unanswered": 0, "maintenances state=Draining": 1, "maintenances state=Terminated": 1,
		"waits blocked=false kind=maintenance reason=Budget": 1, "wait_oldest_timestamp_seconds blocked=false kind=maintenance reason=Budget": 1000,
	}, values(t, collector))
	require.Equal(t, 1, temporal.queries["node/edge-1/default/a"])

	temporal.status.Wait = &drydockv1.Wait{Reason: "DisruptionBudget", Since: at(2000)}
	temporal.maintenances[0] = maintenance(t, "a", running, waitsFor("DisruptionBudget"))
	collector.read(t.Context())
	require.InDelta(t, 2000, values(t, collector)["wait_oldest_timestamp_seconds blocked=true kind=maintenance reason=DisruptionBudget"], 0)
	require.Equal(t, 2, temporal.queries["node/edge-1/default/a"])
}

func TestWorkflowsWithoutAnAnswerAreCounted(t *testing.T) {
	temporal := &server{queries: map[string]int{}, silent: map[string]bool{"node/edge-1/default/a": true}, maintenances: []*workflowpb.WorkflowExecutionInfo{
		maintenance(t, "a", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]string{"DrydockCluster": "edge-1", "DrydockPhase": "Ready", "DrydockReason": "Stale"}),
	}}
	collector := NewCollector(temporal, slog.New(slog.DiscardHandler))
	collector.read(t.Context())
	require.Equal(t, map[string]float64{"fleet_readable": 1, "workflows_unanswered": 1, "maintenances state=Ready": 1}, values(t, collector))
}

func TestNoOldNumbersAreShownWithoutTemporal(t *testing.T) {
	temporal := &server{queries: map[string]int{}, maintenances: []*workflowpb.WorkflowExecutionInfo{
		maintenance(t, "a", enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING, map[string]string{"DrydockPhase": "Ready"}),
	}}
	collector := NewCollector(temporal, slog.New(slog.DiscardHandler))
	collector.read(t.Context())
	require.Greater(t, len(values(t, collector)), 2)
	temporal.down = errors.New("no connection")
	collector.read(t.Context())
	require.Equal(t, map[string]float64{"fleet_readable": 0}, values(t, collector))
}
