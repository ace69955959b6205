package drain

import (
	"context"
	"time"

	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// watch wakes the loop when one of these objects has changed.
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
	default: // a pass is pending
	}
}

// watchBudgets wakes the loop when a budget changes in a namespace from which pods must leave. A cluster has many more budgets than a node has pods,
// and a budget changes with each of its pods: watching all of them would make every drain of a cluster loop without pause.
func (r *run) watchBudgets(ctx context.Context, preview Preview) {
	for _, decision := range preview.remaining() {
		if !r.budgetsWatched[decision.Namespace] {
			r.budgetsWatched[decision.Namespace] = true
			r.watch(ctx, &policyv1.PodDisruptionBudget{ObjectMeta: metav1.ObjectMeta{Namespace: decision.Namespace}})
		}
	}
}

// pause returns when there is a reason for another pass: a change, an answer to an eviction, or a timer.
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
	case evictionResult := <-r.answers:
		r.requests.answered(evictionResult.pod, evictionResult.err, time.Now())
	}
	return r.gather(ctx)
}

// gather collects further changes until the next pass is due, so that many changes make few passes.
func (r *run) gather(ctx context.Context) error {
	due := time.After(time.Until(r.lastPass.Add(minPassInterval)))
	for {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case evictionResult := <-r.answers:
			r.requests.answered(evictionResult.pod, evictionResult.err, time.Now())
		case <-due:
			return nil
		}
	}
}
