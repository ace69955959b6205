package controller

import (
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/types"
)

const (
	// shortestPace and longestPace are the pauses after a signal to the workflow of an object. Temporal accepts 10,000 signals for a run.
	shortestPace = time.Second
	longestPace  = 5 * time.Minute
)

// pace limits the signals for objects that change all the time: two clients may apply two versions of an object in turn. Other objects have no pause.
type pace struct {
	mu      sync.Mutex
	objects map[types.NamespacedName]signalled
}

// signalled is the last signal for an object, and the pause after it.
type signalled struct {
	at    time.Time
	pause time.Duration
}

// take returns 0 if a signal for an object may be sent now, and notes it. Otherwise it returns the time until then. The pause doubles while the object keeps
// changing.
func (p *pace) take(object types.NamespacedName, now time.Time) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.objects == nil {
		p.objects = map[types.NamespacedName]signalled{}
	}
	last, known := p.objects[object]
	switch since := now.Sub(last.at); {
	case !known || since >= 2*last.pause:
		p.objects[object] = signalled{now, shortestPace}
	case since >= last.pause:
		p.objects[object] = signalled{now, min(2*last.pause, longestPace)}
	default:
		return last.pause - since
	}
	return 0
}

// forget removes an object that no longer exists.
func (p *pace) forget(object types.NamespacedName) {
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.objects, object)
}
