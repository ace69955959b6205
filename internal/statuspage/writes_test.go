package statuspage

import (
	"context"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
	"drydock.dev/drydock/internal/statuspage/proto/drydock/v1/statusv1connect"
	"drydock.dev/drydock/internal/temporal"
)

// withoutPortal is a Temporal server without a portal. It records the options of a start.
type withoutPortal struct {
	client.Client
	started client.StartWorkflowOptions
}

func (*withoutPortal) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return nil, serviceerror.NewNotFound("workflow execution already completed")
}

func (s *withoutPortal) NewWithStartWorkflowOperation(options client.StartWorkflowOptions, _ any, _ ...any) client.WithStartWorkflowOperation {
	s.started = options
	return nil
}

func (*withoutPortal) UpdateWithStartWorkflow(context.Context, client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return acceptedUpdate{}, nil
}

// acceptedUpdate is an update that was accepted.
type acceptedUpdate struct{ client.WorkflowUpdateHandle }

func (acceptedUpdate) Get(context.Context, any) error { return nil }

func TestAMaintenanceRestartsAClosedPortal(t *testing.T) {
	s, web := shown(t, fleet())
	server := &withoutPortal{}
	s.options.Temporal = server
	api := statusv1connect.NewStatusServiceClient(web.Client(), web.URL)
	create := connect.NewRequest(&statusv1.CreateMaintenanceRequest{
		Name: "new-disks", Title: "New disks", Start: timestamppb.New(noon), End: timestamppb.New(noon.Add(time.Hour)), Components: []string{"api"},
	})
	create.Header().Set("Authorization", "Bearer "+token)
	_, err := api.CreateMaintenance(t.Context(), create)
	require.NoError(t, err)
	require.Equal(t, temporal.StatusPortalID("main"), server.started.ID)

	cancel := connect.NewRequest(&statusv1.CancelMaintenanceRequest{Name: "new-disks"})
	cancel.Header().Set("Authorization", "Bearer "+token)
	_, err = api.CancelMaintenance(t.Context(), cancel)
	require.Equal(t, connect.CodeFailedPrecondition, connect.CodeOf(err), "there is nothing to cancel")
}
