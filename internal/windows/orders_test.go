package windows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// overridden is the window night with an emergency override at noon for two hours.
func overridden(t *testing.T) *driven {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.SetOverride(windows.OverrideRequest{Request: windows.Request{Actor: "ann", Reason: "CVE"}, Until: at("2026-12-01T14:00:00Z").Time}, d.now)
	require.True(t, d.ask().Allowed)
	return d
}

func TestCancellingAWindowEndsItsEmergencyOverride(t *testing.T) {
	d := overridden(t)
	d.now = at("2026-12-01T13:00:00Z").Time
	request := windows.CancelRequest{Request: windows.Request{Actor: "bob", Reason: "not today"}, All: true}
	require.NoError(t, d.CheckCancel(request, d.now))
	d.Cancel(request, d.now)
	require.False(t, d.ask().Allowed)
	require.Equal(t, windows.PhaseOver, d.Phase(d.now))
	d.passTo("2026-12-01T13:00:00Z")
	require.Equal(t, []windows.EventKind{windows.EventOverrideEnded}, d.happened)
	_, changes := d.Next(d.now)
	require.False(t, changes)
	require.NoError(t, d.CheckOverride(windows.OverrideRequest{Request: request.Request, Until: d.now.Add(time.Hour)}, d.now), "the next emergency needs another override")
}

func TestTheEndOfAnOverrideNamesThePersonWhoEndedIt(t *testing.T) {
	by := windows.Request{Actor: "bob", Reason: "patched"}
	for name, order := range map[string]func(d *driven){
		"by closing the window":       func(d *driven) { d.End(windows.EndRequest{Request: by}, d.now) },
		"by closing the window later": func(d *driven) { d.End(windows.EndRequest{Request: by, End: at("2026-12-01T13:00:00Z").Time}, d.now) },
		"by cancelling all openings":  func(d *driven) { d.Cancel(windows.CancelRequest{Request: by, All: true}, d.now) },
	} {
		t.Run(name, func(t *testing.T) {
			d := overridden(t)
			order(d)
			d.walk("2026-12-01T13:00:00Z")
			require.Equal(t, []windows.EventKind{windows.EventOverrideEnded}, d.happened)
			require.Equal(t, "bob", d.events[0].By)
			require.Equal(t, "patched", d.events[0].Reason)
			require.Equal(t, "the emergency override was ended early", d.events[0].Message)
		})
	}
	expired := overridden(t)
	expired.walk("2026-12-01T14:00:00Z")
	require.Equal(t, "ann", expired.events[0].By)
	require.Equal(t, "the emergency override has expired", expired.events[0].Message)
}

// An edit in between restores the opening.
func TestCancellingAnOpeningTwiceNotifiesTwice(t *testing.T) {
	s := night()
	s.Notify = []drydockv1.WindowNotification{{URL: "https://a"}}
	d := drive(t, s, "2026-12-01T12:00:00Z")
	cancel := func() string {
		event := d.Cancel(windows.CancelRequest{Start: at("2026-12-01T22:00:00Z").Time}, d.now)
		notices := windows.Notices("prod/night", s, event)
		require.Len(t, notices, 1)
		return notices[0].ID
	}
	first := cancel()
	d.passTo("2026-12-01T13:00:00Z")
	d.define(s)
	d.passTo("2026-12-01T14:00:00Z")
	require.NotEqual(t, first, cancel())
}
