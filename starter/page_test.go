package main

import (
	"slices"
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

func TestATableThatCannotFitHasItsSentencesBelowTheRows(t *testing.T) {
	style := frameStyle{width: 45}
	fitted := longTable(style)
	require.True(t, strings.HasPrefix(fitted, "CLUSTER   STATE     STARTED\nspoke-1   running   15m ago\n      DisruptionBudget for 15m:"), fitted)
	require.True(t, strings.HasSuffix(fitted, "\nspoke-2   pending   15m ago"), fitted)
	require.LessOrEqual(t, text.LongestLineLen(fitted), style.width)
	for word := range strings.FieldsSeq(longReason) {
		require.Contains(t, fitted, word)
	}
	require.NotContains(t, longTable(frameStyle{width: 45, bare: true}), "CLUSTER")

	names := style.newTable("NAMESPACE", "NAME")
	names.AppendRow(table.Row{"default", "CRD " + strings.Repeat("n", 63)})
	require.Equal(t, "NAMESPACE   NAME\ndefault     CRD "+strings.Repeat("n", 63), names.Render(), "no name is broken")
	require.Equal(t, names.Render(), style.wrap(names.Render()), "and its columns stay")
}

func TestAHeadlineTakesTheLinesThatItNeeds(t *testing.T) {
	parts := []string{"rollout prod/november", "Running", "batch 2 of 3 (times out in 14m)", "started 3m ago"}
	require.Equal(t, "rollout prod/november   Running   batch 2 of 3 (times out in 14m)   started 3m ago", frameStyle{}.headline(parts))
	require.Equal(t, "rollout prod/november   Running\n  batch 2 of 3 (times out in 14m)   started 3m ago", frameStyle{width: 50}.headline(parts))
}

func TestALongLineIsWrappedBetweenWords(t *testing.T) {
	block := "short\nwaiting: " + longReason + "\n\nlast\n"
	wrapped := frameStyle{width: 80}.wrap(block)
	require.LessOrEqual(t, text.LongestLineLen(wrapped), 80)
	require.Equal(t, strings.Fields(block), strings.Fields(wrapped))
	require.Regexp(t, `(?m)^short\nwaiting: .*\n  \S.*\n  \S.*\n\nlast\n$`, wrapped)
	require.Equal(t, block, frameStyle{}.wrap(block))
}

func TestACommandStaysWholeSoThatItCanBeCopied(t *testing.T) {
	const patch = "`kubectl patch pdb web -n shop --type=merge -p '{\"spec\":{\"maxUnavailable\":1}}'`"
	reason := "3 pods are blocked by PodDisruptionBudget shop/web: set its maxUnavailable to 1 or more with " + patch + "; `drydock upgrade pause prod/november` stops it"
	wrapped := frameStyle{width: 80}.wrap("waiting: " + reason)
	require.Contains(t, wrapped, "\n  "+patch+";\n  `drydock upgrade pause prod/november` stops it", "the terminal breaks what is longer")
	require.Equal(t, "41%  1 of 4 clusters complete,\n  1 running", frameStyle{width: 33}.wrap("41%  1 of 4 clusters complete, 1 running"))

	grid := frameStyle{width: 80}.newTable("CLUSTER", "NODE", "NOTE")
	grid.AppendRow(table.Row{"spoke-1", "worker-1", reason})
	grid.AppendRow(table.Row{"spoke-1", "worker-2", reason})
	drawn := grid.Render()
	require.Contains(t, drawn, "   `drydock upgrade pause prod/november`", "it fits into its column")
	require.True(t, strings.HasSuffix(drawn, "\nto copy: "+patch), drawn)
	require.Equal(t, 1, strings.Count(drawn, "to copy: "))
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

func TestAListHasItsRowsInTheStyleOfTheOutput(t *testing.T) {
	isolate(t)
	kind := &listKind{
		word: "thing", none: "no things", noneRunning: "nothing is running", header: []any{"NAME", "STATE"},
		row: func(row workflowRow, _ time.Time) table.Row { return table.Row{row.Name, row.phase()} },
	}
	started := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	row := workflowRow{Row: observe.Row{Ref: observe.RefOf("portal/main", "run"), Execution: "Completed", Phase: "Failed", StartedAt: started}}
	list := newListing(kind, []workflowRow{row}, false)
	require.Equal(t, "NAME   STATE\nmain   Failed\n1 thing: 1 Failed", list.frame(started, frameStyle{}))
	require.Equal(t, "main   Failed", list.frame(started, frameStyle{bare: true}))
	require.Equal(t, "NAME   STATE    WORKFLOW ID   STARTED AT\nmain   Failed   portal/main   2026-11-20T12:00:00Z\n1 thing: 1 Failed", list.frame(started, frameStyle{wide: true}))
	require.Contains(t, list.frame(started, frameStyle{colours: true}), "\x1b[31mFailed\x1b[0m")
	require.Equal(t, "no things", newListing(kind, nil, false).frame(started, frameStyle{}))
	require.Equal(t, "nothing is running", newListing(kind, nil, true).frame(started, frameStyle{}))
	many := newListing(kind, slices.Repeat([]workflowRow{row}, 100), false)
	require.Contains(t, many.frame(started, frameStyle{height: 24}), "\nand 88 more\n", "a live view cannot scroll")
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

func TestTheStatusOfARolloutFitsTheTerminalAndKeepsEveryWord(t *testing.T) {
	whole := atNoon().frame(noon, frameStyle{})
	for _, width := range []int{60, 80} {
		style := frameStyle{width: width}
		fitted := style.wrap(atNoon().frame(noon, style))
		require.LessOrEqual(t, text.LongestLineLen(fitted), width, fitted)
		for word := range strings.FieldsSeq(whole) {
			require.Contains(t, fitted, word)
		}
	}
	require.Greater(t, text.LongestLineLen(whole), 80, "a pipe gets whole lines")
}
