package statuspage

import (
	"cmp"
	"context"
	"errors"
	"maps"
	"reflect"
	"slices"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"

	"drydock.dev/drydock/internal/observe"
)

// Limits per kind of workflow: how many running ones are shown, and how many of those are followed. The others show only their row.
const (
	listed   = 1000
	followed = 200
)

// kind holds the workflows of one type.
type kind[S any] struct {
	reader *Reader
	// workflow is the type; request has the arguments of their status query.
	workflow string
	request  []any
	// keep is the number of ended workflows to keep.
	keep int
	// startsOthers means that such a workflow may start others.
	startsOthers bool
	// show sets the works of a view, with the number of running ones left out.
	show func(v *View, all []Work[S], more int)

	// works by workflow id, and the number of running ones left out; guarded by the reader's lock.
	works map[string]Work[S]
	more  int
	// following has the ids of followed workflows; guarded by mu.
	mu        sync.Mutex
	following map[string]bool
	// retryNow is closed to retry failed reads immediately; nil: none has failed.
	retryNow chan struct{}
	running  sync.WaitGroup
}

// change changes one workflow, unless it was removed.
func (k *kind[S]) change(id string, change func(*Work[S])) {
	k.reader.publish(func(v *View) bool {
		before, shown := k.works[id]
		after := before
		if change(&after); !shown || reflect.DeepEqual(before, after) {
			return false
		}
		k.works[id] = after
		k.show(v, k.sorted(), k.more)
		return true
	})
}

// sorted returns running workflows, newest first, then the last ended ones. It drops the others.
func (k *kind[S]) sorted() []Work[S] {
	sorted := make([]Work[S], 0, len(k.works))
	for _, work := range k.works {
		sorted = append(sorted, work)
	}
	slices.SortFunc(sorted, func(a, b Work[S]) int { return newestFirst(a.Row, b.Row) })
	over := slices.IndexFunc(sorted, func(w Work[S]) bool { return !w.Running() })
	if over < 0 || len(sorted) <= over+k.keep {
		return sorted
	}
	for _, old := range sorted[over+k.keep:] {
		delete(k.works, old.WorkflowID)
	}
	return sorted[:over+k.keep]
}

func newestFirst(a, b observe.Row) int {
	switch {
	case a.CompletedAt == nil && b.CompletedAt == nil:
		return cmp.Or(b.StartedAt.Compare(a.StartedAt), cmp.Compare(a.WorkflowID, b.WorkflowID))
	case a.CompletedAt == nil:
		return -1
	case b.CompletedAt == nil:
		return 1
	}
	return cmp.Or(b.CompletedAt.Compare(*a.CompletedAt), cmp.Compare(a.WorkflowID, b.WorkflowID))
}

// list lists the workflows and follows running ones.
func (k *kind[S]) list(ctx context.Context) error {
	rows, more, err := k.rows(ctx)
	if err != nil {
		return err
	}
	k.reader.publish(func(v *View) bool {
		changed := k.merge(rows) || more != k.more
		if k.more = more; changed {
			k.show(v, k.sorted(), k.more)
		}
		return changed
	})
	for _, row := range rows {
		k.startFollowing(ctx, row)
	}
	return nil
}

// rows returns the newest run of each id that is running or ended last. It lists the newest running workflows and counts the others.
func (k *kind[S]) rows(ctx context.Context) (rows []observe.Row, more int, err error) {
	ofType := observe.WorkflowsOf(k.workflow, false)
	areRunning := observe.WorkflowsOf(k.workflow, true)
	running, err := observe.Executions(ctx, k.reader.temporal, areRunning, listed)
	if err != nil {
		return nil, 0, err
	}
	if len(running) >= listed {
		counted, err := k.reader.temporal.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: areRunning})
		if err != nil {
			return nil, 0, err
		}
		more = max(0, int(counted.GetCount())-len(running))
	}
	over, err := observe.Executions(ctx, k.reader.temporal, ofType+" AND ExecutionStatus != 'Running' AND ExecutionStatus != 'ContinuedAsNew'", k.keep)
	if err != nil {
		return nil, 0, err
	}
	seen := map[string]bool{}
	for _, execution := range slices.Concat(running, over) {
		if row := observe.NewRow(execution); !seen[row.WorkflowID] {
			seen[row.WorkflowID] = true
			rows = append(rows, row)
		}
	}
	return rows, more, nil
}

// merge merges listed rows, and reports whether they changed anything. Visibility lags, so it ignores rows of followed workflows.
func (k *kind[S]) merge(rows []observe.Row) (changed bool) {
	found := map[string]bool{}
	for _, row := range rows {
		found[row.WorkflowID] = true
		work, known := k.works[row.WorkflowID]
		if k.isFollowed(row.WorkflowID) || known && !work.outdatedBy(row) {
			continue
		}
		if row.StartedAt.After(work.StartedAt) {
			work = Work[S]{}
		}
		work.Row = row
		k.works[row.WorkflowID], changed = work, true
	}
	for id, work := range k.works {
		if !found[id] && work.Running() && !k.isFollowed(id) {
			delete(k.works, id)
			changed = true
		}
	}
	return changed
}

// isFollowed reports whether a workflow is followed.
func (k *kind[S]) isFollowed(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.following[id]
}

// startFollowing follows a workflow, or reads its last status, unless it is followed or settled.
func (k *kind[S]) startFollowing(ctx context.Context, row observe.Row) {
	k.reader.mu.Lock()
	work := k.works[row.WorkflowID]
	k.reader.mu.Unlock()
	if work.settled && !row.StartedAt.After(work.StartedAt) {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.following[row.WorkflowID] || len(k.following) >= followed {
		return
	}
	if k.following == nil {
		k.following = map[string]bool{}
	}
	k.following[row.WorkflowID] = true
	k.running.Go(func() {
		k.follow(ctx, row.WorkflowID)
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.following, row.WorkflowID)
	})
}

// wait returns when all followers have stopped.
func (k *kind[S]) wait() { k.running.Wait() }

// follow keeps the status of a workflow up to date until it ends.
func (k *kind[S]) follow(ctx context.Context, id string) {
	pause := retryPause
	for {
		err := k.followToEnd(ctx, id)
		if err == nil || ctx.Err() != nil {
			return
		}
		k.change(id, func(w *Work[S]) {
			if w.Trouble != nil {
				pause = min(2*pause, maxRetryPause)
				return
			}
			k.reader.log.Warn("cannot read the status", "workflow", id, "error", err)
			w.Trouble, pause = &Trouble{Message: "Cannot read its status", Since: time.Now()}, retryPause
		})
		if !k.waitToRetry(ctx, pause) {
			return
		}
	}
}

// waitToRetry waits until the next retry. It returns false if ctx is done.
func (k *kind[S]) waitToRetry(ctx context.Context, pause time.Duration) bool {
	k.mu.Lock()
	if k.retryNow == nil {
		k.retryNow = make(chan struct{})
	}
	retryNow := k.retryNow
	k.mu.Unlock()
	over := time.NewTimer(pause)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-over.C:
	case <-retryNow:
	}
	return true
}

// refresh reads all running workflows again after an outage, and retries failed reads immediately.
func (k *kind[S]) refresh(ctx context.Context) {
	k.mu.Lock()
	if k.retryNow != nil {
		close(k.retryNow)
		k.retryNow = nil
	}
	k.mu.Unlock()
	k.reader.mu.Lock()
	works := slices.Collect(maps.Values(k.works))
	k.reader.mu.Unlock()
	for _, work := range works {
		if !work.Running() || work.Trouble != nil || !k.isFollowed(work.WorkflowID) {
			continue
		}
		k.running.Go(func() {
			if err := k.read(ctx, work.WorkflowID, work.RunID); err != nil && ctx.Err() == nil {
				k.reader.log.Debug("cannot refresh the status", "workflow", work.WorkflowID, "error", err)
			}
		})
	}
}

func (k *kind[S]) followToEnd(ctx context.Context, id string) error {
	described, err := k.reader.temporal.DescribeWorkflowExecution(ctx, id, "")
	if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
		k.forget(id)
		return nil
	}
	if err != nil {
		return err
	}
	info := described.GetWorkflowExecutionInfo()
	row := observe.NewRow(info)
	k.change(id, func(w *Work[S]) { w.update(row, info.GetFirstRunId()) })
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return k.end(ctx, row, info.GetStatus())
	}
	follower := observe.Follower{Server: k.reader.temporal, WorkflowID: id, Read: func(ctx context.Context, runID string) error { return k.read(ctx, id, runID) }}
	if err := follower.Follow(ctx, row.RunID); err != nil {
		return err
	}
	return k.followToEnd(ctx, id)
}

// read reads the status of a workflow.
func (k *kind[S]) read(ctx context.Context, id, runID string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case k.reader.querySlots <- struct{}{}:
	}
	defer func() { <-k.reader.querySlots }()
	var status S
	if err := observe.Status(ctx, k.reader.temporal, id, runID, &status, k.request...); err != nil {
		return err
	}
	k.change(id, func(w *Work[S]) { w.RunID, w.Status, w.Known, w.Trouble = runID, status, true, nil })
	if k.startsOthers {
		signal(k.reader.newWork)
	}
	return nil
}

// end reads the last status of an ended workflow. One that was cut off or failed without a status keeps the last status that was read.
func (k *kind[S]) end(ctx context.Context, row observe.Row, as enumspb.WorkflowExecutionStatus) error {
	var status S
	hasStatus := as != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED && as != enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
	if hasStatus {
		err := observe.LastStatus(ctx, k.reader.temporal, row.WorkflowID, row.RunID, &status)
		if isTemporalError(err) {
			return err
		}
		if hasStatus = err == nil; !hasStatus {
			k.reader.log.Warn("the workflow ended without a status", "workflow", row.WorkflowID, "error", err)
		}
	}
	k.change(row.WorkflowID, func(w *Work[S]) {
		if w.Trouble, w.settled, w.noStatus = nil, true, !hasStatus; hasStatus {
			w.Status, w.Known = status, true
		}
	})
	return nil
}

// isTemporalError reports whether an error comes from Temporal, so that a retry may succeed, and not from the workflow.
func isTemporalError(err error) bool {
	_, ofTemporal := errors.AsType[serviceerror.ServiceError](err)
	return ofTemporal || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// forget removes a workflow that Temporal no longer retains.
func (k *kind[S]) forget(id string) {
	k.reader.publish(func(v *View) bool {
		delete(k.works, id)
		k.show(v, k.sorted(), k.more)
		return true
	})
}
