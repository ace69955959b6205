package main

import (
	"regexp"
	"strings"
	"testing"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// eachCommand calls visit for every command that can run.
func eachCommand(root *cobra.Command, visit func(*cobra.Command)) {
	if root.Runnable() {
		visit(root)
	}
	for _, sub := range root.Commands() {
		eachCommand(sub, visit)
	}
}

func TestEveryCommandHasExamplesThatExist(t *testing.T) {
	isolate(t)
	named := map[string]bool{}
	eachCommand(newRoot(&cli{}), func(cmd *cobra.Command) {
		path := strings.TrimPrefix(cmd.CommandPath(), "drydock ")
		if cmd.HasSubCommands() && cmd.Name() != "hold" {
			return // it only groups commands
		}
		require.NotEmpty(t, cmd.Example, "give drydock %s an example in examples.go", path)
		named[path] = true
		for line := range strings.Lines(cmd.Example) {
			line = strings.TrimSpace(line)
			if command, ours := strings.CutPrefix(line, "drydock "); ours {
				found := requireCommand(t, path, command)
				require.NoError(t, found.ValidateArgs(found.Flags().Args()), line)
				require.NoError(t, found.ValidateRequiredFlags(), line)
			}
		}
	})
	for path := range examples {
		require.True(t, named[path], "examples.go has an example for drydock %s, which does not exist", path)
	}
}

func TestEveryNounHasTheVerbsOfKubectl(t *testing.T) {
	nouns := map[string]string{
		"upgrade": "apply create edit delete list status describe", "node": "apply create edit delete list status describe",
		"window": "apply create edit delete list status describe", "portal": "apply create edit delete list status describe",
		"harbor": "apply create edit delete list status describe", "lock controller": "apply create edit delete list status describe",
		"onboarding": "apply create edit delete list status describe", "hold": "list status describe", "lock": "list",
	}
	for noun, verbs := range nouns {
		for verb := range strings.FieldsSeq(verbs) {
			words := append(strings.Fields(noun), verb)
			cmd, rest, err := newRoot(&cli{}).Find(words)
			require.NoError(t, err, "drydock %s %s", noun, verb)
			require.Empty(t, rest, "drydock %s has no %s", noun, verb)
			require.True(t, cmd.Runnable())
		}
	}
}

func TestFormerNamesStillWork(t *testing.T) {
	isolate(t)
	snapshot := file(t, "objects.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n")
	require.Equal(t, succeeds(t, "node", "preview", "n1", "--snapshot", snapshot), succeeds(t, "node", "drain", "n1", "--dry-run", "--snapshot", snapshot))
	got := drydock(t, "node", "drain", "n1", "--snapshot", snapshot)
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "drain is only a preview, which is `drydock node preview n1`")
	require.NotContains(t, succeeds(t, "node"), "drain NODE")
	require.Contains(t, drydock(t, "upgrade", "pause", "prod/june", "--object-namespace", "test").stderr, `namespace "prod" contradicts -n test`)
	require.NoError(t, requireCommand(t, "", "upgrade approve june --comment CHG-1").Flags().Lookup("reason").Value.Set("x"))
}

func TestGlobalFlagsHaveASectionOfTheirOwn(t *testing.T) {
	isolate(t)
	own, global, found := strings.Cut(succeeds(t, "upgrade", "status", "--help"), "\nGlobal Flags:\n")
	require.True(t, found)
	for _, flag := range []string{"--address", "--temporal-namespace", "--profile", "--config-file", "--timeout", "--utc"} {
		require.NotContains(t, own, flag+" ")
		require.Contains(t, global, flag+" ")
	}
	require.Contains(t, own, "-n, --namespace string")
}

func TestAsAPluginTheHelpNamesKubectl(t *testing.T) {
	isolate(t)
	require.True(t, isPlugin("/usr/local/bin/kubectl-drydock"))
	require.False(t, isPlugin("/usr/local/bin/drydock"))
	eachCommand(newRoot(&cli{plugin: true}), func(cmd *cobra.Command) {
		require.True(t, strings.HasPrefix(cmd.CommandPath(), pluginName), cmd.CommandPath())
		help := cmd.Long + "\n" + cmd.Example
		require.Equal(t, help, (&cli{plugin: true}).called(help), "%s still names drydock alone", cmd.CommandPath())
		require.NotContains(t, help, "kubectl kubectl")
	})
	root := newRoot(&cli{plugin: true})
	status, _, err := root.Find([]string{"upgrade", "status"})
	require.NoError(t, err)
	require.Contains(t, status.Example, "  kubectl drydock upgrade status prod/november\n")
	require.Equal(t, "not found: see `kubectl drydock upgrade list`", (&cli{plugin: true}).called("not found: see `drydock upgrade list`"))
	require.Equal(t, "not found: see `drydock upgrade list`", (&cli{}).called("not found: see `drydock upgrade list`"))
}

func TestEachCommandHasAManPage(t *testing.T) {
	isolate(t)
	directory := t.TempDir()
	require.Contains(t, succeeds(t, "man", directory), "wrote the man pages to "+directory)
	written := pagesIn(t, directory, "*.1")
	eachCommand(newRoot(&cli{}), func(cmd *cobra.Command) {
		name := strings.ReplaceAll(cmd.CommandPath(), " ", "-") + ".1"
		if !cmd.Hidden {
			require.Contains(t, written, name)
		}
	})
	require.Contains(t, written["drydock-upgrade-status.1"], ".SH EXAMPLE")
}

func TestAFormatIsATemplateOfTheFieldsOfJSON(t *testing.T) {
	isolate(t)
	snapshot := file(t, "objects.yaml", "apiVersion: v1\nkind: Node\nmetadata: {name: n1}\n---\napiVersion: v1\nkind: Pod\nmetadata: {name: p1, namespace: shop}\nspec: {nodeName: n1}\n")
	preview := func(format string) outcome {
		return drydock(t, "node", "preview", "n1", "--snapshot", snapshot, "-o", format)
	}
	for format, wanted := range map[string]string{
		"jsonpath={.pods[*].name}": "p1", "jsonpath=.pods[0].action": "block", "go-template={{range .pods}}{{.namespace}}/{{.name}}{{end}}": "shop/p1",
		"jsonpath-file=" + file(t, "path.txt", "{.drainable}"): "false", "go-template-file=" + file(t, "template.txt", "{{.drainable}}"): "false",
		"jsonpath={.absent}": "", `jsonpath={range .pods[*]}{.name}{"\n"}{end}`: "p1\n",
	} {
		require.Equal(t, wanted, preview(format).stdout, format)
	}
	require.Equal(t, preview("table").stdout, preview("wide").stdout, "this table has no further columns")
	for format, problem := range map[string]string{
		"jsonpath": "-o jsonpath needs a template: -o jsonpath=TEMPLATE", "json={.pods}": `output format "json={.pods}" is not one of`,
		"jsonpath={.pods": "-o jsonpath: ", "go-template={{": "-o go-template: ", "jsonpath-file=no/such": "no such file",
	} {
		got := preview(format)
		require.Equal(t, exitUsage, got.status, format)
		require.Contains(t, got.stderr, problem)
		require.Empty(t, got.stdout)
	}
}

func TestTheExitStatusOfAStatusIsThatOfTheRollout(t *testing.T) {
	target := rolloutSubject("prod", "november")
	running := atNoon()
	require.NoError(t, running.failure(target), "it has not ended")
	ended := atNoon()
	ended.Status.Status.CompletedAt = new(metav1.NewTime(noon))
	ended.Status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: ranv1.ReasonCompleted}}
	require.NoError(t, ended.failure(target))
	ended.Status.Conditions[0].Status, ended.Status.Conditions[0].Reason, ended.Status.Conditions[0].Message = metav1.ConditionFalse, ranv1.ReasonTimedOut, "1 cluster timed out"
	ended.Status.Counts.TimedOut = 1
	require.EqualError(t, ended.failure(target), "rollout prod/november did not succeed (TimedOut): 1 cluster timed out; "+
		"retry the clusters that failed or timed out, and continue with the others: `drydock upgrade retry prod/november --unfinished`")
}

func TestEveryVerbThatChangesSomethingTakesAReason(t *testing.T) {
	for _, path := range []string{
		"node apply", "node edit", "lock controller apply", "lock controller edit", "onboarding apply", "upgrade start", "upgrade apply", "upgrade enable", "upgrade pause", "upgrade resume", "upgrade cancel", "upgrade approve", "upgrade edit", "upgrade retry",
		"node maintain", "node done", "node fail", "node recover", "node cancel", "node join", "lock controller start", "lock controller cancel",
		"window create", "window apply", "window edit", "window extend", "window end", "window cancel", "window delete", "window override",
		"portal apply", "portal cancel", "portal delete", "harbor apply", "harbor delete", "harbor cancel",
		"onboarding start", "onboarding stop", "onboarding retry", "hold", "release",
	} {
		cmd, _, err := newRoot(&cli{}).Find(strings.Fields(path))
		require.NoError(t, err)
		require.NotNil(t, cmd.Flags().Lookup("reason"), "drydock %s", path)
	}
}

func TestTheDetailsOfWorkflowsHaveCommandsThatExist(t *testing.T) {
	isolate(t)
	command := regexp.MustCompile("`drydock ([^`]+)`")
	for name, details := range map[string]string{
		"rollout":              temporal.ClusterGroupUpgradeOptions("prod", "november", "").StaticDetails,
		"cluster of a rollout": temporal.ClusterDetails("spoke-1", "prod/november"),
		"maintenance":          temporal.NodeMaintenanceOptions("spoke-1", "worker-7", "kim.example.com").StaticDetails,
		"node of a rollout":    temporal.RolloutNodeDetails("spoke-1", "worker-7", "prod/november"),
		"emergency stop":       temporal.EmergencyStopOptions().StaticDetails,
		"scheduler":            temporal.SchedulerDetails("spoke-1"),
		"sweeper":              temporal.SweeperDetails(),
		"window":               temporal.MaintenanceWindowOptions("prod/night").StaticDetails,
		"lock controller":      temporal.WorkloadLockControllerOptions("spoke-1", "ceph").StaticDetails,
		"harbor":               temporal.HarborClusterOptions("spoke-1", "prod", "registry").StaticDetails,
		"portal":               temporal.StatusPortalOptions("main").StaticDetails,
		"onboarding":           temporal.OnboardingDetails,
	} {
		commands := command.FindAllStringSubmatch(details, -1)
		require.NotEmpty(t, commands, name)
		for _, found := range commands {
			requireCommand(t, name, found[1])
		}
	}
}
