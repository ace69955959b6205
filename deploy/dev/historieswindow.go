package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"drydock.dev/drydock/internal/temporal"
)

const (
	recordedWindow = "night"
	// secondOpening is how long after its definition a window opens again: until then a pod of the first opening must be terminating.
	secondOpening = 40 * time.Second
)

// windowOverTwoOpenings is a window that opens at once, and again after secondOpening. Its notifications have no receiver.
func windowOverTwoOpenings() []byte {
	var starts []string
	for _, after := range []time.Duration{0, secondOpening} {
		starts = append(starts, time.Now().Add(after).UTC().Format("20060102T150405Z"))
	}
	return fmt.Appendf(nil, `
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: %s, namespace: default}
spec:
  timeZone: UTC
  recurrence: "RDATE:%s"
  duration: 1h
  notify: [{url: "http://127.0.0.1:9/", leads: [1m]}]
`, recordedWindow, strings.Join(starts, ","))
}

// passThroughWindow lets a rollout wait for a window, start in one opening and end in the next. It sends each kind of request to the window once, and
// saves the window's history with that of the rollout.
func (r *recorder) passThroughWindow(ctx context.Context, name string) error {
	file := filepath.Join(r.Dir, "window.yaml")
	if err := os.WriteFile(file, windowOverTwoOpenings(), 0o600); err != nil {
		return err
	}
	order := func(args ...string) error {
		return r.Run(ctx, io.Discard, append([]string{"window"}, args...)...)
	}
	if err := errors.Join(order("create", "-f", file), awaitHoldoutEvicted(ctx, r.Fleet, r.Spokes[0]), order("end", recordedWindow, "--reason", "a drill")); err != nil {
		return err
	}
	if err := errors.Join(releaseHoldout(ctx, r.Spokes[0]), r.follow(ctx, name)); err != nil {
		return err
	}
	later := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	for _, args := range [][]string{
		{"extend", recordedWindow, "--until", later},
		{"override", recordedWindow, "--for", "1h", "--reason", "a drill"},
		{"edit", "-f", file},
		{"cancel", recordedWindow, "--all"},
	} {
		if err := order(args...); err != nil {
			return err
		}
	}
	return r.keep(ctx, "maintenance-window", temporal.MaintenanceWindowID("default", recordedWindow))
}
