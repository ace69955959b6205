package faultproxy

import (
	"math/rand/v2"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Match selects requests by the attributes that Kubernetes gives them. An empty field matches all.
type Match struct {
	// Verbs, such as get, list, watch, create, patch and delete; see Writes.
	Verbs []string
	// Resource is plural, with the subresource if any: "nodes", "nodes/status", "pods/eviction".
	Resource string
	// Namespace and Name of the object; the name is a pattern of package path. A create has the name of its object only in the body, unless it
	// creates a subresource.
	Namespace, Name string
	// Body is a part of the request body.
	Body string
	// UserAgent is a prefix of the client's User-Agent header.
	UserAgent string
}

// Writes are the verbs that change objects.
func Writes() []string { return []string{"create", "update", "patch", "delete", "deletecollection"} }

func (m Match) matches(r *request) bool {
	return (len(m.Verbs) == 0 || slices.Contains(m.Verbs, r.verb)) &&
		(m.Resource == "" || m.Resource == r.resource) &&
		(m.Namespace == "" || m.Namespace == r.namespace) &&
		(m.Name == "" || named(m.Name, r.name)) &&
		strings.HasPrefix(r.userAgent, m.UserAgent) &&
		strings.Contains(string(r.body), m.Body)
}

func named(pattern, name string) bool {
	matched, err := path.Match(pattern, name)
	return err == nil && matched
}

// Fault is what happens to a request. The zero value is no fault: the request is only counted.
type Fault struct {
	delay   time.Duration
	status  *metav1.Status
	hangUp  bool
	forward bool // before hangUp
	stop    bool
}

// Delay forwards a request after a delay.
func Delay(by time.Duration) Fault { return Fault{delay: by} }

// Refuse answers instead of the API server, with the code, body and Retry-After of an error of package apierrors.
func Refuse(with apierrors.APIStatus) Fault {
	status := with.Status()
	status.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Status"}
	return Fault{status: &status}
}

// HangUp closes the connection of a request, and with it all other requests on the connection. The API server does not get the request.
func HangUp() Fault { return Fault{hangUp: true} }

// LoseAnswer is HangUp after the API server has answered.
func LoseAnswer() Fault { return Fault{hangUp: true, forward: true} }

// Stop holds a request until the test releases it; see Stopped. If its client disconnects before that, the API server never
// gets the request.
func Stop() Fault { return Fault{stop: true} }

// Rule applies a fault to the requests that match.
type Rule struct {
	Match Match
	Fault Fault
	// After is how many matching requests pass without a fault first.
	After int
	// Times is how many requests get the fault; 0 means all.
	Times int
	// OneIn is N if one in N requests gets the fault, at random, so that a client that repeats its requests does not lose the same one each time. 0
	// and 1 are every request.
	OneIn int
}

// Injection is an active rule.
type Injection struct {
	rule    Rule
	stopped chan *Stopped

	mu                sync.Mutex
	matched, injected int
	// spread selects which of the next requests gets the fault, and selected is its index among them; see Rule.OneIn.
	spread      *rand.Rand
	selected    int
	disconnects []time.Time
	last        *Stopped
	removed     bool
}

// stoppedBuffer is the capacity of the channel Stopped. Further stopped requests wait until it has space.
const stoppedBuffer = 100

func newInjection(rule Rule) *Injection {
	return &Injection{rule: rule, stopped: make(chan *Stopped, stoppedBuffer), spread: rand.New(rand.NewPCG(uint64(rule.OneIn), 0))}
}

// Stopped receives each stopped request once.
func (i *Injection) Stopped() <-chan *Stopped { return i.stopped }

// Pending is the last stopped request if its client still waits, otherwise nil.
func (i *Injection) Pending() *Stopped {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.last == nil {
		return nil
	}
	select {
	case <-i.last.ended:
		return nil
	default:
		return i.last
	}
}

func (i *Injection) setPending(stopped *Stopped) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.last = stopped
}

// Matched is how many requests have matched so far, with or without a fault.
func (i *Injection) Matched() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.matched
}

// Injected is how many requests got the fault so far.
func (i *Injection) Injected() int {
	i.mu.Lock()
	defer i.mu.Unlock()
	return i.injected
}

// Disconnects returns when the rule has closed connections: answers in flight at those times are lost.
func (i *Injection) Disconnects() []time.Time {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.Clone(i.disconnects)
}

func (i *Injection) recordDisconnect() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.disconnects = append(i.disconnects, time.Now())
}

// Remove ends the rule. Stopped requests stay stopped.
func (i *Injection) Remove() {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.removed = true
}

// applies reports whether a request gets the fault, and counts it.
func (i *Injection) applies(r *request) bool {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.removed || !i.rule.Match.matches(r) {
		return false
	}
	i.matched++
	due := i.matched - i.rule.After
	if i.rule.Fault == (Fault{}) || due <= 0 || i.rule.Times > 0 && i.injected >= i.rule.Times || !i.isSelected(due-1) {
		return false
	}
	i.injected++
	return true
}

// isSelected reports whether OneIn selects a request, by the number of requests before it.
func (i *Injection) isSelected(before int) bool {
	if i.rule.OneIn <= 1 {
		return true
	}
	position := before % i.rule.OneIn
	if position == 0 {
		i.selected = i.spread.IntN(i.rule.OneIn)
	}
	return position == i.selected
}

// Stopped is a request that the proxy holds.
type Stopped struct {
	// Verb, Resource, Namespace and Name as in Match.
	Verb, Resource, Namespace, Name string

	forwarding, releasing sync.Once
	forward, release      chan struct{}
	// answered is closed when the API server has answered, ended when the proxy has finished the request.
	answered, ended chan struct{}
}

func newStopped(r *request) *Stopped {
	return &Stopped{
		Verb: r.verb, Resource: r.resource, Namespace: r.namespace, Name: r.name,
		forward: make(chan struct{}), release: make(chan struct{}), answered: make(chan struct{}), ended: make(chan struct{}),
	}
}

// Forward sends the request to the API server and holds its answer until Release. It waits for the answer, and returns false if the client has
// disconnected before.
func (s *Stopped) Forward() bool {
	s.forwarding.Do(func() { close(s.forward) })
	select {
	case <-s.answered:
		return true
	case <-s.ended:
		return false
	}
}

// Release lets the request, or its answer, continue. It may be called more than once.
func (s *Stopped) Release() {
	s.releasing.Do(func() { close(s.release) })
	s.forwarding.Do(func() { close(s.forward) })
}

// Ended is closed when the request is finished: it was answered, or its client has disconnected.
func (s *Stopped) Ended() <-chan struct{} { return s.ended }
