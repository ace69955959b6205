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
	// secondOpening is the time from the definition of a window to its second opening. A pod must be terminating before that.
	secondOpening = 40 * time.Second
)

// windowWithTwoOpenings is a window that opens immediately, and again after secondOpening. Its notifications have no receiver.
func windowWithTwoOpenings() []byte {
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

// useWindow lets a rollout wait for a window, start in one opening and end in the next. It sends each kind of request to the window once, and saves
// the history of the window, too.
func (r *recorder) useWindow(ctx context.Context, name string) error {
	file := filepath.Join(r.Dir, "window.yaml")
	if err := os.WriteFile(file, windowWithTwoOpenings(), 0o600); err != nil {
		return err
	}
	window := func(args ...string) error {
		return r.Run(ctx, io.Discard, append([]string{"window"}, args...)...)
	}
	if err := errors.Join(window("create", "-f", file), awaitSlowPodEvicted(ctx, r.Fleet, r.Spokes[0]), window("end", recordedWindow, "--reason", "a test")); err != nil {
		return err
	}
	if err := errors.Join(releaseSlowPod(ctx, r.Spokes[0]), r.awaitEnd(ctx, name)); err != nil {
		return err
	}
	later := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	for _, args := range [][]string{
		{"extend", recordedWindow, "--until", later},
		{"override", recordedWindow, "--for", "1h", "--reason", "a test"},
		{"edit", "-f", file},
		{"cancel", recordedWindow, "--all"},
	} {
		if err := window(args...); err != nil {
			return err
		}
	}
	return r.save(ctx, "maintenance-window", temporal.MaintenanceWindowID("default", recordedWindow))
}
