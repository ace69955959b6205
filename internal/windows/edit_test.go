package windows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// previewOf previews an edit of the spec, which must not change the state.
func previewOf(t *testing.T, d *driven, follows bool, edit func(*drydockv1.MaintenanceWindowSpec)) windows.EditPreview {
	t.Helper()
	edited := d.object.DeepCopy()
	edit(&edited.Spec)
	before, err := json.Marshal(d.State)
	require.NoError(t, err)
	preview := d.PreviewEdit(windows.PreviewRequest{DefineRequest: windows.DefineRequest{Object: *edited}, Now: d.now, Schedule: d.schedule(edited, d.now)}, follows)
	after, err := json.Marshal(d.State)
	require.NoError(t, err)
	require.JSONEq(t, string(before), string(after))
	return preview
}

func TestAPreviewOfAnEditSaysWhichOpeningsChange(t *testing.T) {
	type spec = drydockv1.MaintenanceWindowSpec
	const freezeEnd = "2026-12-05T00:00:00Z"
	freeze := func(start string) func(*spec) {
		return func(s *spec) {
			s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionTrim, once(start, freezeEnd))}
		}
	}
	until := func(end string) func(*spec) { return func(s *spec) { s.NotAfter = at(end) } }
	for _, tt := range []struct {
		name    string
		now     string
		current func(*spec)
		change  func(*driven)
		edit    func(*spec)
		changed []string
		effects []string
	}{
		{name: "none", now: "2026-12-01T12:00:00Z", edit: func(*spec) {}},
		{
			name: "a new duration", now: "2026-12-01T12:00:00Z", current: until("2026-12-03T00:00:00Z"), edit: func(s *spec) { s.Duration = "1h" }, changed: []string{"spec.duration"},
			effects: []string{
				"opening 2026-12-01 22:00:00Z to 2026-12-01 23:00:00Z instead of 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z",
				"opening 2026-12-02 22:00:00Z to 2026-12-02 23:00:00Z instead of 2026-12-02 22:00:00Z to 2026-12-03 00:00:00Z",
			},
		},
		{
			name: "another hour", now: "2026-12-01T12:00:00Z", current: until("2026-12-02T12:00:00Z"), edit: func(s *spec) { s.Recurrence = "FREQ=DAILY;BYHOUR=15" }, changed: []string{"spec.recurrence"},
			effects: []string{"new opening 2026-12-01 15:00:00Z to 2026-12-01 19:00:00Z", "no opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z"},
		},
		{
			name: "a window that is open now", now: "2026-12-01T12:00:00Z", current: until("2026-12-02T12:00:00Z"), edit: func(s *spec) { s.Recurrence = "FREQ=DAILY;BYHOUR=11" }, changed: []string{"spec.recurrence"},
			effects: []string{
				"the window opens now, until 2026-12-01 15:00:00Z", "no opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z",
				"new opening 2026-12-02 11:00:00Z to 2026-12-02 12:00:00Z",
			},
		},
		{
			name: "during an opening", now: "2026-12-01T23:00:00Z", current: until("2026-12-02T12:00:00Z"), edit: func(s *spec) { s.Duration = "1h" }, changed: []string{"spec.duration"},
			effects: []string{"the current opening keeps its end, 2026-12-02 02:00:00Z"},
		},
		{
			name: "other work at the end of an opening, and fewer clusters", now: "2026-12-01T23:00:00Z", current: until("2026-12-02T12:00:00Z"), changed: []string{"spec.onOverrun", "spec.selector"},
			edit: func(s *spec) {
				s.OnOverrun, s.Selector = drydockv1.OverrunPause, &metav1.LabelSelector{MatchLabels: map[string]string{"site": "a"}}
			},
			effects: []string{
				"the current opening keeps its end, 2026-12-02 02:00:00Z", "when the current opening ends: nodes in progress finish their step, and wait",
				"the window closes now for clusters that spec.selector does not match",
			},
		},
		{
			name: "a freeze of an opening", now: "2026-12-01T23:00:00Z", current: func(s *spec) { until("2026-12-02T12:00:00Z")(s); s.OnOverrun = drydockv1.OverrunCancel },
			edit: freeze("2026-12-01T20:00:00Z"), changed: []string{"spec.exclusions"},
			effects: []string{"an exclusion closes the window now, until 2026-12-05 00:00:00Z", "the close: nodes in progress return to service"},
		},
		{
			name: "a freeze later in an opening", now: "2026-12-01T23:00:00Z", current: until("2026-12-02T12:00:00Z"), edit: freeze("2026-12-02T01:00:00Z"), changed: []string{"spec.exclusions"},
			effects: []string{"the current opening keeps its end, 2026-12-02 02:00:00Z", "an exclusion closes the window from 2026-12-02 01:00:00Z to 2026-12-05 00:00:00Z"},
		},
		{
			name: "the end of a freeze", now: "2026-12-01T23:00:00Z", current: until("2026-12-02T12:00:00Z"), change: func(d *driven) {
				frozen := *d.object.Spec.DeepCopy()
				freeze("2026-12-01T20:00:00Z")(&frozen)
				d.define(frozen)
			},
			edit: func(s *spec) { s.Exclusions = nil }, changed: []string{"spec.exclusions"},
			effects: []string{"the window is open again, until 2026-12-02 02:00:00Z"},
		},
		{
			name: "a freeze while the window is closed", now: "2026-12-01T12:00:00Z", current: until("2026-12-02T12:00:00Z"), edit: freeze("2026-12-01T11:00:00Z"), changed: []string{"spec.exclusions"},
			effects: []string{
				"an exclusion closes all windows of rollouts and maintenances that name this one, until 2026-12-05 00:00:00Z", "no opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z",
			},
		},
		{
			name: "an override, an extension and a cancellation", now: "2026-12-01T12:00:00Z", current: until("2026-12-03T12:00:00Z"), changed: []string{"spec.title"},
			change: func(d *driven) {
				d.SetOverride(windows.OverrideRequest{Request: windows.Request{Actor: "ann", Reason: "CVE"}, Until: at("2026-12-01T14:00:00Z").Time}, d.now)
				d.Extend(windows.ExtendRequest{End: at("2026-12-02T03:00:00Z").Time}, d.now)
				d.Cancel(windows.CancelRequest{Start: at("2026-12-02T22:00:00Z").Time}, d.now)
			},
			edit: func(s *spec) { s.Title = "Nights" },
			effects: []string{
				"the emergency override keeps the window open until 2026-12-01 14:00:00Z",
				"the extension of the opening of 2026-12-01 22:00:00Z is dropped", "the cancellation of the opening of 2026-12-02 22:00:00Z is dropped",
				"opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z instead of 2026-12-01 22:00:00Z to 2026-12-02 03:00:00Z",
				"new opening 2026-12-02 22:00:00Z to 2026-12-03 02:00:00Z",
			},
		},
		{
			name: "a cancelled window", now: "2026-12-01T12:00:00Z", changed: []string{"spec.notAfter"}, edit: until("2026-12-02T12:00:00Z"),
			change: func(d *driven) {
				d.Cancel(windows.CancelRequest{All: true}, d.now)
				d.pass(d.now.Add(time.Minute))
			},
			effects: []string{"the window is no longer cancelled", "new opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			current := night()
			if tt.current != nil {
				tt.current(&current)
			}
			d := drive(t, current, "2026-12-01T12:00:00Z")
			d.walk(tt.now)
			if tt.change != nil {
				tt.change(d)
			}
			found := previewOf(t, d, true, tt.edit)
			require.Equal(t, tt.changed, found.Changed)
			require.Equal(t, tt.effects, found.Effects)
			require.Empty(t, found.Refused)
		})
	}
}

func TestAPreviewOfManyOpeningsIsShort(t *testing.T) {
	d := drive(t, spec("UTC", "FREQ=HOURLY;BYMINUTE=0", "30m"), "2026-12-01T12:00:00Z")
	effects := previewOf(t, d, true, func(s *drydockv1.MaintenanceWindowSpec) { s.Duration = "45m" }).Effects
	require.Len(t, effects, 12)
	require.Equal(t, "the current opening keeps its end, 2026-12-01 12:30:00Z", effects[0])
	require.Equal(t, "changes of 39 later openings", effects[11])
}

// "window edit" drops requested changes of openings. An object that is applied again changes nothing.
func TestTheSameSpecDropsRequestedChangesUnlessAnObjectDefinesTheWindow(t *testing.T) {
	d := drive(t, night(), "2026-12-01T12:00:00Z")
	d.Cancel(windows.CancelRequest{}, d.now)
	same := func(*drydockv1.MaintenanceWindowSpec) {}
	require.Equal(t, []string{
		"the cancellation of the opening of 2026-12-01 22:00:00Z is dropped", "new opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z",
	}, previewOf(t, d, false, same).Effects)
	require.Empty(t, previewOf(t, d, true, same).Effects)
}

func TestAPreviewOfAWindowThatSubscribersWaitFor(t *testing.T) {
	d := &driven{State: &windows.State{}, t: t, now: at("2026-12-01T12:00:00Z").Time}
	d.object.Namespace, d.object.Name = "prod", "night"
	found := previewOf(t, d, false, func(s *drydockv1.MaintenanceWindowSpec) { *s = night(); s.NotAfter = at("2026-12-02T12:00:00Z") })
	require.Equal(t, []string{"the window is defined", "new opening 2026-12-01 22:00:00Z to 2026-12-02 02:00:00Z"}, found.Effects)
	require.Empty(t, found.Refused)
}
