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

// stingy is a limit that the test lets through one at a time.
type stingy struct {
	flowcontrol.RateLimiter
	tokens chan struct{}
}

func (s stingy) Accept() { <-s.tokens }

func TestASmallDrainIsNotDelayedByFiftyLargeOnes(t *testing.T) {
	turns := newEvictionQueue(nil)
	turns.serving = true // the test gives the turns
	for node := range 50 {
		for range 250 {
			turns.join(fmt.Sprintf("large-%d", node))
		}
	}
	small := []chan struct{}{turns.join("small"), turns.join("small"), turns.join("small")}
	for range 3 * 51 {
		turns.next()
	}
	for _, turn := range small {
		require.True(t, hasCome(turn), "it waits behind the 12,500 that came before")
	}
}

func hasCome(turn chan struct{}) bool {
	select {
	case <-turn:
		return true
	default:
		return false
	}
}

func TestACancelledEvictionLeavesTheQueue(t *testing.T) {
	limit := stingy{tokens: make(chan struct{})}
	turns := newEvictionQueue(limit)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := turns.take(ctx, "a")
	require.ErrorIs(t, err, context.Canceled)
	ended := make(chan error, 1)
	go func() {
		_, err := turns.take(t.Context(), "b")
		ended <- err
	}()
	for {
		select {
		case limit.tokens <- struct{}{}:
			continue
		case err := <-ended:
			require.NoError(t, err)
			return
		case <-time.After(10 * time.Second):
			t.Fatal("b never had its turn")
		}
	}
}

func TestConcurrentEvictionsAreLimitedAndLateAnswersStopCounting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		turns := newEvictionQueue(flowcontrol.NewFakeAlwaysRateLimiter())
		began, taken := time.Now(), make(chan func())
		for i := range 2*evictionsAtOnce + 2 {
			go func() {
				answered, err := turns.take(t.Context(), fmt.Sprintf("node-%d", i%3))
				assert.NoError(t, err)
				taken <- answered
			}()
		}
		// so many have their turns, that long after the beginning, and no more until something happens
		had := func(count int, after time.Duration) (answered []func()) {
			for range count {
				answered = append(answered, <-taken)
				require.Equal(t, after, time.Since(began))
			}
			synctest.Wait()
			select {
			case <-taken:
				require.Fail(t, "one too many is under way")
			default:
			}
			return answered
		}
		first := had(evictionsAtOnce, 0)
		first[0]()
		had(1, 0)
		first[0]() // once more: it makes room once
		had(0, 0)
		second := had(evictionsAtOnce, lateAnswer) // all the others are late
		first[1]()                                 // its answer, after all
		had(0, lateAnswer)
		second[0]()
		had(1, lateAnswer)
	})
}

// Whoever comes, goes and waits: a node that waits has its turn before any other has had two, turns go to those who wait, first come first for each
// node, and none is left over.
func TestTheEvictionQueueIsFair(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		turns := newEvictionQueue(nil)
		turns.serving = true // the test gives the turns
		queued := map[string][]chan struct{}{}
		// since is how many turns each other node had while this one waited.
		since := map[string]map[string]int{}
		node := rapid.SampledFrom([]string{"a", "b", "c", "d"})
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				n := node.Draw(t, "node")
				if len(queued[n]) == 0 {
					since[n] = map[string]int{}
				}
				queued[n] = append(queued[n], turns.join(n))
			},
			"leave": func(t *rapid.T) {
				n := node.Draw(t, "node")
				if len(queued[n]) == 0 {
					t.Skip("nobody")
				}
				i := rapid.IntRange(0, len(queued[n])-1).Draw(t, "which")
				turns.leave(n, queued[n][i])
				queued[n] = append(append([]chan struct{}{}, queued[n][:i]...), queued[n][i+1:]...)
			},
			"turn": func(t *rapid.T) {
				turns.next()
				given := ""
				for n, queue := range queued {
					for i, turn := range queue {
						if hasCome(turn) {
							require.Empty(t, given, "one turn at a time")
							require.Zero(t, i, "first come first")
							given = n
						}
					}
				}
				if given == "" {
					for n, queue := range queued {
						require.Empty(t, queue, "%s waits", n)
					}
					return
				}
				queued[given], since[given] = queued[given][1:], map[string]int{}
				for n, queue := range queued {
					if n != given && len(queue) > 0 {
						since[n][given]++
						require.LessOrEqual(t, since[n][given], 1, "%s waited while %s had two turns", n, given)
					}
				}
			},
		})
	})
}
