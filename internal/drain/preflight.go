package drain

import (
	"context"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// Findings has the pods that would block a drain that has not started, and that need a person.
type Findings struct {
	node string
	// refused pods end the drain before the first eviction; stuck ones wait for a person to change their budgets.
	refused, stuck []obstacle
	forecast       Forecast
	// mayNotWait: stuck pods end the drain, too.
	mayNotWait bool
}

// Forecast is what a drain would do now, in numbers of pods.
type Forecast struct {
	Cluster string `json:"cluster"`
	Node    string `json:"node"`
	Evict   int    `json:"evict"`
	Skip    int    `json:"skip"`
	Block   int    `json:"block"`
	// Budgets are the PodDisruptionBudgets that allow no disruption now, but may later.
	Budgets []string `json:"budgets,omitempty"`
	// Warning says why the drain would fail, or wait until a person acts, and what to do; empty: it would not.
	Warning string `json:"warning,omitempty"`
}

// Forecast returns what the drain would do.
func (o Findings) Forecast(cluster string) Forecast {
	forecast := o.forecast
	forecast.Cluster, forecast.Node, forecast.Warning = cluster, o.node, o.Warning()
	return forecast
}

// Preflight checks a node before it is cordoned. Pods that should end by themselves first do not count. A refusal is confirmed with the API server,
// because the cache's kinds come from separate watches and it may have a pod before its DaemonSet. A node that does not exist has no obstacles.
// Errors: InvalidSpec, with the field.
func Preflight(ctx context.Context, cache, server client.Reader, node string,
	spec maintenancev1.DrainSpec, completion *maintenancev1.WaitForPodCompletionSpec,
) (Findings, error) {
	rules, err := newRules(spec)
	if err != nil {
		return Findings{}, err
	}
	check := func(snapshot Snapshot, err error) (Findings, error) {
		if err != nil || snapshot.Node == nil {
			return Findings{}, err
		}
		return rules.preflight(ctx, snapshot, completion, time.Now())
	}
	findings, err := check(readPods(ctx, cache, cache, node))
	if err != nil || findings.Err() == nil {
		return findings, err
	}
	return check(Read(ctx, server, node))
}

// preflight decides about every pod of the snapshot's node, except those that should end by themselves first.
func (r rules) preflight(ctx context.Context, snapshot Snapshot, completion *maintenancev1.WaitForPodCompletionSpec, now time.Time) (Findings, error) {
	findings := Findings{node: snapshot.Node.Name, mayNotWait: r.spec.RefuseIfBlocked}
	awaited := Completion{}
	if completion != nil {
		var err error
		if awaited, err = NewCompletion(*completion, &r.spec); err != nil {
			return Findings{}, err
		}
	}
	for _, decision := range r.decide(ctx, snapshot, now).Pods {
		findings.forecast.count(decision)
		if decision.Action != Block || completion != nil && awaited.Awaits(decision.pod, now) {
			continue
		}
		found := obstacle{decision: decision, reason: decision.Reason, message: decision.Message, since: now}
		if decision.Refused() {
			findings.refused = append(findings.refused, found)
		} else {
			findings.stuck = append(findings.stuck, found)
		}
	}
	return findings, nil
}

func (f *Forecast) count(decision Decision) {
	switch decision.Action {
	case Evict:
		f.Evict++
	case Skip:
		f.Skip++
	case Block:
		f.Block++
	}
	if decision.Reason == ReasonDisruptionBudget && !slices.Contains(f.Budgets, decision.Budgets[0]) {
		f.Budgets = append(f.Budgets, decision.Budgets[0])
	}
}

// Err returns PodsNotEvictable, with the blocking pods, if the drain would end before the first eviction, or if it would wait for a person and
// spec.drainSpec.refuseIfBlocked is set; otherwise nil.
func (o Findings) Err() error {
	outcome, blocking := "fail", o.refused
	if o.mayNotWait {
		blocking = slices.Concat(o.refused, o.stuck)
	}
	if len(blocking) == 0 {
		return nil
	}
	if len(o.refused) == 0 {
		outcome = "wait until a person acts"
	}
	return temporal.Error(temporal.ErrPodsNotEvictable, fmt.Sprintf("node %s stays in service, because its drain would %s: %s", o.node, outcome, summarize(blocking)), nil,
		blockers(gravestFirst(blocking))...)
}

// Warning describes the pods that would block the drain, so that a person can act in time; empty: none.
func (o Findings) Warning() string {
	outcome := "wait"
	switch {
	case len(o.refused) > 0:
		outcome = "fail"
	case len(o.stuck) == 0:
		return ""
	}
	return fmt.Sprintf("the drain of node %s would %s: %s", o.node, outcome, summarize(slices.Concat(o.refused, o.stuck)))
}
