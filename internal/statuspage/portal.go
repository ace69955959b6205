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
	// askInterval is how often the reader checks that workers answer. Changes arrive by long poll, not by these checks.
	askInterval = 5 * time.Second
	// healthTimeout limits the health check of Temporal.
	healthTimeout = 2 * time.Second
	// queryMetadata is a query that every workflow answers.
	queryMetadata = "__temporal_workflow_metadata"
)

// followPortal keeps the portal in the view up to date.
func (r *Reader) followPortal(ctx context.Context) {
	r.keepFollowing(ctx, temporal.StatusPortalID(r.portal), r.closePortal, r.readPortal)
}

// closePortal removes a deleted portal from the view.
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
	case r.portalLock <- struct{}{}:
	}
	defer func() { <-r.portalLock }()
	var shown portal.View
	if err := observe.Status(ctx, r.temporal, temporal.StatusPortalID(r.portal), "", &shown); err != nil {
		return err
	}
	shown = shown.At(time.Now()) // shares of the day change with time
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

// visible is a portal without the seconds of the day, which clients do not see.
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

// checkPeriodically checks at intervals that Temporal and the workers answer, since a long poll cannot distinguish an idle server from a dead one. It
// also updates the parts of the portal that change with time.
func (r *Reader) checkPeriodically(ctx context.Context) {
	select {
	case <-ctx.Done():
		return
	case <-r.listed: // the view is not current before the first list
	}
	for {
		began := time.Now()
		err := r.checkWorkers(ctx)
		if err != nil && observe.Pause(ctx, listPause) == nil {
			err = r.checkWorkers(ctx) // a workflow does not answer while it continues as new
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

// checkWorkers queries the portal or the emergency stop. If neither exists, there is nothing to query.
func (r *Reader) checkWorkers(ctx context.Context) error {
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

// note records in the view whether it is current: workers answer, and the last list succeeded.
func (r *Reader) note(at time.Time, err error) {
	r.mu.Lock()
	before, listTrouble := r.view, r.listTrouble
	r.mu.Unlock()
	message := ""
	switch {
	case err != nil:
		message = r.troubleOf(err)
	case listTrouble != nil:
		message, err = "Cannot list rollouts and nodes", listTrouble
	default:
		r.publish(func(v *View) bool {
			v.Trouble, v.AsOf = nil, time.Now()
			return true
		})
		if before.Trouble != nil && !before.AsOf.IsZero() {
			r.log.Info("the view is current again")
			signal(r.recovered)
		}
		return
	}
	trouble := &Trouble{Message: message, Since: at}
	if before.Trouble != nil {
		trouble.Since = before.Trouble.Since
	}
	if before.Trouble == nil || before.Trouble.Message != trouble.Message {
		r.log.Warn("the view is stale", "trouble", trouble.Message, "error", err)
	}
	r.publish(func(v *View) bool {
		known := v.Trouble != nil && *v.Trouble == *trouble
		v.Trouble = trouble
		return !known
	})
}

// troubleOf names the part that does not answer. The details go only to the log, because the page may be public.
func (r *Reader) troubleOf(err error) string {
	ctx, cancel := context.WithTimeout(context.Background(), healthTimeout)
	defer cancel()
	if _, unhealthy := r.temporal.CheckHealth(ctx, &client.CheckHealthRequest{}); unhealthy != nil {
		return "Temporal does not answer"
	}
	if errors.Is(err, observe.ErrNoWorker) || observe.NoWorker(err) {
		return "No Drydock worker answers"
	}
	return "Cannot read the portal"
}
