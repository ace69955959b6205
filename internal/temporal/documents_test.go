package temporal

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// messages are the values of the constants in messages.go that select.
func messages(t *testing.T, selects func(group, name string) bool) (values []string) {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "messages.go", nil, parser.ParseComments)
	require.NoError(t, err)
	for _, declaration := range file.Decls {
		group, ok := declaration.(*ast.GenDecl)
		if !ok || group.Tok != token.CONST {
			continue
		}
		for _, spec := range group.Specs {
			constant := spec.(*ast.ValueSpec)
			if !selects(group.Doc.Text(), constant.Names[0].Name) {
				continue
			}
			value, err := strconv.Unquote(constant.Values[0].(*ast.BasicLit).Value)
			require.NoError(t, err)
			values = append(values, value)
		}
	}
	require.NotEmpty(t, values)
	return values
}

// TestTheDocumentationNamesEveryWorkflowMessage compares the reference of workflows with the code: search attributes, IDs, updates, and the signals
// that people send.
func TestTheDocumentationNamesEveryWorkflowMessage(t *testing.T) {
	text, err := os.ReadFile("../../docs/reference/workflows.md")
	require.NoError(t, err)
	firstCells := func(header string) string {
		_, table, found := strings.Cut(string(text), header)
		require.True(t, found, header)
		table, _, _ = strings.Cut(table, "\n\n")
		var cells strings.Builder
		for row := range strings.Lines(table) {
			if cell := strings.Split(row, "|"); len(cell) > 1 {
				cells.WriteString(cell[1])
			}
		}
		return cells.String()
	}
	code := regexp.MustCompile("`([^`]+)`")
	names := func(cells string) []string {
		var found []string
		for _, match := range code.FindAllStringSubmatch(cells, -1) {
			found = append(found, match[1])
		}
		return found
	}

	var attributes []string
	for _, key := range SearchAttributes() {
		attributes = append(attributes, key.GetName())
	}
	require.ElementsMatch(t, attributes, names(firstCells("| attribute | value |\n|---|---|\n")))
	require.ElementsMatch(t, []string{
		ClusterGroupUpgradeID("NAMESPACE", "NAME"), ClusterUpgradeID("NAMESPACE", "NAME", "CLUSTER"), NodeMaintenanceID("CLUSTER", "NAMESPACE", "NAME"),
		MaintenanceSchedulerID("CLUSTER"), SweeperID("CLUSTER"), WorkloadLockControllerID("CLUSTER", "CONTROLLER"),
		HarborClusterID("CLUSTER", "NAMESPACE", "NAME"), MaintenanceWindowID("NAMESPACE", "NAME"), StatusPortalID("NAME"), OnboardingID, EmergencyStopID,
	}, names(firstCells("| id | workflow |\n|---|---|\n")))
	signals := messages(t, func(group, _ string) bool { return strings.HasPrefix(group, "Signals of people") })
	require.ElementsMatch(t, append(signals, SignalHold, SignalWake), names(firstCells("| signal | to | effect |\n|---|---|---|\n")),
		"name each signal of people in docs/reference/workflows.md")
	updates := messages(t, func(_, name string) bool { return strings.HasPrefix(name, "Update") })
	require.ElementsMatch(t, updates, names(firstCells("| update | to | effect |\n|---|---|---|\n")), "name each update in docs/reference/workflows.md")
}
