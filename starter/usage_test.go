package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"

	buildversion "drydock.dev/drydock/internal/version"
)

func TestEveryCommandHasHelp(t *testing.T) {
	isolate(t)
	var visit func(cmd *cobra.Command)
	visit = func(cmd *cobra.Command) {
		path := strings.TrimSpace(strings.TrimPrefix(cmd.CommandPath(), "drydock"))
		t.Run("drydock "+path, func(t *testing.T) {
			help := succeeds(t, append(strings.Fields(path), "--help")...)
			require.Contains(t, help, cmd.Short)
			require.Contains(t, help, "Usage:\n  drydock")
		})
		for _, sub := range cmd.Commands() {
			visit(sub)
		}
	}
	visit(newRoot(&cli{}))
}

func TestHelpListsTheVerbs(t *testing.T) {
	isolate(t)
	nouns := map[string][]string{
		"":                {"upgrade", "node", "lock", "window", "portal", "harbor", "onboarding", "health", "hold", "release", "serve", "codec-server", "setup", "doctor", "upgrade-check", "upgrade-promote", "explain", "events", "logs", "diff", "version", "completion", "help", "man", "config"},
		"upgrade":         {"plan", "start", "enable", "pause", "resume", "cancel", "approve", "edit", "retry", "status", "list", "history", "apply", "describe"},
		"node":            {"maintain", "done", "fail", "recover", "cancel", "join", "status", "list", "preview", "describe", "schedule", "apply", "edit"},
		"lock":            {"controller", "evaluate", "gate", "list", "progress"},
		"lock controller": {"start", "status", "cancel", "list", "describe", "apply", "edit"},
		"window":          {"create", "edit", "extend", "end", "cancel", "override", "status", "list", "phase", "preview", "allows", "apply", "delete", "describe"},
		"portal":          {"apply", "status", "cancel", "delete", "list", "describe"},
		"harbor":          {"apply", "status", "delete", "cancel", "evaluate", "list", "describe"},
		"onboarding":      {"start", "stop", "retry", "status", "list", "describe", "apply"},
		"health":          {"check"},
		"config":          {"get-contexts", "current-context", "use-context", "set-context", "delete-context", "view"},
	}
	verb := regexp.MustCompile(`(?m)^  (\S+) `)
	for noun, verbs := range nouns {
		_, list, found := strings.Cut(succeeds(t, strings.Fields(noun)...), "Commands:\n")
		require.True(t, found, noun)
		list, _, _ = strings.Cut(list, "\n\n")
		var listed []string
		for _, match := range verb.FindAllStringSubmatch(list, -1) {
			listed = append(listed, match[1])
		}
		require.ElementsMatch(t, verbs, listed, noun)
	}
}

func TestWrongUsage(t *testing.T) {
	isolate(t)
	tests := []struct {
		name   string
		args   []string
		stderr string
	}{
		{
			name:   "an unknown noun, with a suggestion",
			args:   []string{"upgrad"},
			stderr: `error: drydock has no command "upgrad": did you mean upgrade, upgrade-check or upgrade-promote? (see drydock --help)`,
		},
		{
			name:   "an unknown verb",
			args:   []string{"upgrade", "undo"},
			stderr: `error: drydock upgrade has no command "undo" (see drydock upgrade --help)`,
		},
		{
			name:   "an unknown verb with its flags",
			args:   []string{"upgrade", "strat", "-f", "june.yaml"},
			stderr: `error: drydock upgrade has no command "strat": did you mean start? (see drydock upgrade --help)`,
		},
		{
			name:   "the name of a cluster where its context is needed",
			args:   []string{"lock", "list", "--cluster", "spoke-1"},
			stderr: "error: unknown flag: --cluster: drydock lock list reads the cluster with your own credentials, so name its --context (see drydock lock list --help)",
		},
		{
			name:   "a missing name",
			args:   []string{"upgrade", "status"},
			stderr: "error: NAME is missing (see drydock upgrade status --help)",
		},
		{
			name:   "a file instead of a name",
			args:   []string{"upgrade", "start", "june.yaml"},
			stderr: `error: unexpected argument "june.yaml": a file is given with -f (see drydock upgrade start --help)`,
		},
		{
			name:   "a surplus name",
			args:   []string{"upgrade", "status", "a", "b"},
			stderr: `error: unexpected argument "b" (see drydock upgrade status --help)`,
		},
		{
			name:   "an unknown flag",
			args:   []string{"upgrade", "list", "--colour"},
			stderr: "error: unknown flag: --colour (see drydock upgrade list --help)",
		},
		{
			name:   "a missing file",
			args:   []string{"upgrade", "start"},
			stderr: `error: required flag(s) "filename" not set (see drydock upgrade start --help)`,
		},
		{
			name:   "an unknown output format",
			args:   []string{"upgrade", "list", "-o", "xml"},
			stderr: `error: output format "xml" is not one of table, wide, json, yaml, name, jsonpath, jsonpath-file, go-template, go-template-file (see drydock upgrade list --help)`,
		},
		{
			name:   "a name with too many parts",
			args:   []string{"upgrade", "pause", "cgu/prod/november/spoke-1"},
			stderr: `error: "cgu/prod/november/spoke-1" is not the name of a rollout: give NAME, NAMESPACE/NAME or cgu/NAMESPACE/NAME (see drydock upgrade pause --help)`,
		},
		{
			name:   "a negative limit of runs",
			args:   []string{"upgrade", "history", "november", "--limit", "-1"},
			stderr: `error: --limit -1: must be 0 (all runs) or more (see drydock upgrade history --help)`,
		},
		{
			name:   "a namespace that contradicts -n",
			args:   []string{"upgrade", "pause", "prod/november", "-n", "test"},
			stderr: `error: namespace "prod" contradicts -n test (see drydock upgrade pause --help)`,
		},
		{
			name: "a namespace with a slash",
			args: []string{"upgrade", "cancel", "spoke-1", "-n", "prod/november"},
			stderr: `error: -n "prod/november" is not a valid namespace: a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with ` +
				`an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?') (see drydock upgrade cancel --help)`,
		},
		{
			name: "a cluster with a slash",
			args: []string{"node", "cancel", "worker-1", "--cluster", "spoke/1"},
			stderr: `error: --cluster "spoke/1" is not a valid cluster name: a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and end with ` +
				`an alphanumeric character (e.g. 'example.com', regex used for validation is '[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*') (see drydock node cancel --help)`,
		},
		{
			name:   "a negative timeout",
			args:   []string{"window", "list", "--timeout", "-5s"},
			stderr: "error: --timeout -5s is negative (see drydock window list --help)",
		},
		{
			name:   "a duration without a unit",
			args:   []string{"node", "maintain", "worker-1", "--cluster", "spoke-1", "--drain-timeout", "300"},
			stderr: "error: --drain-timeout 300 has no unit: write 300s for seconds, 300m for minutes or 300h for hours (see drydock node maintain --help)",
		},
		{
			name:   "a duration in words",
			args:   []string{"window", "override", "prod/night", "--for", "two hours", "--reason", "CVE"},
			stderr: `error: --for "two hours" is not a duration such as 90s, 30m or 2h (see drydock window override --help)`,
		},
		{
			name:   "a watch of names",
			args:   []string{"upgrade", "status", "november", "--watch", "-o", "name"},
			stderr: "error: -o name cannot show the changes of --watch: use only one of them (see drydock upgrade status --help)",
		},
		{
			name:   "a snapshot and a cluster",
			args:   []string{"node", "schedule", "--snapshot", "objects.yaml", "--cluster", "spoke-1"},
			stderr: "error: if any flags in the group [snapshot cluster] are set none of the others can be; [cluster snapshot] were all set (see drydock node schedule --help)",
		},
		{
			name:   "a node without a cluster",
			args:   []string{"node", "maintain", "worker-1"},
			stderr: "error: no cluster: set --cluster or DRYDOCK_CLUSTER (see drydock node maintain --help)",
		},
		{
			name:   "a node and a file",
			args:   []string{"node", "maintain", "worker-1", "-f", "request.yaml", "--cluster", "spoke-1"},
			stderr: `error: unexpected argument "worker-1" (see drydock node maintain --help)`,
		},
		{
			name:   "a flag and a file",
			args:   []string{"node", "maintain", "-f", "request.yaml", "--force", "--cluster", "spoke-1"},
			stderr: "error: --force has no effect with -f: set it in the file (see drydock node maintain --help)",
		},
		{
			name:   "a state without a watch",
			args:   []string{"node", "status", "worker-1", "--for", "Ready"},
			stderr: "error: --for needs --watch (see drydock node status --help)",
		},
		{
			name: "an unknown state",
			args: []string{"node", "status", "worker-1", "--watch", "--for", "ready"},
			stderr: `error: --for "ready" is not a state of a maintenance: give one of Pending, Scheduled, Cordon, WaitForPodCompletion, Draining, Ready, ` +
				"RequestorFailed, HealthChecks, CleaningUp, Completed, Failed, Cancelled, NodeGone (see drydock node status --help)",
		},
		{
			name:   "a missing path",
			args:   []string{"upgrade", "start", "-f", "no/such.yaml"},
			stderr: "error: open no/such.yaml: no such file or directory",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			require.Equal(t, outcome{status: exitUsage, stderr: tt.stderr + "\n"}, drydock(t, tt.args...))
		})
	}
}

func TestAnUnreachableTemporalIsAFailureThatNamesTheFlag(t *testing.T) {
	isolate(t)
	const stderr = "error: temporal at 127.0.0.1:1 does not answer (set --address, or TEMPORAL_ADDRESS): dial tcp 127.0.0.1:1: connect: connection refused\n"
	require.Equal(t, outcome{status: exitFailed, stderr: stderr}, drydock(t, "upgrade", "list"))
	require.Equal(t, outcome{status: exitFailed, stderr: stderr}, drydock(t, "upgrade", "cancel", "november"))
}

func TestVersion(t *testing.T) {
	isolate(t)
	require.Regexp(t, `^drydock \S+ \(.*go1\.\d+.*\)\n$`, succeeds(t, "version"))
	require.Equal(t, succeeds(t, "version"), succeeds(t, "--version"))
	built := parsed[buildversion.Build](t, "version")
	require.NotEmpty(t, built.Version)
	require.NotEmpty(t, built.Go)
}

func TestCompletionScriptsAreWrittenForEachShell(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		require.Contains(t, succeeds(t, "completion", shell), "drydock")
	}
}

func TestCompletionWithoutTemporalIsEmptyAndSilent(t *testing.T) {
	isolate(t)
	require.Equal(t, ":4\n", succeedsSilently(t, "__complete", "upgrade", "status", ""))
	require.Equal(t, ":4\n", succeedsSilently(t, "__complete", "node", "list", "--cluster", ""))
	require.Equal(t, ":4\n", succeedsSilently(t, "__complete", "upgrade", "list", "-n", ""))
}

// succeedsSilently is for cobra's completion, which prints messages on standard error.
func succeedsSilently(t *testing.T, args ...string) string {
	t.Helper()
	got := drydock(t, args...)
	require.Equal(t, exitDone, got.status, got.stderr)
	return got.stdout
}
