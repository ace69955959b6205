package scheduling_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// roundTrip encodes and decodes an input like a workflow.
func roundTrip[T any](t require.TestingT, in T) T {
	text, err := json.Marshal(in)
	require.NoError(t, err)
	var passed T
	require.NoError(t, json.Unmarshal(text, &passed))
	return passed
}

func TestANodeKeepsOnlyTheLabelsThatBudgetsUse(t *testing.T) {
	config := maintenancev1.MaintenanceOperatorConfigSpec{Budgets: []maintenancev1.Budget{
		{Name: "zones", TopologyKey: "zone", NodeSelector: &maintenancev1.BudgetSelector{MatchLabels: map[string]maintenancev1.LabelValue{"pool": "gpu", "arch": "arm64"}}},
		{Name: "old", TopologyKey: "zone", NodeSelector: &maintenancev1.BudgetSelector{
			MatchExpressions: []maintenancev1.LabelDemand{{Key: "generation", Operator: metav1.LabelSelectorOpExists}},
		}},
		{Name: "all"},
	}}
	keys := scheduling.LabelKeys(config)
	require.Equal(t, []string{"arch", "generation", "pool", "zone"}, keys)

	n := node("n0", cordoned)
	n.Labels = map[string]string{"zone": "a", "generation": "", "kubernetes.io/hostname": "n0"}
	text, err := json.Marshal(scheduling.NodeOf(&n, keys))
	require.NoError(t, err)
	require.JSONEq(t, `{"name": "n0", "unavailable": true, "labels": {"zone": "a", "generation": ""}}`, string(text))

	plain := node("n1")
	text, err = json.Marshal(scheduling.NodeOf(&plain, nil))
	require.NoError(t, err)
	require.JSONEq(t, `{"name": "n1"}`, string(text))
}

func TestFinishedAndWithdrawnRequestsAreIgnored(t *testing.T) {
	in := scheduling.InputOf(nil, []maintenancev1.NodeMaintenance{
		request("over", "a.example.com", "n0", 1, maintenancev1.NodeCompleted), deleted(pending("withdrawn", "a.example.com", "n0", 1)),
		deleted(request("returning", "a.example.com", "n0", 0, maintenancev1.NodeCleaningUp)),
	}, limits(1, nil), noon)
	text, err := json.Marshal(in.Requests)
	require.NoError(t, err)
	require.JSONEq(t, `[{"namespace": "default", "name": "returning", "node": "n0", "requestor": "a.example.com", "since": "2026-01-10T12:00:00Z", "granted": true}]`,
		string(text))
}
