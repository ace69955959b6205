package temporal

import (
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestUsersAreToldEveryNameOfAWorkflow holds the reference of workflows to the code: search attributes, IDs, and the signals that people send.
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
	require.ElementsMatch(t, []string{SignalCancel, SignalPause, SignalResume, SignalEnable, SignalDone, SignalFail, SignalRecover, SignalHold, SignalWake},
		names(firstCells("| signal | to | effect |\n|---|---|---|\n")))
}
