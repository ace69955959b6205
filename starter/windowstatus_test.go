package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/windows"
)

func TestTheStatusOfAWindowIsPrintedAsATable(t *testing.T) {
	opens := time.Date(2026, 12, 1, 22, 0, 0, 0, time.UTC)
	closes := opens.Add(4 * time.Hour)
	status := windows.Status{
		Window: "prod/night", Phase: windows.PhaseOpen, Opening: &windows.Opening{Start: opens, End: closes},
		Selector:    &metav1.LabelSelector{MatchLabels: map[string]string{"site": "b"}, MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "env", Operator: metav1.LabelSelectorOpIn, Values: []string{"prod", "test"}}}},
		Upcoming:    []windows.Opening{{Start: opens.AddDate(0, 0, 1), End: closes.AddDate(0, 0, 1)}},
		Subscribers: []string{"cgu/ops/june", "node/c1/ops/w0"}, Trouble: "there is no zone Mars/Olympus",
		Events: []windows.Event{{At: opens.Add(-time.Hour), Kind: windows.EventEdited, By: "ann", Reason: "only site b", Message: "edited"}},
	}
	var shown page
	renderWindow(&shown, status)
	require.Equal(t, `window prod/night: Open until 2026-12-02T02:00:00Z; its calendar is invalid: there is no zone Mars/Olympus
only for clusters with env in (prod,test),site=b
used by cgu/ops/june, node/c1/ops/w0

OPENS                  CLOSES
2026-12-02T22:00:00Z   2026-12-03T02:00:00Z

WHEN                   EVENT    MESSAGE   BY
2026-12-01T21:00:00Z   edited   edited    ann: only site b
`, shown.String())

	var everywhere page
	renderWindow(&everywhere, windows.Status{Window: "prod/day", Phase: windows.PhaseClosed})
	require.Equal(t, "window prod/day: Closed\n", everywhere.String(), "the window applies to all clusters")
}
