package drain_test

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/internal/devstack"
)

func TestTwoDrainsThatWaitForEachOtherAreADeadlock(t *testing.T) {
	pair := func(n *devstack.Node) { n.Labels = map[string]string{"test.drydock.dev/shop": "pair"} }
	one, other, shop := activitytest.TestNode(t, pair), activitytest.TestNode(t, pair), activitytest.NewTenant(t)
	activitytest.Changed(t, one.Node, activitytest.Cordoned)
	activitytest.Changed(t, other.Node, activitytest.Cordoned)
	web := shop.Pair(t, "web", one.Node)
	shop.Pair(t, "db", other.Node)
	first, second := &activitytest.Signals{}, &activitytest.Signals{}
	endedOne := activitytest.StartDrain(t, drain.Input{NodeRef: one, Attempt: 1}, first, nil)
	endedOther := activitytest.StartDrain(t, drain.Input{NodeRef: other, Attempt: 1}, second, nil)

	seen := first.WaitsFor(t, "Deadlock")
	require.Contains(t, seen.Wait.Message, fmt.Sprintf("lacks pod %s/web-homeless", shop.Namespace))
	require.Contains(t, seen.Wait.Message, fmt.Sprintf("%s waits for PodDisruptionBudget %s/db", other.Node, shop.Namespace))
	require.Equal(t, "Deadlock", seen.Drain.Blocked[0].Reason)
	seen = second.WaitsFor(t, "Deadlock")
	require.Contains(t, seen.Wait.Message, fmt.Sprintf("%s waits for PodDisruptionBudget %s/web", one.Node, shop.Namespace))

	activitytest.Lower(t, web, 0)
	require.NoError(t, (<-endedOne).Err)
	second.WaitsFor(t, "DisruptionBudget") // the missing pod fits on the empty node, which is returned
	activitytest.Changed(t, one.Node, activitytest.Uncordoned)
	require.NoError(t, (<-endedOther).Err)
}
