package scheduling_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// The owners of a long queue learn of a reason that lasts, and not of one that passes, like the maintenance of their node for one of them.
func TestAPassingReasonIsNotReportedToALongQueue(t *testing.T) {
	const waiting = 5000
	d := newScheduler(1, "a", "b")
	d.request("june", slot("a", 1))
	for i := range waiting {
		set := d.setOf(fmt.Sprintf("waiting-%d", i))
		set.Version, set.Slots = 1, append(set.Slots, slot("b", 1))
		d.state.Receive(*set, d.now)
	}
	require.Empty(t, d.decide())
	require.Equal(t, noon.Add(time.Second), d.again, "the first reason is reported after a second in any queue")
	for told := 0; told < waiting; {
		told += len(d.later())
	}

	held := &drydockv1.Wait{Reason: "Held"}
	d.now = d.now.Add(time.Hour)
	require.Empty(t, d.decideIn(held))
	require.Equal(t, d.now.Add(5*time.Second), d.again, "a millisecond for each owner")
	d.now = d.now.Add(4 * time.Second)
	require.Empty(t, d.decideIn(held))
	require.Empty(t, d.decide())
	require.Zero(t, d.again, "the owners know the reason")

	require.Empty(t, d.decideIn(held))
	d.now = d.again
	require.Contains(t, d.decideIn(held), "waiting-0:; Held")
}
