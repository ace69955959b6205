package kube

import (
	"context"
	"fmt"
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

func TestASmallDrainIsNotDelayedByFiftyLargeOnes(t *testing.T) {
	queue := newEvictionQueue(nil)
	queue.serving = true // the test starts the evictions
	for node := range 50 {
		for range 250 {
			queue.join(fmt.Sprintf("large-%d", node))
		}
	}
	small := []chan struct{}{queue.join("small"), queue.join("small"), queue.join("small")}
	for range 3 * 51 {
		queue.next()
	}
	for _, start := range small {
		require.True(t, started(start), "it waits behind 12,500 earlier evictions")
	}
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

// In any order of joins and cancellations, no other node starts two evictions while a node waits, each node's evictions start in order, and a waiting
// eviction always starts.
func TestTheEvictionQueueIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		queue := newEvictionQueue(nil)
		queue.serving = true // the test starts the evictions
		queued := map[string][]chan struct{}{}
		// overtaken counts, for each waiting node, the evictions that each other node started.
		overtaken := map[string]map[string]int{}
		node := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				n := node.Draw(t, "node")
				if len(queued[n]) == 0 {
					overtaken[n] = map[string]int{}
				}
				queued[n] = append(queued[n], queue.join(n))
			},
			"leave": func(t *rapid.T) {
				n := node.Draw(t, "node")
				if len(queued[n]) == 0 {
					t.Skip("no eviction waits")
				}
				i := rapid.IntRange(0, len(queued[n])-1).Draw(t, "which")
				queue.leave(n, queued[n][i])
				queued[n] = append(append([]chan struct{}{}, queued[n][:i]...), queued[n][i+1:]...)
			},
			"turn": func(t *rapid.T) {
				queue.next()
				startedNode := ""
				for n, queue := range queued {
					for i, start := range queue {
						if started(start) {
							require.Empty(t, startedNode, "one eviction starts at a time")
							require.Zero(t, i, "in the order of arrival")
							startedNode = n
						}
					}
				}
				if startedNode == "" {
					for n, queue := range queued {
						require.Empty(t, queue, "%s waits", n)
					}
					return
				}
				queued[startedNode], overtaken[startedNode] = queued[startedNode][1:], map[string]int{}
				for n, queue := range queued {
					if n != startedNode && len(queue) > 0 {
						overtaken[n][startedNode]++
						require.LessOrEqual(t, overtaken[n][startedNode], 1, "%s waited while %s started two evictions", n, startedNode)
					}
				}
			},
		})
	})
}
