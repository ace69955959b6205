package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

const (
	recordedPortal = "main"
	// movedTo is the portal to which a component moves.
	movedTo = "other"
)

// shownOnPortal is a component of a portal, and a maintenance of it and of what there is not, in progress for an hour.
func shownOnPortal(name string) []byte {
	from := time.Now().Truncate(time.Second).UTC()
	return fmt.Appendf(nil, `
apiVersion: sreportal.io/v1alpha1
kind: Component
metadata: {name: shop, namespace: default}
spec: {displayName: Shop, group: Customers, portalRef: %[1]s, status: operational}
---
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: switches, namespace: default}
spec: {title: New switches, portalRef: %[1]s, components: [shop, rack], affectedStatus: degraded, scheduledStart: %[2]q, scheduledEnd: %[3]q}
`, name, from.Format(time.RFC3339), from.Add(time.Hour).Format(time.RFC3339))
}

// windowOnPortal is a window that opens soon and that the portal shows.
func windowOnPortal() []byte {
	return fmt.Appendf(nil, `
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: shown, namespace: default}
spec: {timeZone: UTC, recurrence: "RDATE:%s", duration: 1h, title: Nightly, portalRef: %s, components: [shop]}
`, time.Now().Add(3*time.Second).UTC().Format("20060102T150405Z"), recordedPortal)
}

// keepPortals lets a portal show what is applied and a window that opens, has what it shows moved to another, and keeps the histories of both.
func (r *recorder) keepPortals(ctx context.Context) error {
	window := filepath.Join(r.Dir, "shown.yaml")
	if err := os.WriteFile(window, windowOnPortal(), 0o600); err != nil {
		return err
	}
	if err := errors.Join(r.applyToPortal(ctx, recordedPortal), r.Run(ctx, io.Discard, "window", "create", "-f", window)); err != nil {
		return err
	}
	if err := r.awaitPortal(ctx, recordedPortal, func(v portal.View) bool { return len(v.InProgress) == 2 }); err != nil {
		return err
	}
	for _, args := range [][]string{
		{"portal", "cancel", recordedPortal, "switches", "--reason", "a drill"},
		{"window", "cancel", "shown", "--all"},
	} {
		if err := r.Run(ctx, io.Discard, args...); err != nil {
			return err
		}
	}
	if err := r.applyToPortal(ctx, movedTo); err != nil {
		return err
	}
	if err := r.Run(ctx, io.Discard, "portal", "delete", movedTo, "--all"); err != nil {
		return err
	}
	shown, moved := temporal.StatusPortalID(recordedPortal), temporal.StatusPortalID(movedTo)
	if err := r.server.GetWorkflow(ctx, moved, "").Get(ctx, nil); err != nil { // it ends when there is nothing left to show
		return err
	}
	// What is over is shown for days.
	if err := r.server.TerminateWorkflow(ctx, shown, "", "recorded"); err != nil {
		return err
	}
	return r.keep(ctx, "portals", shown, moved)
}

func (r *recorder) applyToPortal(ctx context.Context, name string) error {
	file := filepath.Join(r.Dir, "portal-"+name+".yaml")
	if err := os.WriteFile(file, shownOnPortal(name), 0o600); err != nil {
		return err
	}
	return r.Run(ctx, io.Discard, "portal", "apply", "-f", file)
}

// awaitPortal waits until a portal shows what is wanted.
func (r *recorder) awaitPortal(ctx context.Context, name string, wanted func(portal.View) bool) error {
	reached := errors.New("it does")
	id := temporal.StatusPortalID(name)
	follower := observe.Follower{Server: r.server, WorkflowID: id, Look: func(ctx context.Context, runID string) error {
		var shown portal.View
		if err := observe.Status(ctx, r.server, id, runID, &shown); err != nil {
			return err
		}
		if wanted(shown) {
			return reached
		}
		return nil
	}}
	execution, err := r.server.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return err
	}
	if err := follower.Follow(ctx, execution.WorkflowExecution.RunID); !errors.Is(err, reached) {
		return fmt.Errorf("portal %s does not show what is wanted: %w", name, cmp.Or(err, errors.New("it has ended")))
	}
	return nil
}
