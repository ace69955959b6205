package bench

import (
	"encoding/json"
	"runtime"
	"strings"
	"syscall"
	"time"
)

const (
	// probePause is the time between two probes.
	probePause = time.Second
	// threadUsage is RUSAGE_THREAD, which package syscall lacks.
	threadUsage = 1
)

// startProbes measures the speed of the machine until stop is called, which returns the CPU time of each probe. Other machines may share the processors of
// this one: its speed then changes within minutes. What a method slows down itself, by keeping the caches busy, is measured, too.
func startProbes() (stop func() []time.Duration) {
	ended, result := make(chan struct{}), make(chan []time.Duration)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		took := []time.Duration{probe()}
		for {
			select {
			case <-ended:
				result <- took
				return
			case <-time.After(probePause):
				took = append(took, probe())
			}
		}
	}()
	return func() []time.Duration {
		close(ended)
		return <-result
	}
}

// probed is a document like the objects that API servers decode and encode all the time.
var probed = []byte(`{"items": [` + strings.Repeat(`{"metadata": {"name": "worker-1", "labels": {"app": "work"}}, "spec": {"ports": [1, 2, 3]}}, `, 100) + `{}]}`)

// probe returns the CPU time of a computation that is always the same.
func probe() time.Duration {
	before := threadCPU()
	for range 10 {
		var document any
		if err := json.Unmarshal(probed, &document); err != nil {
			panic(err) // it is valid
		}
		if _, err := json.Marshal(document); err != nil {
			panic(err)
		}
	}
	return threadCPU() - before
}

// threadCPU is the CPU time of this thread.
func threadCPU() time.Duration { return usedCPU(threadUsage) }

// usedCPU is the CPU time in user and system mode of this process or thread.
func usedCPU(who int) time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(who, &used); err != nil {
		panic(err) // only invalid arguments fail
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}
