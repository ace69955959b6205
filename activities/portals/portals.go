// Package portals holds the activities that exchange messages between status portals and maintenance windows.
package portals

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

// Client is the part of Temporal's client that portals need.
type Client interface {
	activitykit.Starter
	activitykit.Signaller
	activitykit.Lister
}

// Activities sends messages between status portals and the windows that they show.
type Activities struct {
	Temporal Client
}

// AnnounceWindowInput is an announcement of a window to a portal.
type AnnounceWindowInput struct {
	Portal       string              `json:"portal"`
	Announcement portal.Announcement `json:"announcement"`
}

// AnnounceWindow sends an announcement to a portal. It starts a portal that must show the window. It signals any other portal only if that runs.
func (p *Activities) AnnounceWindow(ctx context.Context, in AnnounceWindowInput) error {
	options := temporal.StatusPortalOptions(in.Portal)
	var err error
	if in.Announcement.Portal == in.Portal {
		_, err = p.Temporal.SignalWithStartWorkflow(ctx, options.ID, temporal.SignalAnnouncement, in.Announcement, options, temporal.StatusPortal)
	} else {
		err = p.signal(ctx, options.ID, temporal.SignalAnnouncement, in.Announcement)
	}
	if err != nil {
		return fmt.Errorf("announce window %s to portal %s: %w", in.Announcement.Window, in.Portal, err)
	}
	return nil
}

// RequestAnnouncements asks all running windows for announcements to a portal that has just started and knows no window. Windows that were started
// within the last moments may be missing.
func (p *Activities) RequestAnnouncements(ctx context.Context, name string) error {
	err := p.signalAll(ctx, temporal.MaintenanceWindow, "", temporal.SignalAnnounce, portal.Inquiry{Portal: name})
	if err != nil {
		return fmt.Errorf("request announcements of windows to portal %s: %w", name, err)
	}
	return nil
}

// ClaimObjects notifies all other portals of objects that one portal shows now.
func (p *Activities) ClaimObjects(ctx context.Context, move portal.Move) error {
	err := p.signalAll(ctx, temporal.StatusPortal, temporal.StatusPortalID(move.To), temporal.SignalMoved, move)
	if err != nil {
		return fmt.Errorf("notify other portals of the objects of portal %s: %w", move.To, err)
	}
	return nil
}

const (
	// signalsInParallel limits the signals in progress.
	signalsInParallel = 20
	// workflowsPerPage is the number of workflows that are signalled between two heartbeats.
	workflowsPerPage = 200
)

// signalAll signals all running workflows of a type except one. There may be thousands: it sends heartbeats, and an attempt resumes after the last page of
// the previous one.
func (p *Activities) signalAll(ctx context.Context, workflowType, but, signal string, payload any) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflowType), PageSize: workflowsPerPage,
	}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &request.NextPageToken); err != nil {
			return fmt.Errorf("read the progress of the last attempt: %w", err)
		}
	}
	return activitykit.EachPage(ctx, p.Temporal, request, func(page *workflowservice.ListWorkflowExecutionsResponse) error {
		group, signalling := errgroup.WithContext(ctx)
		group.SetLimit(signalsInParallel)
		for _, execution := range page.GetExecutions() {
			if id := execution.GetExecution().GetWorkflowId(); id != but {
				group.Go(func() error { return p.signal(signalling, id, signal, payload) })
			}
		}
		err := group.Wait()
		if err == nil {
			activity.RecordHeartbeat(ctx, page.GetNextPageToken())
		}
		return err
	})
}

// signal signals a workflow. It ignores a closed workflow.
func (p *Activities) signal(ctx context.Context, workflowID, signal string, payload any) error {
	err := p.Temporal.SignalWorkflow(ctx, workflowID, "", signal, payload)
	if _, closed := errors.AsType[*serviceerror.NotFound](err); closed {
		return nil
	}
	return err
}
