package kit_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	sdkpb "go.temporal.io/api/sdk/v1"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"pgregory.net/rapid"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

func TestDetailsHaveTheTraceThatTheWorkerSends(t *testing.T) {
	for trace, want := range map[string]string{"": "| node |\n", "019ac6a1": "| node |\n\ntrace `019ac6a1`\n"} {
		var suite testsuite.WorkflowTestSuite
		environment := suite.NewTestWorkflowEnvironment()
		environment.ExecuteWorkflow(func(ctx workflow.Context) error {
			if trace != "" {
				ctx = temporal.WithTrace(ctx, trace)
			}
			kit.ShowDetails(ctx, "| node |\n")
			return nil
		})
		value, err := environment.QueryWorkflow("__temporal_workflow_metadata")
		require.NoError(t, err)
		var metadata sdkpb.WorkflowMetadata
		require.NoError(t, value.Get(&metadata))
		require.Equal(t, want, metadata.GetCurrentDetails())
	}
}

func TestTextOfOthersBecomesNoMarkup(t *testing.T) {
	for text, want := range map[string]string{
		"set maxUnavailable to 1: `kubectl patch pdb web`": "set maxUnavailable to 1: `kubectl patch pdb web`",
		"`a|b` and a|b":                                "`a\\|b` and a\\|b",
		"[free disks](https://evil.test)":              `\[free disks\](https://evil.test)`,
		"![](https://evil.test/track.png)":             `!\[\](https://evil.test/track.png)`,
		"<img src=https://evil.test>":                  "&lt;img src=https://evil.test>",
		"&lt;b>":                                       "&amp;lt;b>",
		"one ` [a](b) and `` two ` [c](d)":             "one \\` \\[a\\](b) and \\`\\` two \\` \\[c\\](d)",
		"\\` [a](b) `":                                 "\\\\` [a](b) `",
		"first\nsecond":                                "first second",
		"red \x1b[31m and \u202ereversed":              "red \uFFFD\\[31m and \uFFFDreversed",
		"`` [a](b)":                                    "\\`\\` \\[a\\](b)",
		"pod shop/web-0 waits for PodDisruptionBudget": "pod shop/web-0 waits for PodDisruptionBudget",
	} {
		require.Equal(t, want, kit.Cell(text))
	}
}

// Outside of code nothing begins a link, an image or HTML, and nothing ends the cell.
func TestNoTextBecomesMarkup(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cell := kit.Cell(rapid.StringOf(rapid.SampledFrom([]rune("ab`[]()<>&|!\\\n\x1b"))).Draw(t, "text"))
		inCode, escaped := false, false
		for _, r := range cell {
			switch {
			case escaped:
				escaped = false
				continue
			case r == '\\' && !inCode:
				escaped = true
			case r == '`':
				inCode = !inCode
			case !inCode && strings.ContainsRune("[]<|\n\x1b", r):
				t.Fatalf("%q has markup", cell)
			}
		}
		if inCode {
			t.Fatalf("%q has code without an end", cell)
		}
	})
}
