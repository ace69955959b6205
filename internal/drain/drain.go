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

// minPassInterval is the shortest time between two passes over the node. While many pods leave, they change all the time.
const minPassInterval = 50 * time.Millisecond

// Evictor requests the eviction of a pod once. Its client must not retry, which would sleep inside the call.
type Evictor interface {
	Evict(ctx context.Context, eviction *policyv1.Eviction) error
}

// Watcher calls check, and again after each change of an object of these kinds, until check is done or fails, or ctx is done.
type Watcher interface {
	Await(ctx context.Context, kinds []client.Object, check func(context.Context) (done bool, err error)) error
}

// Drain empties one node.
type Drain struct {
	Node string
	// NodeUID distinguishes the node from a later one with its name; empty: the node that exists at the start.
	NodeUID types.UID
	Spec    maintenancev1.DrainSpec
	// Cordoned: the node was cordoned for the drain. While it is uncordoned, nothing is evicted and the drain continues.
	Cordoned bool
	// Deadline is when the drain times out; nil: never.
	Deadline *time.Time
	// Attempt counts drains of the node from 1: another one follows one that timed out.
	Attempt int32
	// Before is the progress of an earlier run of this attempt or of the attempt before, or nil. Its counts continue.
	Before *maintenancev1.DrainStatus

	// Ours, if not nil, reports whether the node still has our ownership mark. A worker that lost its connection to Temporal does not learn that
	// another worker took over and returned the node to service: it must stop evicting pods.
	Ours func(*corev1.Node) bool
	// Draining, if not nil, reports whether a node is being drained, this one or another: two drains can wait for each other.
	Draining func(*corev1.Node) bool

	// Cache of the cluster's objects, updated by the watches of Watcher.
	Cache   client.Reader
	Watcher Watcher
	// Server reads from the API server, where a stale answer would end the drain.
	Server  client.Reader
	Evictor Evictor
	// Begin, if not nil, is called before the first eviction of a run.
	Begin func(context.Context) error
	// Progress, if not nil, is called when the progress or the wait has changed; a nil wait means none. It is not called before the drain has
	// started: the next run takes any progress as a sign that no pod was refused.
	Progress func(status maintenancev1.DrainStatus, wait *drydockv1.Wait)
	// Measure, if not nil, is called with each progress: how many pods must still leave, and how many of these are blocked. A status names only the
	// first.
	Measure func(remaining, blocked int)
}

// Run evicts the pods that must leave, never deletes one, and returns when they are gone: deleted, or replaced under another UID. It may be
// interrupted at any moment and run again. Errors: InvalidSpec; PodsNotEvictable, before any eviction, and DrainTimedOut, both with the blocking
// pods, the gravest first; NodeGone; NodeBusy if the node no longer has our mark.
func (d Drain) Run(ctx context.Context) (maintenancev1.DrainStatus, error) {
	rules, err := newRules(d.Spec)
	if err != nil {
		return maintenancev1.DrainStatus{}, err
	}
	ctx, cancel := context.WithCancel(ctx)
	r := &run{
		Drain: d, rules: rules, requests: newRequests(d.Attempt, d.Before), progress: newProgress(d.Attempt, d.Before),
		changed: make(chan struct{}, 1), watchFailed: make(chan error, 1), answers: make(chan evictionResult), budgetsWatched: map[string]bool{},
	}
	r.watch(ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: r.Node}}, &corev1.Pod{Spec: corev1.PodSpec{NodeName: r.Node}})
	err = r.loop(ctx)
	if r.begun {
		r.reportProgress()
	}
	cancel()
	r.running.Wait()
	return r.progress.status, err
}

// run is one run of a drain. Only its loop touches the state; watches and evictions report over channels.
type run struct {
	Drain
	rules    rules
	requests *requests
	progress *progress
	begun    bool
	lastPass time.Time

	running     sync.WaitGroup
	changed     chan struct{}
	watchFailed chan error
	answers     chan evictionResult
	// budgetsWatched are the namespaces whose budgets wake the loop.
	budgetsWatched map[string]bool
	// deadlockSearched is when a deadlock was last searched for.
	deadlockSearched time.Time
	// unhealthy are the pods that budgets lack, by budget, and unhealthyRead is when they were read.
	unhealthy     map[string]string
	unhealthyRead time.Time
}

// evictionResult is the result of a pod's eviction.
type evictionResult struct {
	pod types.UID
	err error
}

func (r *run) loop(ctx context.Context) error {
	for {
		r.lastPass = time.Now()
		preview, err := r.inspect(ctx, cached)
		if err == nil && r.over(preview) {
			// The cache may lack a pod that was bound right before the node was cordoned.
			preview, err = r.inspect(ctx, confirmed)
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
		if err := r.searchDeadlock(ctx); err != nil {
			return err
		}
		next := r.evict(ctx, preview)
		r.reportProgress()
		if err := r.pause(ctx, earliest(next, r.nextSkip(preview))); err != nil {
			return err
		}
	}
}

// view is which reads may come from the cache.
type view int

const (
	// cached reads everything from the cache.
	cached view = iota
	// confirmed reads the node and its pods from the API server.
	confirmed
	// actual reads everything from the API server.
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

// inspect reads the node and decides about its pods. Error NodeGone: its pods are gone too.
func (r *run) inspect(ctx context.Context, v view) (Preview, error) {
	snapshot, err := r.read(ctx, v)
	if err != nil {
		return Preview{}, err
	}
	gone := snapshot.Node == nil || r.NodeUID != "" && snapshot.Node.UID != r.NodeUID
	uncordoned := r.Cordoned && !gone && !snapshot.Node.Spec.Unschedulable
	if v == cached && (gone || !r.ours(snapshot.Node) || uncordoned && r.progress.uncordoned == nil) {
		return r.inspect(ctx, confirmed)
	}
	if gone {
		return Preview{}, temporal.Error(temporal.ErrNodeGone, fmt.Sprintf("drain %s: the node has been deleted", r.Node), nil)
	}
	if !r.ours(snapshot.Node) {
		return Preview{}, temporal.Error(temporal.ErrNodeBusy, fmt.Sprintf("drain %s: the node no longer has the ownership mark of this maintenance", r.Node), nil)
	}
	r.NodeUID = snapshot.Node.UID
	r.cordoned(!uncordoned)
	if err := r.nameUnhealthy(ctx, &snapshot); err != nil {
		return Preview{}, err
	}
	preview := r.rules.decide(ctx, snapshot, time.Now())
	r.requests.meet(preview.remaining())
	r.requests.holdReturned(preview.Pods)
	r.progress.observe(snapshot.Node, preview, r.requests, time.Now())
	return preview, nil
}

func (r *run) ours(node *corev1.Node) bool { return r.Ours == nil || r.Ours(node) }

// over reports whether no pod must leave, and none can arrive.
func (r *run) over(preview Preview) bool {
	return len(preview.remaining()) == 0 && r.progress.uncordoned == nil
}

// cordoned records whether the node is cordoned, if it has to be.
func (r *run) cordoned(is bool) {
	switch {
	case is && r.progress.uncordoned != nil:
		r.progress.uncordoned = nil
		r.requests.forgetReturns()
	case !is:
		r.progress.uncordoned = uncordonedNode(r.Node, "no pod is evicted, because it may return")
	}
}

// begin refuses a drain that cannot succeed before the first eviction, and announces any other. Later, the drain only waits for a pod that may not be
// evicted (for example one that tolerates the cordon): giving up does not undo evictions.
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
	// The cache's kinds come from separate watches: it may have a pod before its DaemonSet.
	if _, err := r.inspect(ctx, actual); err != nil {
		return err
	}
	refused := r.progress.refused()
	if len(refused) == 0 {
		return nil
	}
	return temporal.Error(temporal.ErrPodsNotEvictable, fmt.Sprintf("drain %s: %s", r.Node, summarize(refused)), nil, blockers(gravestFirst(refused))...)
}

// evict requests the eviction of every pod that is due, without waiting for the answers. The Evictor limits how many run at once, over all the drains
// of a cluster. It returns the time of the next pass.
func (r *run) evict(ctx context.Context, preview Preview) time.Time {
	if r.progress.uncordoned != nil {
		return time.Time{}
	}
	due, next := r.requests.due(preview.remaining(), time.Now())
	for _, decision := range due {
		doubtful := r.requests.unknownResult(decision.pod.UID)
		r.requests.sent(decision, time.Now())
		r.running.Go(func() {
			err := r.evictOne(ctx, decision.pod, doubtful)
			select {
			case r.answers <- evictionResult{decision.pod.UID, err}:
			case <-ctx.Done():
			}
		})
	}
	return next
}

// evictOne requests one eviction. If the result of an earlier request is unknown, because the API server failed or the answer was lost, it reads the
// pod first: the cache may not know yet that it is terminating.
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

// evictionOf has the UID of the pod as a precondition, so that a new pod with the same name is safe. The pod's own grace period applies.
func evictionOf(pod *corev1.Pod) *policyv1.Eviction {
	return &policyv1.Eviction{
		ObjectMeta:    metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name},
		DeleteOptions: &metav1.DeleteOptions{Preconditions: metav1.NewUIDPreconditions(string(pod.UID))},
	}
}

func (r *run) reportProgress() {
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

// nextSkip is when the drain stops waiting for the next terminating pod; zero: never.
func (r *run) nextSkip(preview Preview) (next time.Time) {
	for _, decision := range preview.remaining() {
		if until, ok := r.rules.awaitedUntil(decision.pod); ok {
			next = earliest(next, until)
		}
	}
	return next
}

func (r *run) expired() bool { return r.Deadline != nil && !time.Now().Before(*r.Deadline) }

// timeOut reads the actual state once before it reports a timeout.
func (r *run) timeOut(ctx context.Context) error {
	preview, err := r.inspect(ctx, confirmed)
	if err != nil || r.over(preview) {
		return err
	}
	message, left := r.progress.blocking()
	return temporal.Error(temporal.ErrDrainTimedOut, fmt.Sprintf("drain %s: %s", r.Node, message), nil, left...)
}
