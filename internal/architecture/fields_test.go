package architecture

import (
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/remediation"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

// It requires each field of the specs and statuses of rollouts and node maintenances in a reference page of its kind. The generated reference of the
// API has all of them, but does not explain how they work together.
func TestEveryFieldIsExplained(t *testing.T) {
	for _, kind := range []struct {
		value any
		pages []string
	}{
		{maintenancev1.NodeMaintenanceSpec{}, []string{"node-maintenance.md", "health-checks.md"}},
		{maintenancev1.NodeMaintenanceStatus{}, []string{"node-maintenance.md"}},
		{ranv1.ClusterGroupUpgradeSpec{}, []string{"cluster-group-upgrade.md", "node-maintenance.md", "health-checks.md"}},
	} {
		var text strings.Builder
		for _, page := range kind.pages {
			content, err := os.ReadFile(filepath.Join(root, "docs/reference", page))
			require.NoError(t, err)
			text.Write(content)
		}
		for _, field := range fieldsOf(reflect.TypeOf(kind.value), map[reflect.Type]bool{}) {
			if !strings.Contains(text.String(), field) {
				t.Errorf("explain the field %s of %T in docs/reference/%s", field, kind.value, kind.pages[0])
			}
		}
	}
}

// fieldsOf lists the JSON names of the fields of a type of Drydock's API, including nested types.
func fieldsOf(of reflect.Type, seen map[reflect.Type]bool) (names []string) {
	for of.Kind() == reflect.Pointer || of.Kind() == reflect.Slice || of.Kind() == reflect.Map {
		of = of.Elem()
	}
	if of.Kind() != reflect.Struct || seen[of] || !strings.HasPrefix(of.PkgPath(), "drydock.dev/") {
		return nil
	}
	seen[of] = true
	for i := range of.NumField() {
		if name, _, _ := strings.Cut(of.Field(i).Tag.Get("json"), ","); name != "" && name != "kind" && name != "apiVersion" {
			names = append(names, name)
		}
		names = append(names, fieldsOf(of.Field(i).Type, seen)...)
	}
	return names
}

// The troubleshooting page must explain each reason why a rollout or a node maintenance waits.
func TestTroubleshootingHasEveryReasonToWait(t *testing.T) {
	page, err := os.ReadFile(filepath.Join(root, "docs/how-to/troubleshoot.md"))
	require.NoError(t, err)
	reasons := []string{precache.Precaching.Reason(), precache.Backup.Reason(), remediation.ReasonNotPlaced, string(drain.ReasonPodsRunning)}
	for _, group := range []struct{ path, comment string }{
		{statusReasons, "Reasons why a rollout waits"},
		{"internal/rollout/waits.go", "Reasons of a rollout"},
		{"internal/rollout/startbudget.go", "Reasons why a pending cluster"},
		{"internal/emergency/messages.go", "The reasons of waits"},
		{"internal/scheduling/decide.go", "Reasons of a standstill"},
		{"internal/scheduling/schedule.go", "The reasons, beside BudgetReason"},
		{"activities/locks/locks.go", "Reasons why a maintenance waits for workload locks"},
		{"activities/jobs/status.go", "Reasons of the wait for a Job"},
		{"workflows/nodemaintenance/wait.go", "Reasons why a maintenance whose node is ready waits"},
		{"workflows/rollout/actions.go", "The reason of a refused change"},
	} {
		reasons = slices.AppendSeq(reasons, maps.Values(stringConstants(t, group.path, group.comment)))
	}
	for _, reason := range append(reasons, temporal.ErrLockRefused) {
		require.Contains(t, string(page), "`"+reason+"`", "explain the reason %s in docs/how-to/troubleshoot.md", reason)
	}
}
