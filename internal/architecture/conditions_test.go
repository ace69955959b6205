package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

const (
	statusTypes   = "internal/apis/ran/v1alpha1/clustergroupupgrade_status.go"
	statusChapter = "docs/cluster-group-upgrade.md"
)

// waitReasons are constants beside those of conditions that are not reasons of a condition: why a rollout waits. Users' documentation has them as
// the words that a message begins with, or not at all.
var waitReasons = []string{"BatchInProgress", "WaitingForApproval", "Soaking"}

// TestUsersAreToldEveryConditionOfARollout holds the table of conditions to the code: every type and reason that there is a constant for stands in
// it, and nothing else.
func TestUsersAreToldEveryConditionOfARollout(t *testing.T) {
	constants := stringConstants(t, filepath.Join(root, statusTypes))
	var types, reasons []string
	for name, value := range constants {
		switch {
		case strings.HasPrefix(name, "Condition"):
			types = append(types, value)
		case strings.HasPrefix(name, "Reason") && !slices.Contains(waitReasons, value):
			reasons = append(reasons, value)
		}
	}
	require.NotEmpty(t, types)
	require.NotEmpty(t, reasons)
	documentedTypes, documentedReasons := documentedConditions(t)
	require.ElementsMatch(t, types, documentedTypes, "types")
	require.ElementsMatch(t, reasons, documentedReasons, "reasons")
}

// TestConditionsOfRolloutsHaveNoReasonOfTheirOwn keeps reasons where the test above sees them: whoever sets a condition names a constant of the API, or
// passes on what was given.
func TestConditionsOfRolloutsHaveNoReasonOfTheirOwn(t *testing.T) {
	found := 0
	for _, tree := range []string{"internal/rollout", "internal/precache", "activities", "workflows"} {
		files, err := filepath.Glob(filepath.Join(root, tree, "*.go"))
		require.NoError(t, err)
		for _, file := range files {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			positions := token.NewFileSet()
			parsed, err := parser.ParseFile(positions, file, nil, 0)
			require.NoError(t, err)
			for _, reason := range conditionReasons(parsed) {
				found++
				if _, literal := reason.(*ast.BasicLit); literal {
					t.Errorf("%s: a reason of a condition without a constant in %s", positions.Position(reason.Pos()), statusTypes)
				}
				if name, ok := reason.(*ast.Ident); ok && strings.HasPrefix(name.Name, "reason") && name.Name != "reason" {
					t.Errorf("%s: %s: constants of conditions' reasons are in %s", positions.Position(reason.Pos()), name.Name, statusTypes)
				}
			}
		}
	}
	require.Greater(t, found, 10, "conditions are set somewhere")
}

// conditionReasons are the expressions of a file that say the reason of a condition: arguments of what sets one, and fields of verdicts and results.
func conditionReasons(file *ast.File) []ast.Expr {
	var reasons []ast.Expr
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			// SetCondition(conditions, type, status, reason, ...), and record.condition(ctx, type, status, reason, ...).
			if name := nameOf(node.Fun); (name == "SetCondition" || name == "condition") && len(node.Args) > 4 {
				reasons = append(reasons, node.Args[3])
			}
		case *ast.CompositeLit:
			if !slices.Contains([]string{"verdict", "Verdict", "Result"}, nameOf(node.Type)) {
				break
			}
			for i, element := range node.Elts {
				pair, named := element.(*ast.KeyValueExpr)
				switch {
				case named && strings.EqualFold(nameOf(pair.Key), "reason"):
					reasons = append(reasons, pair.Value)
				case !named && i == 1: // Verdict{status, reason, message}
					reasons = append(reasons, element)
				}
			}
		}
		return true
	})
	return reasons
}

// nameOf is the last part of a name: Result of rollout.Result.
func nameOf(expression ast.Expr) string {
	switch expression := expression.(type) {
	case *ast.Ident:
		return expression.Name
	case *ast.SelectorExpr:
		return expression.Sel.Name
	}
	return ""
}

// stringConstants are those of a file by their names.
func stringConstants(t *testing.T, path string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), path, nil, 0)
	require.NoError(t, err)
	constants := map[string]string{}
	ast.Inspect(file, func(node ast.Node) bool {
		spec, ok := node.(*ast.ValueSpec)
		if !ok {
			return true
		}
		for i, value := range spec.Values {
			if literal, ok := value.(*ast.BasicLit); ok && literal.Kind == token.STRING {
				text, err := strconv.Unquote(literal.Value)
				require.NoError(t, err)
				constants[spec.Names[i].Name] = text
			}
		}
		return true
	})
	return constants
}

// documentedConditions are the types and reasons in the table of conditions.
func documentedConditions(t *testing.T) (types, reasons []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, statusChapter))
	require.NoError(t, err)
	_, table, found := strings.Cut(string(text), "| type | status | reason | when |\n|---|---|---|---|\n")
	require.True(t, found, "%s has no table of conditions", statusChapter)
	table, _, _ = strings.Cut(table, "\n\n")
	foundTypes, foundReasons := map[string]bool{}, map[string]bool{}
	word := regexp.MustCompile(`\w+`)
	for _, line := range strings.Split(table, "\n") {
		cells := strings.Split(line, "|")
		require.Len(t, cells, 6, line)
		for cell, into := range map[int]map[string]bool{1: foundTypes, 3: foundReasons} {
			for _, name := range word.FindAllString(cells[cell], -1) {
				into[name] = true
			}
		}
	}
	return slices.Collect(maps.Keys(foundTypes)), slices.Collect(maps.Keys(foundReasons))
}
