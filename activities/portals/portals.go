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

// Client is what portals need of Temporal, as Temporal's client has it.
type Client interface {
	activitykit.Starter
	activitykit.Signaller
	activitykit.Lister
}

// Activities brings status portals, and the windows that they show, together.
type Activities struct {
	Temporal Client
}

// AnnounceWindowInput is what a window tells a portal.
type AnnounceWindowInput struct {
	Portal       string              `json:"portal"`
	Announcement portal.Announcement `json:"announcement"`
}

// AnnounceWindow sends a window to a portal, and starts the portal if it does not run. A portal that shows the window no longer is only signalled if it
// runs.
func (p *Activities) AnnounceWindow(ctx context.Context, in AnnounceWindowInput) error {
	options := temporal.StatusPortalOptions(in.Portal)
	var err error
	if in.Announcement.Portal == in.Portal {
		_, err = p.Temporal.SignalWithStartWorkflow(ctx, options.ID, temporal.SignalAnnouncement, in.Announcement, options, temporal.StatusPortal)
	} else {
		err = p.tell(ctx, options.ID, temporal.SignalAnnouncement, in.Announcement)
	}
	if err != nil {
		return fmt.Errorf("tell portal %s of window %s: %w", in.Portal, in.Announcement.Window, err)
	}
	return nil
}

// RequestAnnouncements asks all running windows for announcements to a portal that has just started and knows no window. Windows that were started
// within the last moments may be missing.
func (p *Activities) RequestAnnouncements(ctx context.Context, name string) error {
	err := p.tellAll(ctx, temporal.MaintenanceWindow, "", temporal.SignalAnnounce, portal.Inquiry{Portal: name})
	if err != nil {
		return fmt.Errorf("ask windows to announce themselves to portal %s: %w", name, err)
	}
	return nil
}

// ClaimObjects tells all other portals what one shows now.
func (p *Activities) ClaimObjects(ctx context.Context, move portal.Move) error {
	err := p.tellAll(ctx, temporal.StatusPortal, temporal.StatusPortalID(move.To), temporal.SignalMoved, move)
	if err != nil {
		return fmt.Errorf("tell other portals what portal %s shows now: %w", move.To, err)
	}
	return nil
}

const (
	// toldAtOnce is how many workflows are told something at the same time.
	toldAtOnce = 20
	// toldOnAPage is how many are told between two heartbeats.
	toldOnAPage = 200
)

// tellAll sends a signal to all running workflows of a type but one. There may be very many: it heartbeats, and an attempt begins where the last one failed.
func (p *Activities) tellAll(ctx context.Context, workflowType, but, signal string, payload any) error {
	request := &workflowservice.ListWorkflowExecutionsRequest{
		Query: fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", workflowType), PageSize: toldOnAPage,
	}
	if activity.HasHeartbeatDetails(ctx) {
		if err := activity.GetHeartbeatDetails(ctx, &request.NextPageToken); err != nil {
			return fmt.Errorf("see how far the last attempt came: %w", err)
		}
	}
	return activitykit.EachPage(ctx, p.Temporal, request, func(page *workflowservice.ListWorkflowExecutionsResponse) error {
		group, telling := errgroup.WithContext(ctx)
		group.SetLimit(toldAtOnce)
		for _, execution := range page.GetExecutions() {
			if id := execution.GetExecution().GetWorkflowId(); id != but {
				group.Go(func() error { return p.tell(telling, id, signal, payload) })
			}
		}
		err := group.Wait()
		if err == nil {
			activity.RecordHeartbeat(ctx, page.GetNextPageToken())
		}
		return err
	})
}

// tell sends a signal to a workflow. One that is over need not know.
func (p *Activities) tell(ctx context.Context, workflowID, signal string, payload any) error {
	err := p.Temporal.SignalWorkflow(ctx, workflowID, "", signal, payload)
	if _, over := errors.AsType[*serviceerror.NotFound](err); over {
		return nil
	}
	return err
}
