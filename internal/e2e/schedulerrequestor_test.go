package e2e

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

// requestor is a program that works on ready nodes, and signals done.
type requestor struct {
	*schedulerFleet
	id string
	// requests are the IDs of the workflows. endless is the one whose work never ends.
	requests []string
	endless  string
}

func (r *requestor) start(t *testing.T, n int, node string) {
	t.Helper()
	object := maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprintf("%c-%d", r.id[0], n)},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: r.id, NodeName: node, DrainSpec: &maintenancev1.DrainSpec{}},
	}
	id := temporal.NodeMaintenanceID(r.spoke.Name, object.Namespace, object.Name)
	_, err := r.temporal.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: id, TaskQueue: temporal.TaskQueue,
		TypedSearchAttributes: sdktemporal.NewSearchAttributes(
			temporal.AttributeCluster.ValueSet(r.spoke.Name), temporal.AttributeNode.ValueSet(node), temporal.AttributeRequestor.ValueSet(r.id),
		),
	}, temporal.NodeMaintenance, nodemaintenance.Input{Cluster: r.spoke.Name, Object: object})
	require.NoError(t, err)
	r.requests = append(r.requests, id)
}

// finish sends done for every ready node, until only the endless request is left.
func (r *requestor) finish(t *testing.T) {
	finished := func(id string) bool { return id != r.endless }
	assert.Eventually(t, func() bool {
		for _, id := range r.running(t, fmt.Sprintf(" AND %s = '%s'", temporal.AttributePhase.GetName(), maintenancev1.NodeReady)) {
			if finished(id) {
				r.signal(t, temporal.SignalDone, id)
			}
		}
		return !slices.ContainsFunc(r.running(t, ""), finished)
	}, stateLimit, 200*time.Millisecond, "requests of %s", r.id)
	for _, id := range r.requests {
		if err := r.endOf(t, id, finished); err != nil {
			assert.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err), "%s: %v", id, err)
		}
	}
}

func (r *requestor) endOf(t *testing.T, id string, finished func(string) bool) error {
	if !finished(id) {
		return nil
	}
	return r.awaitEnd(t, id)
}

// running returns the IDs of the open requests.
func (r *requestor) running(t *testing.T, more string) (ids []string) {
	query := fmt.Sprintf("ExecutionStatus = 'Running' AND WorkflowType = '%s' AND %s = '%s'", temporal.NodeMaintenance, temporal.AttributeRequestor.GetName(), r.id)
	page, err := r.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query + more})
	if !assert.NoError(t, err) {
		return []string{"unknown"}
	}
	for _, execution := range page.GetExecutions() {
		ids = append(ids, execution.GetExecution().GetWorkflowId())
	}
	return ids
}
