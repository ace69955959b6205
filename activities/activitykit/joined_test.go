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

func TestCallersThatComeDuringACallShareTheNextOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var joined activitykit.Joined[string, int]
		var mu sync.Mutex
		calls := map[string]int{}
		do := func(key string) (int, error) {
			return joined.Do(t.Context(), key, func(context.Context) (int, error) {
				mu.Lock()
				calls[key]++
				number := calls[key]
				mu.Unlock()
				time.Sleep(time.Second)
				return number, nil
			})
		}
		var callers sync.WaitGroup
		expect := func(want int) {
			callers.Go(func() {
				number, err := do("a")
				assert.NoError(t, err)
				assert.Equal(t, want, number)
			})
			synctest.Wait()
		}
		expect(1)
		for range 10 {
			expect(2)
		}
		time.Sleep(1500 * time.Millisecond) // the second call is in progress
		expect(3)
		number, err := do("b")
		require.NoError(t, err)
		require.Equal(t, 1, number, "another key has calls of its own")
		callers.Wait()
		expect(4)
		callers.Wait()
	})
}

func TestASharedCallOutlivesTheCallerThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var joined activitykit.Joined[string, int]
		failure := errors.New("refused")
		call := func(ctx context.Context) (int, error) {
			time.Sleep(time.Second)
			return 0, errors.Join(ctx.Err(), failure)
		}
		first, leave := context.WithCancel(t.Context())
		results := make(chan error, 2)
		go func() { _, err := joined.Do(t.Context(), "a", call); results <- err }()
		synctest.Wait()
		go func() { _, err := joined.Do(first, "a", call); results <- err }()
		synctest.Wait()
		shared := make(chan error, 1)
		go func() { _, err := joined.Do(t.Context(), "a", call); shared <- err }()
		synctest.Wait()
		leave()
		require.ErrorIs(t, <-results, context.Canceled)
		require.ErrorIs(t, <-results, failure)
		err := <-shared
		require.ErrorIs(t, err, failure)
		require.NotErrorIs(t, err, context.Canceled)
	})
}
