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

// Of very many workflows of a kind that run so many are shown, and so many of those are followed; of the others there is what Temporal lists.
const (
	listed   = 1000
	followed = 200
)

// kind is a kind of workflows that are shown.
type kind[S any] struct {
	reader *Reader
	// workflow is the type, request what their status query gets.
	workflow string
	request  []any
	// keep is how many are kept of those that are over.
	keep int
	// brings: when one gets on, others may begin.
	brings bool
	// show makes them part of a view, with how many more run.
	show func(v *View, all []Work[S], more int)

	// works by workflow id, and how many more run; guarded by the reader's lock.
	works map[string]Work[S]
	more  int
	// followers at work.
	mu        sync.Mutex
	following map[string]bool
	// again is closed when what has failed is to be tried again; nil: nothing has.
	again   chan struct{}
	running sync.WaitGroup
}

// change changes one of them. One that is not there, because it was over for long, does not come back so.
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

// sorted are those that run, the newest first, then those that ended last. The others are forgotten.
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

// list finds out which there are, and follows those that run.
func (k *kind[S]) list(ctx context.Context) error {
	rows, more, err := k.rows(ctx)
	if err != nil {
		return err
	}
	k.reader.publish(func(v *View) bool {
		news := k.merge(rows) || more != k.more
		if k.more = more; news {
			k.show(v, k.sorted(), k.more)
		}
		return news
	})
	for _, row := range rows {
		k.attend(ctx, row)
	}
	return nil
}

// rows are those that run and those that ended last, as Temporal lists them: of each id the newest run. Of very many that run the newest are listed,
// and the others counted.
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

// merge takes over what was listed, and reports whether that is news. Lists lag behind: what a follower has seen counts more.
func (k *kind[S]) merge(rows []observe.Row) (news bool) {
	found := map[string]bool{}
	for _, row := range rows {
		found[row.WorkflowID] = true
		work, known := k.works[row.WorkflowID]
		if k.attended(row.WorkflowID) || known && !work.outdatedBy(row) {
			continue
		}
		if row.StartedAt.After(work.StartedAt) {
			work = Work[S]{}
		}
		work.Row = row
		k.works[row.WorkflowID], news = work, true
	}
	for id, work := range k.works {
		if !found[id] && work.Running() && !k.attended(id) {
			delete(k.works, id)
			news = true
		}
	}
	return news
}

// attended reports whether somebody follows a workflow.
func (k *kind[S]) attended(id string) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.following[id]
}

// attend follows a workflow, or reads how it ended, unless somebody does or that is known.
func (k *kind[S]) attend(ctx context.Context, row observe.Row) {
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

// wait returns when nobody follows any more.
func (k *kind[S]) wait() { k.running.Wait() }

// follow keeps the status of a workflow until it is over.
func (k *kind[S]) follow(ctx context.Context, id string) {
	pause := retryPause
	for {
		err := k.followToEnd(ctx, id)
		if err == nil || ctx.Err() != nil {
			return
		}
		k.change(id, func(w *Work[S]) {
			if w.Trouble != nil {
				pause = min(2*pause, retryAtMost)
				return
			}
			k.reader.log.Warn("cannot read the status", "workflow", id, "error", err)
			w.Trouble, pause = &Trouble{Message: "Its status cannot be read", Since: time.Now()}, retryPause
		})
		if !k.waitToRetry(ctx, pause) {
			return
		}
	}
}

// waitToRetry waits until something that has failed may be tried again. False: ctx is done.
func (k *kind[S]) waitToRetry(ctx context.Context, pause time.Duration) bool {
	k.mu.Lock()
	if k.again == nil {
		k.again = make(chan struct{})
	}
	again := k.again
	k.mu.Unlock()
	over := time.NewTimer(pause)
	defer over.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-over.C:
	case <-again:
	}
	return true
}

// lookAgain looks at all that run: they may have changed while nothing answered. What has failed is tried again at once.
func (k *kind[S]) lookAgain(ctx context.Context) {
	k.mu.Lock()
	if k.again != nil {
		close(k.again)
		k.again = nil
	}
	k.mu.Unlock()
	k.reader.mu.Lock()
	works := slices.Collect(maps.Values(k.works))
	k.reader.mu.Unlock()
	for _, work := range works {
		if !work.Running() || work.Trouble != nil || !k.attended(work.WorkflowID) {
			continue
		}
		k.running.Go(func() {
			if err := k.look(ctx, work.WorkflowID, work.RunID); err != nil && ctx.Err() == nil {
				k.reader.log.Debug("cannot look again", "workflow", work.WorkflowID, "error", err)
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
	k.change(id, func(w *Work[S]) { w.take(row, info.GetFirstRunId()) })
	if info.GetStatus() != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
		return k.end(ctx, row, info.GetStatus())
	}
	follower := observe.Follower{Server: k.reader.temporal, WorkflowID: id, Look: func(ctx context.Context, runID string) error { return k.look(ctx, id, runID) }}
	if err := follower.Follow(ctx, row.RunID); err != nil {
		return err
	}
	return k.followToEnd(ctx, id)
}

// look reads the status of a workflow.
func (k *kind[S]) look(ctx context.Context, id, runID string) error {
	select {
	case <-ctx.Done():
		return ctx.Err()
	case k.reader.asking <- struct{}{}:
	}
	defer func() { <-k.reader.asking }()
	var status S
	if err := observe.Status(ctx, k.reader.temporal, id, runID, &status, k.request...); err != nil {
		return err
	}
	k.change(id, func(w *Work[S]) { w.RunID, w.Status, w.Known, w.Trouble = runID, status, true, nil })
	if k.brings {
		tell(k.reader.news)
	}
	return nil
}

// end reads how a workflow ended. One that was terminated, or timed out, or failed without a word, has left no status: the last one that was seen
// is all there is.
func (k *kind[S]) end(ctx context.Context, row observe.Row, as enumspb.WorkflowExecutionStatus) error {
	var status S
	left := as != enumspb.WORKFLOW_EXECUTION_STATUS_TERMINATED && as != enumspb.WORKFLOW_EXECUTION_STATUS_TIMED_OUT
	if left {
		err := observe.LastStatus(ctx, k.reader.temporal, row.WorkflowID, row.RunID, &status)
		if passing(err) {
			return err
		}
		if left = err == nil; !left {
			k.reader.log.Warn("the workflow has left no status", "workflow", row.WorkflowID, "error", err)
		}
	}
	k.change(row.WorkflowID, func(w *Work[S]) {
		if w.Trouble, w.settled, w.dumb = nil, true, !left; left {
			w.Status, w.Known = status, true
		}
	})
	return nil
}

// passing reports whether it was Temporal that failed, and not the workflow: what it says of the workflow does not change.
func passing(err error) bool {
	_, ofTemporal := errors.AsType[serviceerror.ServiceError](err)
	return ofTemporal || errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)
}

// forget takes away a workflow that Temporal does not know any more.
func (k *kind[S]) forget(id string) {
	k.reader.publish(func(v *View) bool {
		delete(k.works, id)
		k.show(v, k.sorted(), k.more)
		return true
	})
}
