package main

import (
	"bytes"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	"drydock.dev/drydock/internal/observe"
)

func TestTimesInTextsOfWorkflowsAreInTheTimeZoneOfTheOutput(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	tests := []struct{ name, text, want string }{
		{"as workflows write it", "the opening of 2026-12-05 21:00:00Z is cancelled", "the opening of 2026-12-05T22:00:00+01:00 is cancelled"},
		{"RFC 3339", "since 2026-07-05T21:30:00Z by root", "since 2026-07-05T23:30:00+02:00 by root"},
		{"one with an offset stays", "since 2026-07-05T21:30:00+03:00", "since 2026-07-05T21:30:00+03:00"},
		{"no time", "2026-13-45 21:30:00Z", "2026-13-45 21:30:00Z"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, localTimes(test.text, berlin))
			require.Equal(t, test.text, localTimes(test.text, nil))
		})
	}
	table := frameStyle{zone: berlin}.newTable("MESSAGE", "BY")
	table.AppendRow([]any{"the opening of 2026-12-05 21:00:00Z", "root"})
	require.Equal(t, "MESSAGE                                    BY\nthe opening of 2026-12-05T22:00:00+01:00   root", table.Render(), "columns stay aligned")
}

func TestAnswersToAPluginNameKubectl(t *testing.T) {
	var out, errOut bytes.Buffer
	c := &cli{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, plugin: true}
	require.NoError(t, c.say("paused; see `%s`", "drydock upgrade status june"))
	c.warn("warning: see `%s`", "drydock upgrade list")
	require.Equal(t, "paused; see `kubectl drydock upgrade status june`\n", out.String())
	require.Equal(t, "warning: see `kubectl drydock upgrade list`\n", errOut.String())
}

func TestAListCountsTheStatesThatItShows(t *testing.T) {
	rows := []workflowRow{
		{Row: observe.Row{Execution: "Running"}, State: "Blocked"},
		{Row: observe.Row{Execution: "Completed", Phase: "Completed"}},
		{Row: observe.Row{Execution: "Completed", Phase: "Failed"}},
		{Row: observe.Row{Execution: "Completed", Phase: "Completed"}},
	}
	list := newListing(&listKind{word: "rollout"}, rows, false)
	require.Equal(t, "4 rollouts: 1 Blocked, 2 Completed, 1 Failed", list.countsText())
	require.Equal(t, map[string]int{"Running": 1, "Completed": 3}, list.Counts, "programs get the close statuses of Temporal")
}

func TestAnErrorNamesItsObjectOnce(t *testing.T) {
	const forbidden = "cluster c1: apply HarborCluster registry/main: forbidden"
	require.Equal(t, forbidden, about("apply HarborCluster registry/main in cluster c1", "registry/main", forbidden))
	require.Equal(t, "apply HarborCluster registry/main in cluster c1: held by root", about("apply HarborCluster registry/main in cluster c1", "registry/main", "held by root"))
}
