package nodemaintenance

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestTheDetailsOfAFailedDrainNameThePods(t *testing.T) {
	status := &maintenancev1.NodeMaintenanceStatus{State: maintenancev1.NodeFailed, Failure: &maintenancev1.Failure{
		Reason: temporal.ErrDrainTimedOut, Message: "drain n1: 1 pod blocked",
		Blockers: []drydockv1.Blocker{{Kind: "Pod", Namespace: "shop", Name: "web-1", Message: "PodDisruptionBudget shop/web"}},
	}}
	require.Equal(t, `| node | c1/n1 |
|---|---|
| state | Failed |
| **failure** | DrainTimedOut: drain n1: 1 pod blocked |
| blocked by | Pod shop/web-1: PodDisruptionBudget shop/web |
`, nodeDetails(activitykit.NodeRef{Cluster: "c1", Node: "n1"}, status))
}

func TestTheDetailsHaveTheCommandOfTheRequestor(t *testing.T) {
	node := activitykit.NodeRef{Cluster: "c1", Node: "n1"}
	for reason, command := range map[string]string{ReasonAwaitingRequestor: "done", ReasonStale: "done", reasonRequestorFailed: "recover"} {
		details := nodeDetails(node, &maintenancev1.NodeMaintenanceStatus{Wait: &drydockv1.Wait{Reason: reason}})
		require.Contains(t, details, "| **to do** | `drydock node "+command+" n1 --cluster c1` |\n")
	}
	require.NotContains(t, nodeDetails(node, &maintenancev1.NodeMaintenanceStatus{Wait: &drydockv1.Wait{Reason: "NoSlot"}}), "to do")
}
