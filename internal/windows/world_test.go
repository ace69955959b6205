package windows_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// recurring are the times of a recurrence with a duration, or with an end by time of day.
func recurring(recurrence, length string) drydockv1.WindowTimes {
	times := drydockv1.WindowTimes{Recurrence: recurrence, OnGap: drydockv1.GapLater, OnRepeat: drydockv1.RepeatFirst}
	if len(length) > 2 && length[2] == ':' {
		times.EndTime = length
	} else {
		times.Duration = drydockv1.Duration(length)
	}
	return times
}

// spec is a window with a recurrence in a zone.
func spec(zone, recurrence, length string) drydockv1.MaintenanceWindowSpec {
	return drydockv1.MaintenanceWindowSpec{TimeZone: zone, WindowTimes: recurring(recurrence, length)}
}

// window reads a window.
func window(t require.TestingT, name string, spec drydockv1.MaintenanceWindowSpec) *windows.Window {
	object := &drydockv1.MaintenanceWindow{Spec: spec}
	object.Name = name
	w, err := windows.New(object)
	require.NoError(t, err)
	return w
}

// preview is the preview between two moments.
func preview(t require.TestingT, spec drydockv1.MaintenanceWindowSpec, from, to string) windows.Preview {
	p, err := window(t, "w", spec).Preview(moment(from), moment(to))
	require.NoError(t, err)
	return p
}

// lines writes occurrences as "local start, length", and their notes.
func lines(p windows.Preview) []string {
	lines := []string{}
	for _, o := range p.Occurrences {
		line := o.LocalStart.Format("2006-01-02 15:04 -0700") + " " + o.End.Sub(o.Start).String()
		if o.Note != "" {
			line += " (" + o.Note + ")"
		}
		lines = append(lines, line)
	}
	return lines
}

// underProcessZones runs a test as if processes had these local time zones.
func underProcessZones(t *testing.T, test func(t *testing.T)) {
	before := time.Local
	t.Cleanup(func() { time.Local = before })
	for _, name := range []string{"UTC", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Kiritimati"} {
		zone, err := time.LoadLocation(name)
		require.NoError(t, err)
		time.Local = zone
		t.Run("in a process in "+name, test)
	}
}

const hour = time.Hour
