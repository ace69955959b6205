package controller

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/controller/priorityqueue"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
)

func named(name string) reconcile.Request {
	return reconcile.Request{NamespacedName: types.NamespacedName{Name: name}}
}

func TestAQueueReconcilesUpToItsLimitAtTheSameTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var running, most, total atomic.Int32
		release := make(chan struct{})
		q := newQueue(func(reconcile.Request) {
			most.Store(max(most.Load(), running.Add(1)))
			<-release
			running.Add(-1)
			total.Add(1)
		})
		for i := range 3 * concurrency {
			q.Add(named(string(rune('A' + i))))
		}
		synctest.Wait()
		require.Zero(t, running.Load(), "it has not started")
		q.start()
		synctest.Wait()
		require.EqualValues(t, concurrency, running.Load())
		close(release)
		synctest.Wait()
		require.EqualValues(t, concurrency, most.Load())
		require.EqualValues(t, 3*concurrency, total.Load())
		require.Empty(t, q.items)
		require.Zero(t, q.workers, "no goroutine at rest")
	})
}

func TestAQueueReconcilesOneRequestAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		calls := make(chan reconcile.Request)
		q := newQueue(func(request reconcile.Request) { calls <- request })
		q.start()
		for range 3 {
			q.Add(named("a"))
		}
		synctest.Wait()
		for range 2 {
			q.Add(named("a")) // while it is reconciled: once more, after it
		}
		<-calls
		<-calls
		synctest.Wait()
		select {
		case <-calls:
			t.Fatal("a request was reconciled too often")
		default:
		}
		q.stop()
	})
}

func TestAQueueTakesNewRequestsBeforeThoseOfTheFirstList(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var mu sync.Mutex
		var order []string
		gate := make(chan struct{})
		q := newQueue(func(request reconcile.Request) {
			<-gate
			mu.Lock()
			defer mu.Unlock()
			order = append(order, request.Name)
		})
		q.start()
		for i := range concurrency {
			q.Add(named(string(rune('A' + i))))
		}
		first := priorityqueue.AddOpts{Priority: new(-100)}
		q.AddWithOpts(first, named("old"), named("changed"))
		q.Add(named("new"))
		q.Add(named("changed"))
		for range concurrency {
			gate <- struct{}{}
			synctest.Wait()
		}
		for range 3 {
			gate <- struct{}{}
			synctest.Wait()
		}
		require.Equal(t, "old", order[len(order)-1])
		require.Len(t, order, concurrency+3)
	})
}

func TestAQueueAddsLaterAtTheEarliestTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pass := func(after time.Duration) {
			time.Sleep(after)
			synctest.Wait()
		}
		began := time.Now()
		var at []time.Duration
		q := newQueue(func(reconcile.Request) { at = append(at, time.Since(began)) })
		q.start()
		q.AddAfter(named("a"), time.Minute)
		q.AddAfter(named("a"), time.Second)
		q.AddAfter(named("a"), time.Hour)
		pass(2 * time.Hour)
		require.Equal(t, []time.Duration{time.Second}, at)

		q.AddAfter(named("a"), time.Minute)
		q.Add(named("a"))
		pass(time.Hour)
		require.Len(t, at, 2, "an earlier addition replaces a later one")

		began, at = time.Now(), nil
		for range 3 {
			q.AddRateLimited(named("b"))
			pass(time.Second)
		}
		require.Equal(t, []time.Duration{5 * time.Millisecond, time.Second + 10*time.Millisecond, 2*time.Second + 20*time.Millisecond}, at)
		q.Forget(named("b"))

		q.AddAfter(named("a"), time.Minute)
		q.stop()
		pass(time.Hour)
		require.Len(t, at, 3, "nothing is reconciled after the end")
	})
}
