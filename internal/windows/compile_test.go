package windows_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

func TestErrorsNameEveryWrongFieldWithItsPath(t *testing.T) {
	s := spec("Mars/Olympus", "FREQ=SECONDLY", "8785h")
	s.Cutoff = "8785h"
	s.NotBefore = at("2026-12-01T00:00:00.5Z")
	s.NotAfter = at("9999-12-01T00:00:00Z")
	local := excluding("local", drydockv1.ExclusionDrop, recurring("FREQ=DAILY;BYHOUR=25", "0s"))
	local.TimeZone = "Local"
	s.Exclusions = []drydockv1.WindowExclusion{
		local,
		excluding("dense", drydockv1.ExclusionDrop, recurring("FREQ=HOURLY;BYMINUTE=0,15,30,45", "300h")),
		excluding("short", drydockv1.ExclusionDrop, once("1969-12-01T00:00:00Z", "2026-12-01T00:00:00.5Z")),
	}
	var paths []string
	for _, invalid := range windows.Check(&s, field.NewPath("spec")) {
		paths = append(paths, invalid.Field)
	}
	require.ElementsMatch(t, []string{
		"spec.timeZone", "spec.recurrence", "spec.duration", "spec.cutoff", "spec.notBefore", "spec.notAfter",
		"spec.exclusions[0].timeZone", "spec.exclusions[0].recurrence", "spec.exclusions[0].duration", "spec.exclusions[1].duration",
		"spec.exclusions[2].scheduledStart", "spec.exclusions[2].scheduledEnd",
	}, paths)

	_, err := windows.New(&drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "w"}, Spec: s})
	require.ErrorContains(t, err, "window prod/w: ")
	for _, path := range paths {
		require.ErrorContains(t, err, path)
	}
}

func TestTheCutoffMustBeShorterThanEveryOpening(t *testing.T) {
	for name, test := range map[string]struct {
		times  drydockv1.WindowTimes
		cutoff drydockv1.Duration
		valid  bool
	}{
		"shorter than the duration":     {recurring("FREQ=DAILY;BYHOUR=22", "4h"), "3h59m59s", true},
		"as long as the duration":       {recurring("FREQ=DAILY;BYHOUR=22", "4h"), "4h", false},
		"shorter than the one opening":  {once("2026-12-01T00:00:00Z", "2026-12-01T01:00:00Z"), "59m", true},
		"longer than the one opening":   {once("2026-12-01T00:00:00Z", "2026-12-01T01:00:00Z"), "61m", false},
		"less than a day by local time": {recurring("FREQ=DAILY;BYHOUR=22", "21:00"), "22h", true},
		"a day by local time":           {recurring("FREQ=DAILY;BYHOUR=22", "21:00"), "24h", false},
	} {
		t.Run(name, func(t *testing.T) {
			s := drydockv1.MaintenanceWindowSpec{TimeZone: "UTC", WindowTimes: test.times, Cutoff: test.cutoff}
			invalid := windows.Check(&s, field.NewPath("spec"))
			if test.valid {
				require.Empty(t, invalid)
				return
			}
			require.Len(t, invalid, 1)
			require.Equal(t, "spec.cutoff", invalid[0].Field)
		})
	}
}

// New does not rely on the checks of the schema.
func TestAWindowThatItsSchemaRefusesIsRefused(t *testing.T) {
	both := recurring("FREQ=DAILY;BYHOUR=22", "4h")
	both.EndTime = "23:00"
	mixed := once("2026-12-01T00:00:00Z", "2026-12-01T01:00:00Z")
	mixed.Recurrence, mixed.Duration = "FREQ=DAILY;BYHOUR=22", "4h"
	long := once("2026-12-01T00:00:00Z", "2026-12-01T01:00:00Z")
	long.Duration = "2h"
	for name, s := range map[string]drydockv1.MaintenanceWindowSpec{
		"without times":                        {TimeZone: "UTC"},
		"without a zone":                       {WindowTimes: recurring("FREQ=DAILY;BYHOUR=22", "4h")},
		"without a length":                     {TimeZone: "UTC", WindowTimes: recurring("FREQ=DAILY;BYHOUR=22", "")},
		"with two lengths":                     {TimeZone: "UTC", WindowTimes: both},
		"with a recurrence and one occurrence": {TimeZone: "UTC", WindowTimes: mixed},
		"with one occurrence and a duration":   {TimeZone: "UTC", WindowTimes: long},
		"that ends before it starts":           {TimeZone: "UTC", WindowTimes: once("2026-12-01T01:00:00Z", "2026-12-01T01:00:00Z")},
		"with an invalid duration":             {TimeZone: "UTC", WindowTimes: recurring("FREQ=DAILY;BYHOUR=22", "soon")},
		"with an invalid time of day":          {TimeZone: "UTC", WindowTimes: recurring("FREQ=DAILY;BYHOUR=22", "25:00")},
		"with an invalid selector": {
			TimeZone: "UTC", WindowTimes: recurring("FREQ=DAILY;BYHOUR=22", "4h"), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"a": "-"}},
		},
		"with an exclusion without times": {
			TimeZone: "UTC", WindowTimes: recurring("FREQ=DAILY;BYHOUR=22", "4h"), Exclusions: []drydockv1.WindowExclusion{{Name: "e"}},
		},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := windows.New(&drydockv1.MaintenanceWindow{Spec: s})
			require.ErrorContains(t, err, "spec")
		})
	}
}
