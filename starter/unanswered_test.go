package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// updated is a Temporal client whose updates succeed or fail with refused. ends returns the result of the updated workflow.
type updated struct {
	client.Client
	client.WorkflowRun
	refused error
	ends    func() error
}

func (u updated) UpdateWorkflow(context.Context, client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return accepted{}, u.refused
}

func (u updated) UpdateWithStartWorkflow(context.Context, client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return accepted{}, u.refused
}

func (u updated) NewWithStartWorkflowOperation(client.StartWorkflowOptions, any, ...any) client.WithStartWorkflowOperation {
	return nil
}

func (u updated) GetWorkflow(context.Context, string, string) client.WorkflowRun { return u }

func (u updated) Get(context.Context, any) error { return u.ends() }

// accepted is a successful update.
type accepted struct{ client.WorkflowUpdateHandle }

func (accepted) RunID() string                  { return "run" }
func (accepted) Get(context.Context, any) error { return nil }

func TestAnUnansweredChangeIsReportedAsPossiblyMade(t *testing.T) {
	s := &server{Client: updated{refused: serviceerror.NewDeadlineExceeded("late")}}
	rollout, harbor := rolloutSubject("prod", "june"), harborCluster("c1", "default", "main")
	_, harborErr := s.changeHarbor(t.Context(), harbor, &goharborv1.HarborCluster{}, temporal.UpdateDelete, nil, nil)
	_, releaseErr := s.release(t.Context(), emergency.Request{All: true})
	for show, err := range map[string]error{
		rollout.show: s.update(t.Context(), rollout, temporal.UpdateApprove, nil, nil),
		harbor.show:  harborErr,
		showHolds:    releaseErr,
	} {
		require.ErrorIs(t, err, observe.ErrNoWorker)
		require.ErrorContains(t, err, "; the request takes effect when a worker answers: see `"+show+"`")
	}
}

func TestADeletionContinuesAfterTheCommandStopsWaiting(t *testing.T) {
	const deletion = "deletion of HarborCluster default/main in cluster c1"
	for _, tt := range []struct {
		name    string
		stopped bool
		message string
	}{
		{"the deletion fails", false, deletion + " failed: refused"},
		{"the wait is stopped", true, "stopped watching " + deletion + ", which continues: see `drydock harbor status default/main --cluster c1`"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			defer stop()
			temporal := updated{ends: func() error {
				if tt.stopped {
					stop()
					return ctx.Err()
				}
				return errors.New("refused")
			}}
			require.EqualError(t, (&cli{}).deleteHarbor(ctx, &server{Client: temporal}, harborCluster("c1", "default", "main"), "", true), tt.message)
		})
	}
}
