package kit

import (
	"maps"
	"reflect"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/objects"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// publishInterval is the minimum time between two writes of the status of an object. It grows by publishGrowth with each write of a run, up to
	// longestPublishInterval, so that a long run does not fill its history.
	publishInterval        = time.Second
	publishGrowth          = 20 * time.Millisecond
	longestPublishInterval = 30 * time.Second
	// progressPause is how much longer a change waits that is only progress.
	progressPause = 9 * time.Second
	// afterLocalFailure is the time without local activities after one has failed.
	afterLocalFailure = 10 * time.Minute
)

// Publisher writes the status of a workflow to the object from which it was started. It coalesces changes, and always writes the last one.
type Publisher struct {
	// Object that shows the status; nil: the workflow was started without one, and nothing is published.
	Object *temporal.Object
	// Current returns the status of the object, which does not change afterwards.
	Current func() any
	// Lasts reports whether the status is likely to stay: one that is over at once is not written. Nil: every status stays.
	Lasts func() bool
	// Progress reports whether a status differs from the last written one only by progress, such as counts of pods, which may be shown later; nil: it never does.
	Progress func(last, now any) bool
	// ByQuery: the status is too large for an input. The workflow answers temporal.QueryObjectStatus with it.
	ByQuery bool
	// Local: writes are local activities. The rest of the workflow waits for them, at most for LocalTimeout.
	Local bool
	// Retrier of the writes.
	Retrier Retrier
	// State passes to the next run.
	State PublisherState

	changed bool
	changes int  // counts the requests for a write
	open    bool // the object may be written
	gone    bool // the object no longer exists
	writing bool
	paused  bool
	cancel  workflow.CancelFunc // ends the write in progress
	stop    workflow.CancelFunc // ends Run
	last    any                 // the last written status
	// interval is the minimum time between two writes, and next the earliest time of the next one, unless the change is urgent.
	interval time.Duration
	next     time.Time
	urgent   bool
	// localAfter is when a write may be a local activity again.
	localAfter time.Time
}

// PublisherState is what a publisher has to write beside the status.
type PublisherState struct {
	// Events that are not recorded yet. LastEvent is the number of the latest one.
	Events    []events.ObjectEvent `json:"events,omitempty"`
	LastEvent int32                `json:"lastEvent,omitempty"`
	// OnNodes are Events on nodes that are not recorded yet.
	OnNodes []events.NodeEvent `json:"onNodes,omitempty"`
	// Annotations to set on the object.
	Annotations map[string]string `json:"annotations,omitempty"`
	// Delete: the object is deleted with the last write.
	Delete bool `json:"delete,omitempty"`
}

// Open starts the writes: the workers that serve the cluster are known.
func (p *Publisher) Open() { p.open = true }

// Close ends the writes. What is shown stays.
func (p *Publisher) Close() { p.gone = true }

// Gone reports whether the object no longer exists, or the writes were closed.
func (p *Publisher) Gone() bool { return p.gone }

// Change requests a write.
func (p *Publisher) Change() {
	p.changed = true
	p.changes++
}

// ChangeNow requests a write without a pause: others wait for this status.
func (p *Publisher) ChangeNow() {
	p.Change()
	p.urgent = true
}

// Event records an Event on the object with the next write.
func (p *Publisher) Event(ctx workflow.Context, warning bool, reason, message string) {
	if p.Object == nil {
		return
	}
	p.State.LastEvent++
	p.State.Events = append(p.State.Events, events.ObjectEvent{Number: p.State.LastEvent, Warning: warning, Reason: reason, Message: message, At: workflow.Now(ctx)})
	p.Change()
}

// OnNode records an Event on a node with the next write, without a pause: others wait for it.
func (p *Publisher) OnNode(event events.NodeEvent) {
	p.State.OnNodes = append(p.State.OnNodes, event)
	p.ChangeNow()
}

// Annotate sets an annotation of the object with the next write.
func (p *Publisher) Annotate(key, value string) {
	if p.State.Annotations == nil {
		p.State.Annotations = map[string]string{}
	}
	p.State.Annotations[key] = value
	p.Change()
}

// Run publishes changes until ctx is cancelled. Run it in its own coroutine: while the API server refuses writes, the work continues.
func (p *Publisher) Run(ctx workflow.Context) {
	if p.Object == nil {
		return
	}
	ctx, p.stop = workflow.WithCancel(ctx)
	for p.awaitChange(ctx) == nil && !p.gone {
		slow := p.onlyProgress()
		rest := p.next.Sub(workflow.Now(ctx))
		if slow {
			rest += progressPause
		}
		if rest > 0 && !p.urgent {
			seen := p.changes
			if AwaitFor(ctx, rest, "gather changes of the status", func() bool {
				switch {
				case p.urgent, p.gone, !p.mayPublish(): // the status may have become one that is over at once
					return true
				case !slow, p.changes == seen:
					return false
				}
				seen = p.changes
				return !p.onlyProgress()
			}) != nil {
				return
			}
			continue
		}
		if p.urgent = false; p.publish(ctx, false) {
			p.interval = min(max(publishInterval, p.interval+publishGrowth), longestPublishInterval)
			p.next = workflow.Now(ctx).Add(p.interval)
		}
	}
}

// awaitChange waits for a change that may be published. One that is not urgent may become one that is over at once, which is not written. So the rest of the
// workflow runs again before a timer starts: one that is started and cancelled is two events.
func (p *Publisher) awaitChange(ctx workflow.Context) error {
	ready := func() bool { return p.mayPublish() || p.gone }
	for {
		if err := workflow.Await(ctx, ready); err != nil || p.urgent || p.gone {
			return err
		}
		if err := yield(ctx); err != nil || ready() {
			return err
		}
	}
}

// yield gives every other coroutine another turn.
func yield(ctx workflow.Context) error {
	yielded := false
	workflow.GoNamed(ctx, "yield", func(workflow.Context) { yielded = true })
	return workflow.Await(ctx, func() bool { return yielded })
}

// mayPublish reports whether a change waits for its write, and the object may be written.
func (p *Publisher) mayPublish() bool {
	return p.changed && p.open && !p.writing && !p.paused && (p.Lasts == nil || p.Lasts())
}

// onlyProgress reports whether nothing but progress waits to be written.
func (p *Publisher) onlyProgress() bool {
	return p.Progress != nil && p.last != nil && !p.State.pending() && p.Progress(p.last, p.Current())
}

// pending reports whether there is more to write than the status.
func (s PublisherState) pending() bool {
	return len(s.Events) > 0 || len(s.OnNodes) > 0 || len(s.Annotations) > 0
}

// Pause ends the write in progress and starts no other, so that the run can continue as new: the API server may refuse writes for long. The next run publishes
// the status again, and so does this one after Resume.
func (p *Publisher) Pause(ctx workflow.Context) {
	p.paused = true
	if p.writing {
		p.cancel()
	}
	_ = workflow.Await(ctx, func() bool { return !p.writing })
}

// Resume ends a pause.
func (p *Publisher) Resume() { p.paused = false }

// Stop ends Run, and its timer with it. No write may be in progress.
func (p *Publisher) Stop() {
	if p.stop != nil {
		p.stop()
	}
}

// Finish publishes the last status, and releases the object if it is being deleted. It retries until it succeeds or the object is gone.
func (p *Publisher) Finish(ctx workflow.Context) {
	p.Pause(ctx)
	p.Stop()
	if p.Object != nil && p.open && !p.gone && ctx.Err() == nil {
		p.publish(ctx, true)
	}
}

// publish writes what has changed since the last write, and reports whether something had.
func (p *Publisher) publish(ctx workflow.Context, final bool) bool {
	p.changed = false
	status := p.Current()
	//workflowcheck:ignore the order of a comparison does not matter
	unchanged := reflect.DeepEqual(status, p.last)
	if !final && unchanged && !p.State.pending() {
		return false
	}
	p.writing = true
	ctx, p.cancel = workflow.WithCancel(ctx)
	defer func() { p.writing = false }()
	written := p.State
	p.State = PublisherState{LastEvent: written.LastEvent, Delete: written.Delete}
	var result objects.PublishStatusResult
	var activities *objects.Activities
	in := objects.PublishStatusInput{
		Object: *p.Object, Status: status, Annotations: written.Annotations, Events: written.Events, OnNodes: written.OnNodes, Final: final, Delete: written.Delete,
	}
	if p.ByQuery {
		in.Status = nil
	}
	if err := p.write(ctx, activities.PublishStatus, in, &result); err != nil {
		if ctx.Err() != nil { // it is written after the pause, or by the next run
			p.changed = true
			p.State.Events = append(written.Events, p.State.Events...)
			p.State.OnNodes = append(written.OnNodes, p.State.OnNodes...)
			p.State.Annotations = merged(written.Annotations, p.State.Annotations)
		}
		return true // cancelled, or refused finally: the work does not depend on it
	}
	p.last, p.gone = status, p.gone || result.Gone // it may have been closed meanwhile
	return true
}

// write writes as a local activity, unless the last one has failed a short time ago: an API server that is slow for one write is slow for others.
func (p *Publisher) write(ctx workflow.Context, activity, in, result any) error {
	const summary = "publish the status"
	if now := workflow.Now(ctx); p.Local && !now.Before(p.localAfter) {
		if p.Retrier.RunLocal(ctx, summary, activity, in, result) {
			return nil
		}
		p.localAfter = now.Add(afterLocalFailure)
	}
	return p.Retrier.Run(ctx, summary, activity, in, result)
}

// merged returns the entries of both maps; those of the later one count.
func merged(earlier, later map[string]string) map[string]string {
	if len(earlier) == 0 {
		return later
	}
	all := maps.Clone(earlier)
	//workflowcheck:ignore the order of a copy does not matter
	maps.Copy(all, later)
	return all
}
