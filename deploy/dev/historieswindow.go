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
	// windowHistory is the file of that window.
	windowHistory = "maintenance-window"
	// firstOpening and secondOpening are the times from the definition of a window to its openings. A rollout must wait for the first, and a pod must
	// be terminating before the second.
	firstOpening  = 15 * time.Second
	secondOpening = 60 * time.Second
)

// windowWithTwoOpenings is a window that opens after firstOpening, and again after secondOpening. Its notifications have no receiver.
func windowWithTwoOpenings() []byte {
	var starts []string
	for _, after := range []time.Duration{firstOpening, secondOpening} {
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

// windowFile is the file with that window.
func (r *recorder) windowFile() string { return filepath.Join(r.Dir, "window.yaml") }

func (r *recorder) defineWindow(ctx context.Context) (stop func(), err error) {
	if err := os.WriteFile(r.windowFile(), windowWithTwoOpenings(), 0o600); err != nil {
		return nil, err
	}
	return func() {}, r.Run(ctx, io.Discard, "window", "create", "-f", r.windowFile())
}

// useWindow lets a rollout wait for a window, start in one opening and end in the next. It sends each kind of request to the window once, and saves
// the history of the window, too.
func (r *recorder) useWindow(ctx context.Context, name string) error {
	window := func(args ...string) error {
		return r.Run(ctx, io.Discard, append([]string{"window"}, args...)...)
	}
	if err := errors.Join(awaitSlowPodEvicted(ctx, r.Fleet, r.Spokes[0]), window("end", recordedWindow, "--reason", "a test")); err != nil {
		return err
	}
	if err := errors.Join(releaseSlowPod(ctx, r.Spokes[0]), r.awaitEnd(ctx, name)); err != nil {
		return err
	}
	later := time.Now().Add(3 * time.Hour).UTC().Format(time.RFC3339)
	for _, args := range [][]string{
		{"extend", recordedWindow, "--until", later},
		{"override", recordedWindow, "--for", "1h", "--reason", "a test"},
		{"edit", "-f", r.windowFile()},
		{"cancel", recordedWindow, "--all"},
	} {
		if err := window(args...); err != nil {
			return err
		}
	}
	return r.save(ctx, windowHistory, temporal.MaintenanceWindowID("default", recordedWindow))
}
