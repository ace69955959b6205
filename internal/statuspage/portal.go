package statuspage

import (
	"context"
	"errors"
	"reflect"
	"slices"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// askInterval is how often it is asked whether workers answer at all. What changes is not waited for so.
	askInterval = 5 * time.Second
	// healthTimeout is how long Temporal itself may take to answer.
	healthTimeout = 2 * time.Second
	// queryMetadata is a query that every workflow answers.
	queryMetadata = "__temporal_workflow_metadata"
)

// followPortal keeps what the portal shows.
func (r *Reader) followPortal(ctx context.Context) {
	r.keepFollowing(ctx, temporal.StatusPortalID(r.portal), r.closePortal, r.readPortal)
}

// closePortal takes away what a portal has shown that is there no more.
func (r *Reader) closePortal(open bool) {
	if before, _ := r.View(); open || before.Portal == nil {
		return
	}
	r.publish(func(v *View) bool {
		v.Portal = nil
		v.revisions.portal++
		return true
	})
}

func (r *Reader) readPortal(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r.portalTurn <- struct{}{}:
	}
	defer func() { <-r.portalTurn }()
	var shown portal.View
	if err := observe.Status(ctx, r.temporal, temporal.StatusPortalID(r.portal), "", &shown); err != nil {
		return err
	}
	shown = shown.At(time.Now()) // the day goes on while nothing changes
	r.publish(func(v *View) bool {
		if v.Portal != nil && reflect.DeepEqual(visible(*v.Portal), visible(shown)) {
			return false
		}
		v.Portal = &shown
		v.revisions.portal++
		return true
	})
	return nil
}

// visible is what clients see of a portal: not how many seconds of the day have passed.
func visible(shown portal.View) portal.View {
	shown.AsOf = time.Time{}
	shown.Components = slices.Clone(shown.Components)
	for i, component := range shown.Components {
		days := make([]portal.Day, len(component.Days))
		for j, day := range component.Days {
			days[j] = portal.Day{Date: day.Date, Worst: day.Worst}
		}
		shown.Components[i].Days = days
	}
	return shown
}

// keepAsking finds out when Temporal or the workers do not answer any more: one that is followed and silent may be dead. It also reads what
// only time changes in a portal, such as the day.
func (r *Reader) keepAsking(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.listed: // what is not known yet is not how things are
	}
	for {
		began := time.Now()
		err := r.ask(ctx)
		if err != nil && observe.Pause(ctx, listPause) == nil {
			err = r.ask(ctx) // a workflow that is being continued does not answer for a moment
		}
		if ctx.Err() != nil {
			return
		}
		r.note(began, err)
		if observe.Pause(ctx, askInterval) != nil {
			return
		}
	}
}

// ask asks a workflow that is always there. Without one there is nothing that workers could know.
func (r *Reader) ask(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, observe.AnswerTimeout)
	defer cancel()
	open, err := temporal.Open(ctx, r.temporal, temporal.StatusPortalID(r.portal))
	if err != nil {
		return err
	}
	if r.closePortal(open); open {
		return r.readPortal(ctx)
	}
	_, err = r.temporal.QueryWorkflow(ctx, temporal.EmergencyStopID, "", queryMetadata)
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		return nil
	}
	return err
}

// note makes part of the view whether all that is shown is true: whether workers answer, and it is known what runs.
func (r *Reader) note(at time.Time, err error) {
	r.mu.Lock()
	before, listTrouble := r.view, r.listTrouble
	r.mu.Unlock()
	message := ""
	switch {
	case err != nil:
		message = r.troubleOf(err)
	case listTrouble != nil:
		message, err = "Rollouts and nodes cannot be listed", listTrouble
	default:
		r.publish(func(v *View) bool {
			v.Trouble, v.AsOf = nil, time.Now()
			return true
		})
		if before.Trouble != nil && !before.AsOf.IsZero() {
			r.log.Info("all answers again")
			tell(r.recovered)
		}
		return
	}
	trouble := &Trouble{Message: message, Since: at}
	if before.Trouble != nil {
		trouble.Since = before.Trouble.Since
	}
	if before.Trouble == nil || before.Trouble.Message != trouble.Message {
		r.log.Warn("what is shown is stale", "trouble", trouble.Message, "error", err)
	}
	r.publish(func(v *View) bool {
		known := v.Trouble != nil && *v.Trouble == *trouble
		v.Trouble = trouble
		return !known
	})
}

// troubleOf says what does not answer. How it fails is for the log: the page may be read by anybody.
func (r *Reader) troubleOf(err error) string {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if _, unhealthy := r.temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); unhealthy != nil {
		return "Temporal does not answer"
	}
	if errors.Is(err, observe.ErrNoWorker) || observe.NoWorker(err) {
		return "No worker of Drydock answers"
	}
	return "The portal cannot be read"
}
