package drain

import (
	"reflect"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// listed is how many pods a status names, so that it stays small.
const listed = 20

// progress is the progress of a drain, and its waits.
type progress struct {
	status maintenancev1.DrainStatus
	wait   *drydockv1.Wait
	// obstacles are all pods that must leave and have not.
	obstacles []obstacle
	// uncordoned is the node while it is not cordoned although it should be; nil: it is cordoned.
	uncordoned *drydockv1.Blocker
	// deadlocks, by budget, as of the last search.
	deadlocks map[string]deadlock

	before maintenancev1.DrainStatus
	// leftBefore is how many pods had left in earlier runs. Negative: unknown.
	leftBefore int
	// seen are the pods that had to leave at any pass of this run.
	seen map[types.UID]bool
	// waits are, by pod, the reason and the start of its wait.
	waits    map[types.UID]waitStart
	reported report
}

type waitStart struct {
	reason Reason
	since  time.Time
}

// report is the last reported status and wait.
type report struct {
	status maintenancev1.DrainStatus
	wait   *drydockv1.Wait
}

func newProgress(attempt int32, before *maintenancev1.DrainStatus) *progress {
	p := &progress{leftBefore: -1, seen: map[types.UID]bool{}, waits: map[types.UID]waitStart{}}
	p.status.Attempt = attempt
	if before != nil {
		p.before = *before
	}
	return p
}

// observe updates the progress with one pass over the node.
func (p *progress) observe(node *corev1.Node, preview Preview, requests *requests, now time.Time) {
	remaining := preview.remaining()
	if p.leftBefore < 0 {
		p.leftBefore = max(0, int(p.before.EvictionPods)-len(remaining))
		p.status.TotalPods = max(p.before.TotalPods, int64(len(preview.Pods)))
	}
	p.obstacles = p.obstacles[:0:0]
	waits := make(map[types.UID]waitStart, len(remaining))
	for _, decision := range remaining {
		p.seen[decision.pod.UID] = true
		o := obstacleOf(decision, requests.byPod[decision.pod.UID], node).in(p.deadlocks)
		o.since = p.waitingSince(o, now)
		waits[decision.pod.UID] = waitStart{o.reason, o.since}
		p.obstacles = append(p.obstacles, o)
	}
	p.waits = waits
	p.count(len(preview.Pods))
}

// waitingSince is when the pod started to wait for its reason, even in an earlier run.
func (p *progress) waitingSince(o obstacle, now time.Time) time.Time {
	if known, ok := p.waits[o.decision.pod.UID]; ok {
		if known.reason == o.reason {
			return known.since
		}
		return now
	}
	for _, blocker := range p.before.Blocked {
		if blocker.Namespace == o.decision.Namespace && blocker.Name == o.decision.Name && blocker.Reason == string(o.reason) && blocker.Since != nil {
			return blocker.Since.Time
		}
	}
	return now
}

func (p *progress) count(current int) {
	remaining := len(p.obstacles)
	toEvict := p.leftBefore + len(p.seen)
	p.status.CurrentPods = int64(current)
	p.status.EvictionPods = int32(toEvict)
	p.status.Evicted = int32(toEvict - remaining)
	p.status.DrainProgress = 100
	if toEvict > 0 {
		p.status.DrainProgress = int32(100 * (toEvict - remaining) / toEvict)
	}
	p.status.WaitForEviction, p.status.Blocked = nil, nil
	for _, o := range p.obstacles[:min(listed, remaining)] {
		p.status.WaitForEviction = append(p.status.WaitForEviction, o.decision.key())
	}
	blocked := blocking(p.obstacles)
	p.status.Blocked = blockers(blocked[:min(listed, len(blocked))])
}

// changed updates the wait, and reports whether there is something new to report.
func (p *progress) changed() bool {
	p.wait = p.currentWait()
	current := report{p.status, p.wait}
	if reflect.DeepEqual(current, p.reported) {
		return false
	}
	p.reported = current
	return true
}

// currentWait is the current wait of the drain. The caller sets Since and Until.
func (p *progress) currentWait() *drydockv1.Wait {
	if p.uncordoned != nil {
		return &drydockv1.Wait{Reason: p.uncordoned.Reason, Message: p.uncordoned.Message, Blockers: []drydockv1.Blocker{*p.uncordoned}}
	}
	if len(p.obstacles) == 0 {
		return nil
	}
	show := blocking(p.obstacles)
	if len(show) == 0 {
		show = p.obstacles
	}
	return &drydockv1.Wait{
		Reason: string(gravestReason(p.obstacles)), Message: summarize(p.obstacles),
		Blockers: blockers(show[:min(listed, len(show))]),
	}
}

// blocking returns the obstacles that keep the drain from finishing, the gravest first.
func (p *progress) blocking() (message string, named []drydockv1.Blocker) {
	if p.uncordoned != nil {
		return p.uncordoned.Message, []drydockv1.Blocker{*p.uncordoned}
	}
	return summarize(p.obstacles), blockers(gravestFirst(p.obstacles))
}
