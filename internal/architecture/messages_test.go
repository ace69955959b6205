package architecture

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/temporal"
)

// messages is the file with the signals, updates and queries of all workflows.
const messages = "internal/temporal/messages.go"

// TestTheDocumentationNamesEveryWorkflowMessage compares the reference of workflows with the code: search attributes, IDs, updates, and the signals
// that people send.
func TestTheDocumentationNamesEveryWorkflowMessage(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, "docs/reference/workflows.md"))
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
		slices.Sort(found)
		return slices.Compact(found) // a message may have one row for each of its receivers
	}

	var attributes []string
	for _, key := range temporal.SearchAttributes() {
		attributes = append(attributes, key.GetName())
	}
	require.ElementsMatch(t, attributes, names(firstCells("| attribute | value |\n|---|---|\n")))
	require.ElementsMatch(t, []string{
		temporal.ClusterGroupUpgradeID("NAMESPACE", "NAME"), temporal.ClusterUpgradeID("NAMESPACE", "NAME", "CLUSTER"), temporal.NodeMaintenanceID("CLUSTER", "NAMESPACE", "NAME"),
		temporal.MaintenanceSchedulerID("CLUSTER"), temporal.SweeperID("CLUSTER"), temporal.WorkloadLockControllerID("CLUSTER", "CONTROLLER"),
		temporal.HarborClusterID("CLUSTER", "NAMESPACE", "NAME"), temporal.MaintenanceWindowID("NAMESPACE", "NAME"), temporal.StatusPortalID("NAME"),
		temporal.PreparationID("NAMESPACE", "NAME", "KIND", "RUN", 1), temporal.NotificationID("NOTICE"), temporal.OnboardingID, temporal.EmergencyStopID,
	}, names(firstCells("| id | workflow |\n|---|---|\n")))
	var signals, updates []string
	for _, name := range stringConstants(t, messages, "Signals of people") {
		signals = append(signals, name)
	}
	for name, value := range stringConstants(t, messages, "") {
		if strings.HasPrefix(name, "Update") {
			updates = append(updates, value)
		}
	}
	require.ElementsMatch(t, append(signals, temporal.SignalHold, temporal.SignalWake), names(firstCells("| signal | to | effect |\n|---|---|---|\n")),
		"name each signal of people in docs/reference/workflows.md")
	require.ElementsMatch(t, updates, names(firstCells("| update | to | effect |\n|---|---|---|\n")), "name each update in docs/reference/workflows.md")
}
