package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/docs"
)

func TestReasonsAreExplained(t *testing.T) {
	said := succeeds(t, "explain", "noslot")
	require.Contains(t, said, "NoSlot (Waiting for a slot)\nthe cluster's budgets are used up")
	require.NotContains(t, said, "](", "no links")
	require.Contains(t, succeeds(t, "explain", "Budget/zone-a"), "Budget/NAME (Waiting for a slot)\nthe budget of that name is used up")
	refused := drydock(t, "explain", "NoSuchReason")
	require.Equal(t, exitUsage, refused.status)
	require.Contains(t, refused.stderr, "REASON \"NoSuchReason\": `drydock explain` lists the reasons")
	require.Equal(t, "Waiting for a person, a window or a lock", parsed[explanation](t, "explain", "Held").When)
	require.Contains(t, succeeds(t, "explain", "DisruptionBudget"), "unblock the drain (docs/how-to/unblock-a-drain.md)")
}

// Every row of the page is listed: each begins with a reason.
func TestAllReasonsAreListed(t *testing.T) {
	_, reasons, found := strings.Cut(docs.Troubleshoot, "\n## Rollouts in progress\n")
	require.True(t, found)
	rows := 0
	for line := range strings.Lines(reasons) {
		if strings.HasPrefix(line, "| `") {
			rows += strings.Count(line[:strings.Index(line[2:], "|")+2], ", `") + 1
		}
	}
	require.Len(t, explanations(docs.Troubleshoot), rows)
	said := succeeds(t, "explain")
	for _, known := range explanations(docs.Troubleshoot) {
		require.Contains(t, said, known.Reason)
	}
}
