package windows_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"pgregory.net/rapid"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// night is a window in UTC from 22:00 to 02:00, with a cutoff of half an hour.
func night() drydockv1.MaintenanceWindowSpec {
	s := spec("UTC", "FREQ=DAILY;BYHOUR=22", "4h")
	s.Cutoff = "30m"
	return s
}

func TestWorkStartsOnlyWhenTheWindowsAllowIt(t *testing.T) {
	type specs = []drydockv1.MaintenanceWindowSpec
	with := func(change func(s *drydockv1.MaintenanceWindowSpec)) specs {
		s := night()
		change(&s)
		return specs{s}
	}
	frozen := func(effect drydockv1.ExclusionEffect) specs {
		return with(func(s *drydockv1.MaintenanceWindowSpec) {
			s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", effect, once("2026-12-01T23:00:00Z", "2026-12-02T00:00:00Z"))}
		})
	}
	early := spec("UTC", "FREQ=DAILY;BYHOUR=18", "22:00")
	tests := []struct {
		name    string
		windows specs
		now     string
		need    time.Duration
		want    string
	}{
		{"at the start of a window", specs{night()}, "2026-12-01T22:00:00Z", 0, `{"allowed": true, "reason": "Open", "until": "2026-12-02T02:00:00Z", "nextOpen": null}`},
		{"not a nanosecond before", specs{night()}, "2026-12-01T21:59:59.999999999Z", 0, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2026-12-01T22:00:00Z"}`},
		{"until the cutoff", specs{night()}, "2026-12-02T01:29:59.999999999Z", 0, `{"allowed": true, "reason": "Open", "until": "2026-12-02T02:00:00Z", "nextOpen": null}`},
		{"not from the cutoff on", specs{night()}, "2026-12-02T01:30:00Z", 0, `{"allowed": false, "reason": "Cutoff", "until": null, "nextOpen": "2026-12-02T22:00:00Z"}`},
		{"not at the end", specs{night()}, "2026-12-02T02:00:00Z", 0, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2026-12-02T22:00:00Z"}`},
		{"not at the end even without a cutoff", specs{spec("UTC", "FREQ=DAILY;BYHOUR=22", "4h")}, "2026-12-02T02:00:00Z", 0, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2026-12-02T22:00:00Z"}`},
		{"work that just fits", specs{night()}, "2026-12-02T00:00:00Z", 2 * hour, `{"allowed": true, "reason": "Open", "until": "2026-12-02T02:00:00Z", "nextOpen": null}`},
		{"not work that takes longer", specs{night()}, "2026-12-02T00:00:00.000000001Z", 2 * hour, `{"allowed": false, "reason": "DoesNotFit", "until": null, "nextOpen": "2026-12-02T22:00:00Z"}`},
		{"never work that fits into no opening", specs{night()}, "2026-12-02T00:00:00Z", 4*hour + 1, `{"allowed": false, "reason": "DoesNotFit", "until": null, "nextOpen": null}`},
		{"not after the last opening", with(func(s *drydockv1.MaintenanceWindowSpec) { s.NotAfter = at("2026-12-01T00:00:00Z") }), "2026-12-02T23:00:00Z", 0, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": null}`},
		{"an opening years ahead is found", specs{spec("UTC", "FREQ=YEARLY;BYMONTH=2;BYMONTHDAY=29;BYHOUR=1", "2h")}, "2026-12-02T23:00:00Z", 0, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2028-02-29T01:00:00Z"}`},

		{"not in an exclusion", frozen(drydockv1.ExclusionTrim), "2026-12-01T23:00:00Z", 0, `{"allowed": false, "reason": "Excluded", "until": null, "nextOpen": "2026-12-02T00:00:00Z"}`},
		{"until an exclusion", frozen(drydockv1.ExclusionTrim), "2026-12-01T22:15:00Z", 0, `{"allowed": true, "reason": "Open", "until": "2026-12-01T23:00:00Z", "nextOpen": null}`},
		{"not after the cutoff before an exclusion", frozen(drydockv1.ExclusionTrim), "2026-12-01T22:30:00Z", 0, `{"allowed": false, "reason": "Cutoff", "until": null, "nextOpen": "2026-12-02T00:00:00Z"}`},
		{"work that does not fit before an exclusion waits for a long enough opening", frozen(drydockv1.ExclusionTrim), "2026-12-01T22:15:00Z", 3 * hour, `{"allowed": false, "reason": "DoesNotFit", "until": null, "nextOpen": "2026-12-02T22:00:00Z"}`},
		{"not in an opening that an exclusion drops", frozen(drydockv1.ExclusionDrop), "2026-12-01T22:15:00Z", 0, `{"allowed": false, "reason": "Excluded", "until": null, "nextOpen": "2026-12-02T22:00:00Z"}`},
		{"an exclusion while no window would be open is not the reason", with(func(s *drydockv1.MaintenanceWindowSpec) {
			s.Exclusions = []drydockv1.WindowExclusion{excluding("freeze", drydockv1.ExclusionDrop, once("2026-12-01T10:00:00Z", "2026-12-01T12:00:00Z"))}
		}), "2026-12-01T11:00:00Z", 0, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": "2026-12-01T22:00:00Z"}`},

		{"adjacent windows count as one opening", specs{night(), early}, "2026-12-01T21:30:00Z", 4 * hour, `{"allowed": true, "reason": "Open", "until": "2026-12-02T02:00:00Z", "nextOpen": null}`},
		{"adjacent windows have the cutoff of the last one", specs{early, night()}, "2026-12-02T01:45:00Z", 0, `{"allowed": false, "reason": "Cutoff", "until": null, "nextOpen": "2026-12-02T18:00:00Z"}`},
		{"an exclusion of one window applies to all", append(frozen(drydockv1.ExclusionTrim), spec("UTC", "FREQ=DAILY;BYHOUR=20", "8h")), "2026-12-01T23:30:00Z", 0, `{"allowed": false, "reason": "Excluded", "until": null, "nextOpen": "2026-12-02T00:00:00Z"}`},
		{"a window that is always open has no known end", specs{spec("UTC", "FREQ=DAILY;BYHOUR=0", "24h")}, "2026-12-01T23:30:00Z", 200 * hour, `{"allowed": true, "reason": "Open", "until": null, "nextOpen": null}`},
		{"a window that opens every five minutes has a verdict", specs{spec("UTC", "FREQ=HOURLY;BYMINUTE=0,5,10,15,20,25,30,35,40,45,50,55", "4m")}, "2026-12-01T23:34:30Z", 5 * time.Minute, `{"allowed": false, "reason": "Closed", "until": null, "nextOpen": null}`},
		{"any work without windows", nil, "2026-12-01T23:30:00Z", 200 * hour, `{"allowed": true, "reason": "Open", "until": null, "nextOpen": null}`},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var parsed []*windows.Window
			for _, s := range test.windows {
				parsed = append(parsed, window(t, "w", s))
			}
			verdict, err := windows.Allows(parsed, windows.Question{Now: moment(test.now), Need: test.need})
			require.NoError(t, err)
			text, err := json.Marshal(verdict)
			require.NoError(t, err)
			require.JSONEq(t, test.want, string(text))
		})
	}
}

func TestTheVerdictNamesTheWindowThatIsOpenOrOpensNext(t *testing.T) {
	late := window(t, "late", night())
	early := window(t, "early", spec("UTC", "FREQ=DAILY;BYHOUR=18", "22:00"))
	for now, name := range map[string]string{"2026-12-01T12:00:00Z": "early", "2026-12-01T19:00:00Z": "late", "2026-12-02T01:45:00Z": "early"} {
		verdict, err := windows.Allows([]*windows.Window{late, early}, windows.Question{Now: moment(now)})
		require.NoError(t, err)
		require.Equal(t, name, verdict.Window, now)
	}
	object := &drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: "prod", Name: "night"}, Spec: night()}
	w, err := windows.New(object)
	require.NoError(t, err)
	require.Equal(t, "prod/night", w.Name())
}

func TestAWindowAppliesOnlyToClustersThatItSelects(t *testing.T) {
	s := night()
	s.Selector = &metav1.LabelSelector{MatchLabels: map[string]string{"env": "prod"}}
	parsed := []*windows.Window{window(t, "w", s)}
	for name, test := range map[string]struct {
		cluster labels.Labels
		reason  windows.Reason
	}{
		"a selected cluster":       {labels.Set{"env": "prod", "site": "a"}, windows.ReasonOpen},
		"another":                  {labels.Set{"env": "lab"}, windows.ReasonNoWindow},
		"a cluster without labels": {labels.Set{}, windows.ReasonNoWindow},
		"no cluster":               {nil, windows.ReasonOpen},
	} {
		t.Run(name, func(t *testing.T) {
			verdict, err := windows.Allows(parsed, windows.Question{Now: moment("2026-12-01T23:00:00Z"), Cluster: test.cluster})
			require.NoError(t, err)
			require.Equal(t, test.reason, verdict.Reason)
			require.Equal(t, test.reason == windows.ReasonOpen, verdict.Allowed)
		})
	}
}

func TestATimeOutsideOfTheSupportedYearsIsRefused(t *testing.T) {
	_, err := windows.Allows(nil, windows.Question{Now: moment("0001-01-01T00:00:00Z")})
	require.ErrorIs(t, err, windows.ErrInvalidRange)
}

// Verdicts and previews are computed independently.
func TestVerdictsAgreeWithPreviews(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		specs := []drydockv1.MaintenanceWindowSpec{someSpec(t), someSpec(t)}
		var parsed []*windows.Window
		for _, s := range specs {
			s.Cutoff, s.Exclusions = "", nil
			parsed = append(parsed, window(t, "w", s))
		}
		now := someMoment(t, "now")
		openAt := func(at time.Time) bool {
			for _, w := range parsed {
				found, err := w.Preview(at.Add(-40*hour), at.Add(time.Nanosecond))
				require.NoError(t, err)
				for _, o := range found.Occurrences {
					if !at.Before(o.Start) && at.Before(o.End) {
						return true
					}
				}
			}
			return false
		}
		verdict, err := windows.Allows(parsed, windows.Question{Now: now})
		require.NoError(t, err)
		require.Equal(t, openAt(now), verdict.Allowed)
		switch {
		case verdict.Until != nil:
			require.True(t, openAt(verdict.Until.Add(-time.Nanosecond)))
			require.False(t, openAt(*verdict.Until))
		case verdict.NextOpen != nil:
			require.True(t, verdict.NextOpen.After(now))
			require.True(t, openAt(*verdict.NextOpen))
			require.False(t, openAt(verdict.NextOpen.Add(-time.Nanosecond)))
		}
	})
}

// At Until or NextOpen the verdict changes, and not before.
func TestAVerdictHoldsUntilItsNextChange(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		parsed := []*windows.Window{window(t, "a", someSpec(t)), window(t, "b", someSpec(t))}
		q := windows.Question{Now: someMoment(t, "now"), Need: rapid.SampledFrom([]time.Duration{0, time.Minute, 2 * hour}).Draw(t, "need")}
		verdict, err := windows.Allows(parsed, q)
		require.NoError(t, err)
		require.Equal(t, verdict.Reason == windows.ReasonOpen, verdict.Allowed)
		switch {
		case verdict.Until != nil:
			q.Now = *verdict.Until
		case verdict.NextOpen != nil:
			require.False(t, verdict.Allowed)
			q.Now = *verdict.NextOpen
		default:
			return
		}
		then, err := windows.Allows(parsed, q)
		require.NoError(t, err)
		require.NotEqual(t, verdict.Allowed, then.Allowed)
	})
}
