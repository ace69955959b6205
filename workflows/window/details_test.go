package window

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/windows"
)

func TestTheDetailsOfAWindowListItsEventsAndTheirActors(t *testing.T) {
	noon := time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)
	require.Contains(t, windowDetails(windows.Status{Window: "prod/night", Phase: windows.PhaseOver, Events: []windows.Event{
		{At: noon, Kind: windows.EventStarted, Message: "open until 2026-12-01 14:00:00Z"},
		{At: noon.Add(time.Hour), Kind: windows.EventExtended, By: "ann", Reason: "no backup tonight", Message: "extended until 2026-12-01 15:00:00Z"},
		{At: noon.Add(2 * time.Hour), Kind: windows.EventCancelled, By: "bob", Message: "cancelled: the window has no more openings"},
	}}), `| when | event | by |
|---|---|---|
| 2026-12-01 14:00:00Z | cancelled: the window has no more openings | bob |
| 2026-12-01 13:00:00Z | extended until 2026-12-01 15:00:00Z | ann: no backup tonight |
| 2026-12-01 12:00:00Z | started: open until 2026-12-01 14:00:00Z |  |
`)
}
