package kube

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"k8s.io/client-go/util/flowcontrol"
	"pgregory.net/rapid"
)

// manualLimiter admits one request per token of the test.
type manualLimiter struct {
	flowcontrol.RateLimiter
	tokens chan struct{}
}

func (s manualLimiter) Accept() { <-s.tokens }

// queueOf returns a queue of which the test starts the evictions.
func queueOf() *evictionQueue {
	queue := newEvictionQueue(nil)
	queue.serving = true
	return queue
}

func TestASmallDrainIsNotDelayedByFiftyLargeOnes(t *testing.T) {
	queue := queueOf()
	for node := range 50 {
		for range 250 {
			queue.join(fmt.Sprintf("large-%d", node))
		}
	}
	small := []chan struct{}{queue.join("small"), queue.join("small"), queue.join("small")}
	for range len(small) + 1 {
		queue.next()
	}
	for _, start := range small {
		require.True(t, started(start), "it waits behind 12,500 earlier evictions")
	}
}

func TestNoDrainIsHeldUpBySmallOnesOrByALargeOneThatKeepsTrying(t *testing.T) {
	queue := queueOf()
	const nodes = 3
	first := []chan struct{}{queue.join("large")}
	for range 250 {
		queue.join("large")
	}
	first = append(first, queue.join("medium"), queue.join("medium"))
	for i := range fairTurn * nodes * len(first) {
		queue.join("large")
		queue.join(fmt.Sprintf("small-%d", i))
		queue.next()
	}
	for i, start := range first {
		require.True(t, started(start), "eviction %d: others are always first", i)
	}
}

func TestDrainsOfTheSameSizeEndOneAfterTheOther(t *testing.T) {
	queue := queueOf()
	pods := map[string][]chan struct{}{}
	for _, node := range []string{"a", "b", "c"} {
		for range 10 {
			pods[node] = append(pods[node], queue.join(node))
		}
	}
	var ended []int
	for turn := range 30 {
		queue.next()
		for node, starts := range pods {
			if !slices.ContainsFunc(starts, func(start chan struct{}) bool { return !started(start) }) {
				ended = append(ended, turn+1)
				delete(pods, node)
			}
		}
	}
	require.Len(t, ended, 3)
	require.LessOrEqual(t, ended[0], 12, "it shares its turns with others")
	require.LessOrEqual(t, ended[1], 22, "it shares its turns with the last")
}

func started(start chan struct{}) bool {
	select {
	case <-start:
		return true
	default:
		return false
	}
}

func TestACancelledEvictionLeavesTheQueue(t *testing.T) {
	limit := manualLimiter{tokens: make(chan struct{})}
	queue := newEvictionQueue(limit)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := queue.acquire(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	ended := make(chan error, 1)
	go func() {
		_, err := queue.acquire(t.Context(), "b")
		ended <- err
	}()
	for {
		select {
		case limit.tokens <- struct{}{}:
			continue
		case err := <-ended:
			require.NoError(t, err)
			return
		case <-time.After(5 * time.Minute):
			t.Fatal("b never started")
		}
	}
}

func TestConcurrentEvictionsAreLimitedAndLateAnswersStopCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		queue := newEvictionQueue(flowcontrol.NewFakeAlwaysRateLimiter())
		began, acquired := time.Now(), make(chan func())
		for i := range 2*maxEvictions + 2 {
			go func() {
				answered, err := queue.acquire(t.Context(), fmt.Sprintf("node-%d", i%3))
				assert.NoError(t, err)
				acquired <- answered
			}()
		}
		// requireStarted checks that exactly count evictions start at that time, and returns their answer functions.
		requireStarted := func(count int, after time.Duration) (answered []func()) {
			for range count {
				answered = append(answered, <-acquired)
				require.Equal(t, after, time.Since(began))
			}
			synctest.Wait()
			select {
			case <-acquired:
				require.Fail(t, "one eviction too many is in flight")
			default:
			}
			return answered
		}
		first := requireStarted(maxEvictions, 0)
		first[0]()
		requireStarted(1, 0)
		first[0]() // a second call frees no slot
		requireStarted(0, 0)
		second := requireStarted(maxEvictions, lateAnswer) // all the others are late
		first[1]()                                         // its answer comes late
		requireStarted(0, lateAnswer)
		second[0]()
		requireStarted(1, lateAnswer)
	})
}

// In any order of joins and cancellations, one waiting eviction starts at a time, the evictions of a node start in order, and the node with the fewest is first;
// every sixteenth is from the node that began to wait, or had its last such turn, before all others.
func TestTheEvictionQueueIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := queueOf()
		queued := map[string][]chan struct{}{}
		// since orders the nodes: by the event with which each began to wait, or had its last fair turn.
		since := map[string]int{}
		turns, events := 0, 0
		nodes := []string{"a", "b", "c", "d"}
		node := rapid.SampledFrom(nodes)
		join := func(n string) {
			if events++; len(queued[n]) == 0 {
				since[n] = events
			}
			queued[n] = append(queued[n], queue.join(n))
		}
		turn := func(t *rapid.T) {
			var waiting, begun []string
			one := queue.next()
			for _, n := range nodes {
				if len(queued[n]) > 0 {
					waiting = append(waiting, n)
				}
				for i, start := range queued[n] {
					if started(start) {
						require.Zero(t, i, "in the order of arrival")
						begun = append(begun, n)
					}
				}
			}
			require.Equal(t, len(waiting) > 0, one)
			if !one {
				return
			}
			require.Len(t, begun, 1, "one eviction starts at a time")
			turns++
			events++
			n := begun[0]
			for _, other := range waiting {
				if turns%fairTurn == 0 {
					require.LessOrEqual(t, since[n], since[other], "%s waits longer", other)
				} else {
					require.LessOrEqual(t, len(queued[n]), len(queued[other]), "%s has fewer", other)
				}
			}
			if turns%fairTurn == 0 {
				since[n] = events
			}
			queued[n] = queued[n][1:]
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				n := node.Draw(t, "node")
				for range rapid.IntRange(1, 10).Draw(t, "evictions") {
					join(n)
				}
			},
			"leave": func(t *rapid.T) {
				n := node.Draw(t, "node")
				if len(queued[n]) == 0 {
					t.Skip("no eviction waits")
				}
				i := rapid.IntRange(0, len(queued[n])-1).Draw(t, "which")
				queue.leave(n, queued[n][i])
				queued[n] = slices.Delete(queued[n], i, i+1)
			},
			"turns": func(t *rapid.T) {
				for range rapid.IntRange(1, 10).Draw(t, "turns") {
					turn(t)
				}
			},
		})
	})
}
