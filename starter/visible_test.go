package main

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

func TestTextOfOthersCannotSteerTheTerminal(t *testing.T) {
	for text, shown := range map[string]string{
		"plain text, ünïcode\tand\nlines":   "plain text, ünïcode\tand\nlines",
		"\x1b[32mcomplete\x1b[0m":           "\x1b[32mcomplete\x1b[0m",
		"a \x1b[33mblocked\x1b[0m\x1b[0m b": "a \x1b[33mblocked\x1b[0m\ufffd[0m b",
		"\x1b[30mhidden\x1b[0m":             "\ufffd[30mhidden\ufffd[0m",
		"\x1b[31mto the end":                "\ufffd[31mto the end",
		"\x1b[2J\x1b[H\x1b[8mhidden":        "\ufffd[2J\ufffd[H\ufffd[8mhidden",
		"\x1b]0;title\x07":                  "\ufffd]0;title\ufffd",
		"over\rwritten\b\x7f":               "over\ufffdwritten\ufffd\ufffd",
		"\u009b2J":                          "\ufffd2J",
		"file\u202egpj.exe":                 "file\ufffdgpj.exe",
		"\x1b[1;31mbold":                    "\ufffd[1;31mbold",
		"ends with \x1b":                    "ends with \ufffd",
	} {
		require.Equal(t, shown, visible(text), "%q", text)
	}
}

// An application writes the error message of its lock.
func TestStatusesShowTheTextOfLocksHarmlessly(t *testing.T) {
	status := maintenanceStatus{Status: maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeScheduled, Wait: &drydockv1.Wait{
		Reason: "WorkloadLocksHeld", Message: "1 lock is held",
		Blockers: []drydockv1.Blocker{{Kind: "NodeWorkloadLock", Name: "app-worker-1", Reason: "LockHeld", Message: "rebuilding\x1b]0;owned\x07\x1b[2J\x1b[H ok"}},
	}}}
	shown := (&cli{}).shown(status.frame(time.Now(), frameStyle{}))
	require.Contains(t, shown, "rebuilding\ufffd]0;owned")
	require.NotContains(t, shown, "\x1b")
}
