package activitykit_test

import (
	"context"
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
)

func TestCallsThatComeDuringARoundAreMadeTogetherAfterIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds activitykit.Rounds
		var callers sync.WaitGroup
		began := time.Now()
		expect := func(key string, wantBegin time.Duration, takes time.Duration) {
			callers.Go(func() {
				assert.NoError(t, rounds.Do(t.Context(), key, func(context.Context) error {
					assert.Equal(t, wantBegin, time.Since(began))
					time.Sleep(takes)
					return nil
				}))
			})
			synctest.Wait()
		}
		expect("a", 0, 2*time.Second)
		expect("a", 2*time.Second, time.Second)
		expect("a", 2*time.Second, 3*time.Second)
		expect("b", 0, time.Second)
		time.Sleep(3500 * time.Millisecond)
		expect("a", 5*time.Second, time.Second) // one call of the second round has not ended
		time.Sleep(3 * time.Second)
		expect("a", 6500*time.Millisecond, time.Second)
		callers.Wait()
	})
}

func TestARoundHasALimitedNumberOfCallsInTheirOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds activitykit.Rounds
		var callers sync.WaitGroup
		began := time.Now()
		for i := range 70 {
			callers.Go(func() {
				assert.NoError(t, rounds.Do(t.Context(), "a", func(context.Context) error {
					assert.Equal(t, time.Duration((i+31)/32)*time.Second, time.Since(began), i)
					time.Sleep(time.Second)
					return nil
				}))
			})
			synctest.Wait()
		}
		callers.Wait()
	})
}

func TestACallThatFailsOrIsNotAwaitedEndsItsPartInTheRound(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var rounds activitykit.Rounds
		failure := errors.New("refused")
		require.ErrorIs(t, rounds.Do(t.Context(), "a", func(context.Context) error {
			waiting, cancel := context.WithTimeout(t.Context(), time.Second)
			defer cancel()
			require.ErrorIs(t, rounds.Do(waiting, "a", func(context.Context) error { return nil }), context.DeadlineExceeded)
			return failure
		}), failure)
		require.NoError(t, rounds.Do(t.Context(), "a", func(context.Context) error { return nil }))
	})
}
