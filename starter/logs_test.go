package main

import (
	"encoding/json"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

// requireLogOfNovember compares what a followed log has printed with the log of the ended rollout, which continued as new between its batches.
func requireLogOfNovember(t *testing.T, followed outcome) {
	t.Helper()
	require.Equal(t, exitDone, followed.status, followed.stderr)
	require.Equal(t, followed.stdout, succeeds(t, "logs", "prod/november"), "the log does not depend on when it is read")
	var at time.Time
	lines := strings.Split(strings.TrimSpace(followed.stdout), "\n")
	for i, line := range lines {
		stamped, rest, _ := strings.Cut(line, "  ")
		logged, err := time.Parse(time.RFC3339, stamped)
		require.NoError(t, err)
		require.False(t, logged.Before(at), line)
		at, lines[i] = logged, rest
	}
	last := -1
	for _, transition := range []string{
		"Rollout planned  valid=true  batches=2  clusters=3  skipped=0", "Batch is in progress  batch=1  batches=2",
		"Cluster started  cluster=spoke-1  batch=1",
		`Wait started  reason=DisruptionBudget  message="batch 1 of 2: spoke-1: worker-1: Draining: budget shop/web allows 0 of 3"`,
		"Cluster ended  cluster=spoke-1  batch=1  state=complete", "Rollout continues as new  phase=batches  batch=2",
		"Batch is in progress  batch=2  batches=2", "Batch ended  batch=2  batches=2  reason=AllStarted  failedClusters=0",
	} {
		require.Contains(t, lines[last+1:], transition, followed.stdout)
		for last++; lines[last] != transition; last++ {
		}
	}
	require.Contains(t, followed.stdout, "  Rollout ended  succeeded=True  reason=Completed  ")

	var first logLine
	printed := succeeds(t, "logs", "prod/november", "-o", "json")
	require.NoError(t, json.Unmarshal([]byte(printed[:strings.Index(printed, "\n")]), &first))
	require.Equal(t, "Rollout enters a phase", first.Message)
	require.Equal(t, map[string]any{"rollout": "prod/november", "phase": "plan"}, first.Fields)
	require.Equal(t, strings.Count(followed.stdout, "\n"), strings.Count(printed, "\n"))
	require.Empty(t, succeeds(t, "logs", "prod/november", "--since", "1ns"))
	require.Contains(t, succeeds(t, "logs", "cgu/prod/november", "-o", "jsonpath={.message}{\"\\n\"}"), "Rollout ended\n")
	require.Contains(t, drydock(t, "logs", "prod/november", "-o", "name").stderr, "the lines of a log have no names")
	require.Contains(t, drydock(t, "logs", "prod/nowhere").stderr, "error: rollout prod/nowhere not found: see `drydock upgrade list`")
}

func TestALineOfALogIsReadable(t *testing.T) {
	at := time.Date(2026, 11, 27, 20, 0, 0, 0, time.UTC)
	line := newLogLine(workflows.LogLine{At: at, Level: slog.LevelWarn, Message: "Slot request ended", Fields: []any{
		"rollout", "prod/november", "node", "worker-7", "reason", "", "error", error(nil), "until", at.Add(time.Hour), "took", 90 * time.Second, "fields",
		[]string{"spec.timeout"},
		"failure", temporal.Error(temporal.ErrNodeGone, "node worker-7 is gone", errors.New("404")),
	}})
	require.Equal(t, `2026-11-27T20:00:00Z  WARN: Slot request ended  node=worker-7  until=2026-11-27T21:00:00Z  took=1m30s  fields=[spec.timeout]  failure="node worker-7 is gone"`, line.text(at))
	text, err := json.Marshal(line)
	require.NoError(t, err)
	require.JSONEq(t, `{"time":"2026-11-27T20:00:00Z","level":"WARN","message":"Slot request ended","fields":{"rollout":"prod/november","node":"worker-7","reason":"",
		"until":"2026-11-27T21:00:00Z","took":"1m30s","fields":["spec.timeout"],"failure":"node worker-7 is gone"}}`, string(text))
}
