package activities

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
)

func TestTwoDrainsThatWaitForEachOtherAreToldAsADeadlock(t *testing.T) {
	pair := func(n *devstack.Node) { n.Labels = map[string]string{"test.drydock.dev/shop": "pair"} }
	one, other, shop := testNode(t, pair), testNode(t, pair), newTenant(t)
	changed(t, one.Node, cordoned)
	changed(t, other.Node, cordoned)
	web := shop.pair(t, "web", one.Node)
	shop.pair(t, "db", other.Node)
	first, second := &signals{}, &signals{}
	endedOne := startDrain(t, DrainInput{NodeRef: one, Attempt: 1}, first, nil)
	endedOther := startDrain(t, DrainInput{NodeRef: other, Attempt: 1}, second, nil)

	told := first.waitsFor(t, "Deadlock")
	require.Contains(t, told.Wait.Message, fmt.Sprintf("lacks pod %s/web-homeless", shop.namespace))
	require.Contains(t, told.Wait.Message, fmt.Sprintf("%s waits for PodDisruptionBudget %s/db", other.Node, shop.namespace))
	require.Equal(t, "Deadlock", told.Drain.Blocked[0].Reason)
	told = second.waitsFor(t, "Deadlock")
	require.Contains(t, told.Wait.Message, fmt.Sprintf("%s waits for PodDisruptionBudget %s/web", one.Node, shop.namespace))

	lower(t, web, 0)
	require.NoError(t, (<-endedOne).err)
	second.waitsFor(t, "DisruptionBudget") // the node that is empty comes back, and would take the pod that is missing
	changed(t, one.Node, uncordoned)
	require.NoError(t, (<-endedOther).err)
}
