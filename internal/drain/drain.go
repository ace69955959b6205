package drain

import (
	"context"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// lookInterval is how soon after one look at the node the next may follow. When many pods leave, they change all the time.
const lookInterval = 50 * time.Millisecond

// Evictor asks the API server once to evict a pod. Its retries must be off: they would sleep inside the call.
type Evictor interface {
	Evict(ctx context.Context, eviction *policyv1.Eviction) error
}

// Watcher calls check, and again whenever an object of these kinds has changed, until check is done or fails, or ctx is done.
type Watcher interface {
	Await(ctx context.Context, kinds []client.Object, check func(context.Context) (done bool, err error)) error
}

// Drain empties one node.
type Drain struct {
	Node string
	// NodeUID tells the node from a later one of its name; empty: it is the one that is there at first.
	NodeUID types.UID
	Spec    maintenancev1.DrainSpec
	// Cordoned: the node was cordoned for the drain. While it is not any more, nothing is evicted, and the drain is not over.
	Cordoned bool
	// Deadline is when the drain times out; nil: never.
	Deadline *time.Time
	// Attempt counts drains of the node from 1: another follows one that timed out.
	Attempt int32
	// Before is the progress of an earlier run, of this attempt or the one before, or nil. Its counts go on.
	Before *maintenancev1.DrainStatus

	// Ours, unless nil, reports whether the node is still ours to drain. A worker that is cut off from Temporal does not hear that another has
	// taken over and the node was returned: it must not go on evicting what has come to the node since.
	Ours func(*corev1.Node) bool
	// Draining, unless nil, reports whether a node is being drained, this one or another: two drains can wait for each other.
	Draining func(*corev1.Node) bool

	// Cache of the cluster's objects, kept by the watches of Watcher.
	Cache   client.Reader
	Watcher Watcher
	// Server reads past the cache, wherever a wrong answer would end the drain.
	Server  client.Reader
	Evictor Evictor
	// Begin, unless nil, is called before the first eviction of a run.
	Begin func(context.Context) error
	// Progress, unless nil, is told whenever the progress has changed, or what the drain waits for; nil is nothing. It is told nothing before
	// the drain has begun: a next run that is given a progress takes it that no pod was in the way.
	Progress func(status maintenancev1.DrainStatus, wait *drydockv1.Wait)
	// Measure, unless nil, is told with each progress how many pods must still leave, and how many of these are blocked: a status names only the
	// first.
	Measure func(remaining, blocked int)
}

// Run evicts the pods that must leave, never deletes one, and returns when they are gone: deleted, or running elsewhere under another
// UID. It may be interrupted at any instant and run again. Errors: InvalidSpec; PodsNotEvictable, before anything is evicted, and
// DrainTimedOut, both with the pods that are in the way, the gravest first; NodeGone; NodeBusy when the node is not ours.
func (d Drain) Run(ctx context.Context) (maintenancev1.DrainStatus, error) {
	rules, err := newRules(d.Spec)
	if err != nil {
		return maintenancev1.DrainStatus{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &run{
		Drain: d, rules: rules, requests: newRequests(d.Attempt, d.Before), progress: newProgress(d.Attempt, d.Before),
		changed: make(chan struct{}, 1), watchFailed: make(chan error, 1), answers: make(chan answer), budgetsWatched: map[string]bool{},
	}
	r.watch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Node}}, &corev1.Pod{Spec: corev1.PodSpec{NodeName: r.Node}})
	err = r.loop(ctx)
	if r.begun {
		r.tell()
	}
	cancel()
	r.running.Wait()
	return r.progress.status, err
}

// run is one run of a drain. Only its loop touches the state; watch and evictions tell it by channels.
type run struct {
	Drain
	rules    rules
	requests *requests
	progress *progress
	begun    bool
	looked   time.Time

	running     sync.WaitGroup
	changed     chan struct{}
	watchFailed chan error
	answers     chan answer
	// budgetsWatched are the namespaces whose budgets wake the loop.
	budgetsWatched map[string]bool
	// sought is when a deadlock was last looked for.
	sought time.Time
}

// answer is what became of the eviction of a pod.
type answer struct {
	pod types.UID
	err error
}

func (r *run) loop(ctx context.Context) error {
	for {
		r.looked = time.Now()
		preview, err := r.look(ctx, cached)
		if err == nil && r.over(preview) {
			// The cache may not have seen a pod that was bound right before the node was cordoned.
			preview, err = r.look(ctx, confirmed)
		}
		if err != nil || r.over(preview) {
			return err
		}
		if r.expired() {
			return r.timeOut(ctx)
		}
		if err := r.begin(ctx); err != nil {
			return err
		}
		r.watchBudgets(ctx, preview)
		if err := r.seekDeadlock(ctx); err != nil {
			return err
		}
		next := r.evict(ctx, preview)
		r.tell()
		if err := r.pause(ctx, earliest(next, r.nextSkip(preview))); err != nil {
			return err
		}
	}
}

// view is how far a look trusts the cache.
type view int

const (
	// cached trusts it in everything.
	cached view = iota
	// confirmed asks the API server for the node and its pods.
	confirmed
	// actual asks the API server for everything.
	actual
)

func (r *run) read(ctx context.Context, v view) (Snapshot, error) {
	if v == actual {
		return Read(ctx, r.Server, r.Node)
	}
	reader := r.Server
	if v == cached {
		reader = r.Cache
	}
	return readPods(ctx, reader, r.Cache, r.Node)
}

// look reads the node and decides about its pods. Error NodeGone: its pods are gone with it.
func (r *run) look(ctx context.Context, v view) (Preview, error) {
	snapshot, err := r.read(ctx, v)
	if err != nil {
		return Preview{}, err
	}
	gone := snapshot.Node == nil || r.NodeUID != "" && snapshot.Node.UID != r.NodeUID
	uncordoned := r.Cordoned && !gone && !snapshot.Node.Spec.Unschedulable
	if v == cached && (gone || !r.ours(snapshot.Node) || uncordoned && r.progress.uncordoned == nil) {
		return r.look(ctx, confirmed)
	}
	if gone {
		return Preview{}, temporal.Error(temporal.ErrNodeGone, fmt.Sprintf("drain %s: the node has been deleted", r.Node), nil)
	}
	if !r.ours(snapshot.Node) {
		return Preview{}, temporal.Error(temporal.ErrNodeBusy, fmt.Sprintf("drain %s: the node does not bear our mark any more", r.Node), nil)
	}
	r.NodeUID = snapshot.Node.UID
	r.cordoned(!uncordoned)
	preview := r.rules.decide(ctx, snapshot, time.Now())
	r.requests.meet(preview.remaining())
	r.requests.holdReturned(preview.Pods)
	r.progress.observe(snapshot.Node, preview, r.requests, time.Now())
	return preview, nil
}

func (r *run) ours(node *corev1.Node) bool { return r.Ours == nil || r.Ours(node) }

// over reports whether no pod must leave any more, and none can come.
func (r *run) over(preview Preview) bool {
	return len(preview.remaining()) == 0 && r.progress.uncordoned == nil
}

// cordoned takes in whether the node is cordoned, as far as it has to be.
func (r *run) cordoned(is bool) {
	switch {
	case is && r.progress.uncordoned != nil:
		r.progress.uncordoned = nil
		r.requests.forgetReturns()
	case !is:
		r.progress.uncordoned = uncordonedNode(r.Node, "nothing is evicted, as it may come back")
	}
}

// begin refuses a drain that cannot succeed before the first pod is evicted, and announces any other. Later, a pod that may not be
// evicted (one that tolerates the cordon, say) is only waited for: what was evicted does not come back by giving up.
func (r *run) begin(ctx context.Context) error {
	if r.begun {
		return nil
	}
	if r.Before == nil && r.Attempt <= 1 {
		if err := r.refuse(ctx); err != nil {
			return err
		}
	}
	r.begun = true
	if r.Begin == nil {
		return nil
	}
	return r.Begin(ctx)
}

func (r *run) refuse(ctx context.Context) error {
	if len(r.progress.refused()) == 0 {
		return nil
	}
	// The cache's kinds come by separate watches: a pod can be there before its DaemonSet.
	if _, err := r.look(ctx, actual); err != nil {
		return err
	}
	refused := r.progress.refused()
	if len(refused) == 0 {
		return nil
	}
	return temporal.Error(temporal.ErrPodsNotEvictable, fmt.Sprintf("drain %s: %s", r.Node, summarize(refused)), nil, blockers(gravestFirst(refused))...)
}

// evict asks for every pod that is due, without waiting for the answers: how many are under way at once is the Evictor's to say, for all the drains of
// a cluster. It returns when to look again.
func (r *run) evict(ctx context.Context, preview Preview) time.Time {
	if r.progress.uncordoned != nil {
		return time.Time{}
	}
	due, next := r.requests.due(preview.remaining(), time.Now())
	for _, decision := range due {
		doubtful := r.requests.doubtful(decision.pod.UID)
		r.requests.sent(decision, time.Now())
		r.running.Go(func() {
			err := r.evictOne(ctx, decision.pod, doubtful)
			select {
			case r.answers <- answer{decision.pod.UID, err}:
			case <-ctx.Done():
			}
		})
	}
	return next
}

// evictOne asks for a pod once. Where it is not known what became of the eviction before, as the API server failed or its answer was lost, the pod is read
// first: the cache may not have heard that it terminates.
func (r *run) evictOne(ctx context.Context, pod *corev1.Pod, doubtful bool) error {
	if doubtful {
		var now corev1.Pod
		if err := r.Server.Get(ctx, client.ObjectKeyFromObject(pod), &now); err != nil {
			return err
		}
		if now.UID != pod.UID || !now.DeletionTimestamp.IsZero() {
			return nil
		}
	}
	return r.Evictor.Evict(ctx, evictionOf(pod))
}

// evictionOf names the very pod: one that has taken its name since is not meant. The pod's own grace period stands.
func evictionOf(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
}

func (r *run) tell() {
	if !r.progress.changed() {
		return
	}
	if r.Progress != nil {
		r.Progress(r.progress.status, r.progress.wait)
	}
	if r.Measure != nil {
		r.Measure(len(r.progress.obstacles), len(blocking(r.progress.obstacles)))
	}
}

// nextSkip is when the next terminating pod is no longer waited for; zero if none is.
func (r *run) nextSkip(preview Preview) (next time.Time) {
	for _, decision := range preview.remaining() {
		if until, ok := r.rules.awaitedUntil(decision.pod); ok {
			next = earliest(next, until)
		}
	}
	return next
}

// pause returns when there is reason to look again: something changed, an eviction was answered, or the time has come.
func (r *run) pause(ctx context.Context, next time.Time) error {
	if r.Deadline != nil {
		next = earliest(next, *r.Deadline)
	}
	var timer <-chan time.Time
	if !next.IsZero() {
		timer = time.After(time.Until(next))
	}
	select {
	case <-ctx.Done():
		return ctx.Err()
	case err := <-r.watchFailed:
		return err
	case <-r.changed:
	case <-timer:
	case answer := <-r.answers:
		r.requests.answered(answer.pod, answer.err, time.Now())
	}
	return r.gather(ctx)
}

// gather takes in what else happens until the next look is due, so that much change makes few looks.
func (r *run) gather(ctx context.Context) error {
	due := time.After(time.Until(r.looked.Add(lookInterval)))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case answer := <-r.answers:
			r.requests.answered(answer.pod, answer.err, time.Now())
		case <-due:
			return nil
		}
	}
}

func (r *run) expired() bool { return r.Deadline != nil && !time.Now().Before(*r.Deadline) }

// timeOut looks once more at what is really there before it calls the drain timed out.
func (r *run) timeOut(ctx context.Context) error {
	preview, err := r.look(ctx, confirmed)
	if err != nil || r.over(preview) {
		return err
	}
	message, left := r.progress.inTheWay()
	return temporal.Error(temporal.ErrDrainTimedOut, fmt.Sprintf("drain %s: %s", r.Node, message), nil, left...)
}

// watch wakes the loop whenever one of these has changed.
func (r *run) watch(ctx context.Context, kinds ...client.Object) {
	r.running.Go(func() {
		err := r.Watcher.Await(ctx, kinds, func(context.Context) (bool, error) {
			r.wake()
			return false, nil
		})
		select {
		case r.watchFailed <- err:
		case <-ctx.Done():
		}
	})
}

func (r *run) wake() {
	select {
	case r.changed <- struct{}{}:
	default: // a look is due already
	}
}

// watchBudgets wakes the loop when a budget changes in a namespace from which pods must leave. A cluster has many more budgets than a node has
// pods, and each of them changes whenever one of its pods does: all drains of a cluster would look at their nodes all the time.
func (r *run) watchBudgets(ctx context.Context, preview Preview) {
	for _, decision := range preview.remaining() {
		if !r.budgetsWatched[decision.Namespace] {
			r.budgetsWatched[decision.Namespace] = true
			r.watch(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: decision.Namespace}})
		}
	}
}
