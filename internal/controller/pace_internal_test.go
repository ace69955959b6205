package controller

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
)

// sent returns the instants of the signals for an object that changes at these intervals, for a time. A change that must wait is looked at again when told.
func sent(p *pace, every, during time.Duration) (signals []time.Duration) {
	object, start := types.NamespacedName{Namespace: "default", Name: "war"}, time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	requeued := time.Duration(-1)
	for at := time.Duration(0); at < during+2*longestPace; at += every {
		if requeued >= 0 && requeued <= at {
			if p.take(object, start.Add(requeued)) == 0 {
				signals = append(signals, requeued)
			}
			requeued = -1
		}
		if at >= during {
			continue
		}
		if wait := p.take(object, start.Add(at)); wait == 0 {
			signals = append(signals, at)
		} else {
			requeued = at + wait
		}
	}
	return signals
}

func TestAnObjectThatChangesAllTheTimeSendsFewSignals(t *testing.T) {
	signals := sent(&pace{}, 100*time.Millisecond, 24*time.Hour)
	require.Less(t, len(signals), 300, "a run accepts 10,000 signals")
	require.Less(t, signals[1], 2*time.Second, "it is not late at first")
	require.GreaterOrEqual(t, signals[len(signals)-1], 24*time.Hour-100*time.Millisecond, "the last change is sent")
	require.LessOrEqual(t, signals[len(signals)-1], 24*time.Hour+longestPace)
}

func TestEditsOfAPersonAreSentAtOnce(t *testing.T) {
	require.Len(t, sent(&pace{}, 10*time.Second, time.Hour), 360)
	p := &pace{}
	sent(p, 100*time.Millisecond, time.Hour)
	later := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	require.Zero(t, p.take(types.NamespacedName{Namespace: "default", Name: "war"}, later), "the object has been quiet")
	require.Zero(t, p.take(types.NamespacedName{Namespace: "default", Name: "another"}, later))
	p.forget(types.NamespacedName{Namespace: "default", Name: "another"})
	require.Len(t, p.objects, 1)
}
