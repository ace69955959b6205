package health

import (
	"context"
	"fmt"
	"math"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// gateWait waits until a health gate opens.
type gateWait struct {
	waits   activitykit.Waits
	cluster *kube.Cluster
	// subject of the gate, for example "node worker-1".
	subject string
	kinds   []client.Object
	gate    health.Gate
	// evaluate returns a result for each check of the gate.
	evaluate func(objects) ([]health.Result, error)
	// waiting, unless nil, is called whenever the gate stays closed.
	waiting func()
}

// run evaluates the gate when an object changes, and at the times that the gate requests. Errors: HealthGateFailed, and those of evaluate.
func (w *gateWait) run(ctx context.Context) error {
	alarm := time.NewTimer(math.MaxInt64)
	defer alarm.Stop()
	return w.waits.AwaitAlarm(ctx, alarm.C, w.cluster, w.kinds, func(ctx context.Context) (temporal.Observation, bool, error) {
		decision, err := w.decide(ctx)
		if err != nil {
			return temporal.Observation{}, false, err
		}
		if decision.Verdict == health.Waiting && w.waiting != nil {
			w.waiting()
		}
		if decision.RecheckAt != nil {
			alarm.Reset(decision.RecheckAt.Sub(temporal.Now(ctx)))
		}
		return temporal.Observation{Cluster: w.cluster.Name, Wait: decision.Wait}, decision.Verdict == health.Open, w.failure(decision)
	})
}

// decide evaluates the cache while the gate waits. The cache of a broken watch is outdated, so the gate opens or fails only on objects from the API
// server.
func (w *gateWait) decide(ctx context.Context) (health.Decision, error) {
	decision, err := w.observe(ObjectsOf(ctx, w.cluster, w.cluster.Cache))
	if err != nil || decision.Verdict == health.Waiting {
		return decision, err
	}
	return w.observe(ObjectsOf(ctx, w.cluster, w.cluster.Client))
}

func (w *gateWait) observe(objects objects) (health.Decision, error) {
	now := temporal.Now(objects.ctx) // before the objects are read, so that none of them is older than it seems
	results, err := w.evaluate(objects)
	if err != nil {
		return health.Decision{}, err
	}
	var decision health.Decision
	w.gate, decision = w.gate.Observe(now, results)
	return decision, nil
}

func (w *gateWait) failure(decision health.Decision) error {
	if decision.Verdict != health.Failed {
		return nil
	}
	message := fmt.Sprintf("health gate of %s failed: %s", w.subject, decision.Wait.Message)
	return temporal.Error(temporal.ErrHealthGateFailed, message, nil, decision.Wait.Blockers...)
}
