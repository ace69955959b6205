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
	// otherPortal is the portal to which a component moves.
	otherPortal = "other"
)

// portalObjects are a component, and a maintenance in progress of this component and of one that does not exist.
func portalObjects(name string) []byte {
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

// recordPortals shows a component, a maintenance and a window on a portal, moves the component to another portal, and saves the histories of both.
func (r *recorder) recordPortals(ctx context.Context) error {
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
		{"portal", "cancel", recordedPortal, "switches", "--reason", "a test"},
		{"window", "cancel", "shown", "--all"},
	} {
		if err := r.Run(ctx, io.Discard, args...); err != nil {
			return err
		}
	}
	if err := r.applyToPortal(ctx, otherPortal); err != nil {
		return err
	}
	if err := r.Run(ctx, io.Discard, "portal", "delete", otherPortal, "--all"); err != nil {
		return err
	}
	shown, moved := temporal.StatusPortalID(recordedPortal), temporal.StatusPortalID(otherPortal)
	if err := r.server.GetWorkflow(ctx, moved, "").Get(ctx, nil); err != nil { // an empty portal ends
		return err
	}
	// This portal shows completed maintenances for days, so terminate it.
	if err := r.server.TerminateWorkflow(ctx, shown, "", "recorded"); err != nil {
		return err
	}
	return r.save(ctx, "portals", shown, moved)
}

func (r *recorder) applyToPortal(ctx context.Context, name string) error {
	file := filepath.Join(r.Dir, "portal-"+name+".yaml")
	if err := os.WriteFile(file, portalObjects(name), 0o600); err != nil {
		return err
	}
	return r.Run(ctx, io.Discard, "portal", "apply", "-f", file)
}

// awaitPortal waits until the view of a portal satisfies a condition.
func (r *recorder) awaitPortal(ctx context.Context, name string, matches func(portal.View) bool) error {
	reached := errors.New("the view matches")
	id := temporal.StatusPortalID(name)
	follower := observe.Follower{Server: r.server, WorkflowID: id, Read: func(ctx context.Context, runID string) error {
		var shown portal.View
		if err := observe.Status(ctx, r.server, id, runID, &shown); err != nil {
			return err
		}
		if matches(shown) {
			return reached
		}
		return nil
	}}
	execution, err := r.server.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return err
	}
	if err := follower.Follow(ctx, execution.WorkflowExecution.RunID); !errors.Is(err, reached) {
		return fmt.Errorf("portal %s does not reach the expected view: %w", name, cmp.Or(err, errors.New("it has ended")))
	}
	return nil
}
