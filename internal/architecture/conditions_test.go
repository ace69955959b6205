package architecture

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
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
	statusReasons = "internal/apis/ran/v1alpha1/clustergroupupgrade_reasons.go"
	statusChapter = "docs/reference/rollout-status.md"
)

// The documentation has a table of conditions with exactly the types and reasons of the code's constants.
func TestTheDocumentationNamesEveryConditionOfARollout(t *testing.T) {
	types, reasons := stringConstants(t, statusReasons, "Condition types"), stringConstants(t, statusReasons, "Condition reasons")
	documentedTypes, documentedReasons := documentedConditions(t)
	require.ElementsMatch(t, slices.Collect(maps.Values(types)), documentedTypes, "types")
	require.ElementsMatch(t, slices.Collect(maps.Values(reasons)), documentedReasons, "reasons")
}

// Every reason of a condition is a constant of the API or a passed value, so that the test above covers it.
func TestConditionsOfRolloutsHaveDocumentedReasons(t *testing.T) {
	known := stringConstants(t, statusReasons, "Condition reasons")
	found := 0
	for _, tree := range []string{"internal/rollout", "internal/precache", "activities", "workflows"} {
		for _, file := range goFiles(t, tree) {
			if strings.HasSuffix(file, "_test.go") {
				continue
			}
			positions := token.NewFileSet()
			parsed, err := parser.ParseFile(positions, file, nil, 0)
			require.NoError(t, err)
			for _, reason := range conditionReasons(parsed) {
				found++
				_, literal := reason.(*ast.BasicLit)
				name := nameOf(reason)
				if literal || strings.HasPrefix(strings.ToLower(name), "reason") && !strings.EqualFold(name, "reason") && known[name] == "" {
					t.Errorf("%s: a reason of a condition that is not among those of %s", positions.Position(reason.Pos()), statusReasons)
				}
			}
		}
	}
	require.Greater(t, found, 10, "no code that sets conditions was found")
}

// conditionReasons returns the expressions of a file that are reasons of conditions: arguments of setters, and fields of verdicts and results.
func conditionReasons(file *ast.File) []ast.Expr {
	var reasons []ast.Expr
	ast.Inspect(file, func(node ast.Node) bool {
		switch node := node.(type) {
		case *ast.CallExpr:
			// conditions.Set(&conditions, type, status, reason, ...), and record.condition(ctx, type, status, reason, ...).
			if name := nameOf(node.Fun); (name == "Set" || name == "condition") && len(node.Args) > 4 {
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

// stringConstants returns the string constants of a file whose group has a comment with that beginning, by name.
func stringConstants(t *testing.T, path, comment string) map[string]string {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(root, path), nil, parser.ParseComments)
	require.NoError(t, err)
	constants := map[string]string{}
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST || !strings.HasPrefix(group.Doc.Text(), comment) {
			continue
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			text, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			constants[constant.Names[0].Name] = text
		}
	}
	require.NotEmpty(t, constants, comment)
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

// goFiles lists the Go files of a directory of the repository and of all directories below it.
func goFiles(t *testing.T, tree string) (files []string) {
	t.Helper()
	require.NoError(t, filepath.WalkDir(filepath.Join(root, tree), func(path string, entry fs.DirEntry, err error) error {
		if err == nil && strings.HasSuffix(path, ".go") {
			files = append(files, path)
		}
		return err
	}))
	return files
}
