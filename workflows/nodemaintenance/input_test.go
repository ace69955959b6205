package nodemaintenance_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/workflowtest"
)

func TestAnInvalidRequestChangesNothing(t *testing.T) {
	w := workflowtest.NewWorld(t)
	w.Fail["CheckNodeMaintenance"] = workflowtest.Always(temporal.Error(temporal.ErrInvalidSpec, "spec.drainSpec.podSelector: cannot be read", nil))
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireFailure[workflowtest.NodeStatus](w, temporal.ErrInvalidSpec)
	require.Equal(t, []string{"CheckNodeMaintenance"}, w.Called())
}

// Otherwise an unknown field would be dropped instead of refused.
func TestARequestIsValidatedAsWritten(t *testing.T) {
	var in nodemaintenance.Input
	const object = `{"spec": {"requestorID": "ops.example.com", "drainSpecs": {}}}`
	require.NoError(t, json.Unmarshal([]byte(`{"cluster": "c1", "object": `+object+`}`), &in))
	require.Equal(t, "c1", in.Cluster)
	require.Equal(t, "ops.example.com", in.Object.Spec.RequestorID)
	require.JSONEq(t, object, string(in.Written))

	w := workflowtest.NewWorld(t)
	w.ExecuteWorkflow(nodemaintenance.NodeMaintenance, workflowtest.FullMaintenance())
	workflowtest.RequireResult[workflowtest.NodeStatus](w)
	written, err := json.Marshal(workflowtest.FullMaintenance().Object)
	require.NoError(t, err)
	require.JSONEq(t, string(written), string(w.Inputs["CheckNodeMaintenance"][0].(json.RawMessage)))
}

func TestAMaintenanceWithAnUnexpectedWorkflowIDIsRefused(t *testing.T) {
	w := workflowtest.NewWorld(t)
	in := workflowtest.FullMaintenance()
	w.SimulateSignals()
	w.TestWorkflowEnvironment.ExecuteWorkflow(nodemaintenance.NodeMaintenance, in)
	err := w.GetWorkflowError()
	require.ErrorContains(t, err, "the id of the workflow must be "+temporal.NodeMaintenanceID(in.Cluster, in.Object.Namespace, in.Object.Name))
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.Empty(t, w.InputsOf("AcquireNode"))
}
