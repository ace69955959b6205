package main

import (
	"strings"
	"testing"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/observe"
)

const longReason = "DisruptionBudget for 15m: PodDisruptionBudget shop/web allows 0 of 3 pods to be evicted now, because 1 of them is not ready; set its maxUnavailable to 1 or more"

func longTable(style frameStyle) string {
	t := style.newTable("CLUSTER", "STATE", "REASON", "STARTED", wide("WORKFLOW ID"))
	t.AppendRow(table.Row{"spoke-1", "running", longReason, "15m ago", "cgu/prod/november"})
	t.AppendRow(table.Row{"spoke-2", "pending", "", "15m ago", "cgu/prod/june"})
	return t.Render()
}

func TestATableFitsTheTerminalAndKeepsEveryWord(t *testing.T) {
	for _, width := range []int{60, 80, 100} {
		wrapped := longTable(frameStyle{width: width})
		require.LessOrEqual(t, text.LongestLineLen(wrapped), width)
		for word := range strings.FieldsSeq(longReason) {
			require.Contains(t, wrapped, word)
		}
		require.Contains(t, wrapped, "spoke-2   pending", "the other columns are not wrapped")
	}
	require.Equal(t, longTable(frameStyle{}), longTable(frameStyle{width: 1000}))
	require.Contains(t, longTable(frameStyle{}), longReason, "a pipe gets whole lines")
}

func TestATableHasItsWideColumnsAndHeadersOnDemand(t *testing.T) {
	require.NotContains(t, longTable(frameStyle{}), "WORKFLOW ID")
	require.NotContains(t, longTable(frameStyle{}), "cgu/prod/november")
	require.Regexp(t, `(?m)WORKFLOW ID$\n.*cgu/prod/november$`, longTable(frameStyle{wide: true}))
	require.NotContains(t, longTable(frameStyle{bare: true}), "CLUSTER")
	require.Contains(t, longTable(frameStyle{bare: true}), "spoke-1")
}

func TestALongLineIsWrappedBetweenWords(t *testing.T) {
	block := "short\nwaiting: " + longReason + "\n\nlast\n"
	wrapped := frameStyle{width: 80}.wrap(block)
	require.LessOrEqual(t, text.LongestLineLen(wrapped), 80)
	require.Equal(t, strings.Fields(block), strings.Fields(wrapped))
	require.Regexp(t, `(?m)^short\nwaiting: .*\n  \S.*\n  \S.*\n\nlast\n$`, wrapped)
	require.Equal(t, block, frameStyle{}.wrap(block))
}

func TestTimesHaveTheOffsetOfTheirZone(t *testing.T) {
	zone := time.FixedZone("", 2*60*60)
	now := time.Date(2026, 11, 20, 12, 0, 0, 0, zone)
	at := time.Date(2026, 11, 20, 10, 5, 0, 0, time.UTC)
	require.Equal(t, "2026-11-20T12:05:00+02:00", stamp(at, now))
	require.Equal(t, "12:05:00+02:00", clock(at, now), "today")
	require.Equal(t, "2026-11-22T12:05:00+02:00", clock(at.AddDate(0, 0, 2), now))
	require.Equal(t, "2026-11-20T10:05:00Z", stamp(at, now.UTC()))
	require.Equal(t, time.UTC, (&cli{utc: true}).now().Location())
}

func TestColoursNeedATerminalAndRespectNoColor(t *testing.T) {
	c := &cli{}
	require.False(t, c.style().colours, "standard output is no terminal")
	t.Setenv("NO_COLOR", "")
	require.True(t, coloured(true))
	require.False(t, coloured(false))
	t.Setenv("NO_COLOR", "1")
	require.False(t, coloured(true))
}

func TestAListSelectsByTheLabelsOfItsRows(t *testing.T) {
	isolate(t)
	got := drydock(t, "node", "list", "-l", "cluster in (")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, `--selector "cluster in ("`)

	row := workflowRow{Row: observe.Row{Ref: observe.RefOf("node/spoke-1/ops/fan", "run"), Execution: "Running", Phase: "Draining", Node: "n1"}}
	for selector, matches := range map[string]bool{
		"": true, "cluster=spoke-1,node=n1": true, "phase in (Draining,Ready)": true, "cluster=spoke-2": false, "requestor": true, "requestor!=": false,
	} {
		parsed, err := listFlags{selector: selector}.parsed()
		require.NoError(t, err)
		require.Equal(t, matches, parsed.Matches(row.labels()), selector)
	}
}
