package statuspage

import (
	"cmp"
	"context"
	"errors"
	"time"

	"connectrpc.com/connect"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
	"drydock.dev/drydock/internal/temporal"
)

// writeTimeout limits a change of the portal.
const writeTimeout = 10 * time.Second

// defaultActor is the actor of a change without one.
const defaultActor = "status page API"

// CreateMaintenance announces a maintenance on the portal.
func (a *api) CreateMaintenance(ctx context.Context, in *connect.Request[statusv1.CreateMaintenanceRequest]) (*connect.Response[statusv1.CreateMaintenanceResponse], error) {
	actor, err := operator(ctx, in.Msg.GetActor())
	if err != nil {
		return nil, err
	}
	maintenance := &sreportalv1.Maintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: sreportalv1.GroupVersion.String(), Kind: "Maintenance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: cmp.Or(in.Msg.GetNamespace(), metav1.NamespaceDefault), Name: in.Msg.GetName()},
		Spec: sreportalv1.MaintenanceSpec{
			Title: in.Msg.GetTitle(), Description: in.Msg.GetDescription(), PortalRef: a.server.options.Portal, Components: in.Msg.GetComponents(),
			AffectedStatus: statusOf(in.Msg.GetAffectedStatus()),
		},
	}
	if err := checkTimes(in.Msg); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	maintenance.Spec.ScheduledStart, maintenance.Spec.ScheduledEnd = metav1.NewTime(in.Msg.GetStart().AsTime()), metav1.NewTime(in.Msg.GetEnd().AsTime())
	if err := manifest.Complete(maintenance); err != nil {
		return nil, connect.NewError(connect.CodeInvalidArgument, err)
	}
	request := portal.ApplyRequest{Request: portal.Request{Actor: actor}, Maintenances: []sreportalv1.Maintenance{*maintenance}}
	if err := a.server.change(ctx, a.server.applying, temporal.UpdateApply, request); err != nil {
		return nil, err
	}
	return connect.NewResponse(&statusv1.CreateMaintenanceResponse{}), nil
}

// checkTimes refuses missing times, which would decode as 1970.
func checkTimes(in *statusv1.CreateMaintenanceRequest) error {
	switch {
	case in.GetStart() == nil:
		return errors.New("start: must be set")
	case in.GetEnd() == nil:
		return errors.New("end: must be set")
	}
	return errors.Join(in.GetStart().CheckValid(), in.GetEnd().CheckValid())
}

// CancelMaintenance ends a maintenance in progress, or cancels an upcoming one.
func (a *api) CancelMaintenance(ctx context.Context, in *connect.Request[statusv1.CancelMaintenanceRequest]) (*connect.Response[statusv1.CancelMaintenanceResponse], error) {
	actor, err := operator(ctx, in.Msg.GetActor())
	if err != nil {
		return nil, err
	}
	if in.Msg.GetName() == "" {
		return nil, connect.NewError(connect.CodeInvalidArgument, errors.New("name: must be set"))
	}
	request := portal.CancelRequest{Request: portal.Request{Actor: actor, Reason: in.Msg.GetReason()}, Maintenance: in.Msg.GetName()}
	if err := a.server.change(ctx, a.server.options.Temporal.UpdateWorkflow, temporal.UpdateCancelMaintenance, request); err != nil {
		return nil, err
	}
	return connect.NewResponse(&statusv1.CancelMaintenanceResponse{}), nil
}

// updateFunc sends an update to a workflow.
type updateFunc func(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error)

// applying sends an update to the portal, and starts it if it is not running.
func (s *Server) applying(ctx context.Context, update client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	server := s.options.Temporal
	return server.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: server.NewWithStartWorkflowOperation(temporal.StatusPortalOptions(s.options.Portal), temporal.StatusPortal),
		UpdateOptions:          update,
	})
}

// change sends an update to the portal and waits for the answer.
func (s *Server) change(ctx context.Context, send updateFunc, update string, request any) error {
	ctx, cancel := context.WithTimeout(ctx, writeTimeout)
	defer cancel()
	handle, err := send(ctx, client.UpdateWorkflowOptions{
		WorkflowID: temporal.StatusPortalID(s.options.Portal), UpdateName: update, Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err == nil {
		err = handle.Get(ctx, nil)
	}
	if err == nil {
		return nil
	}
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return connect.NewError(connect.CodeFailedPrecondition, errors.New("portal "+s.options.Portal+" does not exist yet"))
	}
	if refused, ok := errors.AsType[*sdktemporal.ApplicationError](err); ok {
		return connect.NewError(connect.CodeInvalidArgument, errors.New(refused.Message()))
	}
	s.options.Log.Warn("cannot change the portal", "update", update, "error", err)
	if observe.NoWorker(err) || ctx.Err() != nil {
		return connect.NewError(connect.CodeUnavailable, errors.New("the portal does not answer; the change may still take effect"))
	}
	return connect.NewError(connect.CodeUnavailable, errors.New("the portal cannot be changed now"))
}
