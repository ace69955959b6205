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

// Outlook is what stands in the way of a drain that has not begun and will not pass by itself.
type Outlook struct {
	node string
	// refused pods end the drain before the first eviction; stuck ones wait for a person who changes their budgets.
	refused, stuck []obstacle
}

// Foresee looks at a node that was not touched yet. Pods that are to end by themselves before are nobody's obstacle. What would end the drain is
// believed only from the API server: the cache's kinds come by separate watches, and a pod can be there before its DaemonSet. A node that does not
// exist has no obstacles. Errors: InvalidSpec, naming the field.
func Foresee(ctx context.Context, cache, server client.Reader, node string,
	spec maintenancev1.DrainSpec, completion *maintenancev1.WaitForPodCompletionSpec,
) (Outlook, error) {
	rules, err := newRules(spec)
	if err != nil {
		return Outlook{}, err
	}
	look := func(snapshot Snapshot, err error) (Outlook, error) {
		if err != nil || snapshot.Node == nil {
			return Outlook{}, err
		}
		return rules.foresee(ctx, snapshot, completion, time.Now())
	}
	outlook, err := look(readPods(ctx, cache, cache, node))
	if err != nil || len(outlook.refused) == 0 {
		return outlook, err
	}
	return look(Read(ctx, server, node))
}

// foresee decides about every pod of the snapshot's node that is not to end by itself before.
func (r rules) foresee(ctx context.Context, snapshot Snapshot, completion *maintenancev1.WaitForPodCompletionSpec, now time.Time) (Outlook, error) {
	outlook := Outlook{node: snapshot.Node.Name}
	awaited := Completion{}
	if completion != nil {
		var err error
		if awaited, err = NewCompletion(*completion, &r.spec); err != nil {
			return Outlook{}, err
		}
	}
	for _, decision := range r.decide(ctx, snapshot, now).Pods {
		if decision.Action != Block || completion != nil && awaited.Awaits(decision.pod, now) {
			continue
		}
		found := obstacle{decision: decision, reason: decision.Reason, message: decision.Message, since: now}
		if decision.Refused() {
			outlook.refused = append(outlook.refused, found)
		} else {
			outlook.stuck = append(outlook.stuck, found)
		}
	}
	return outlook, nil
}

// Err is PodsNotEvictable when the drain would end before the first eviction, with the pods because of which it would, the gravest first; otherwise nil.
func (o Outlook) Err() error {
	if len(o.refused) == 0 {
		return nil
	}
	return temporal.Error(temporal.ErrPodsNotEvictable,
		fmt.Sprintf("node %s is not taken out of service, as its drain would fail: %s", o.node, summarize(o.refused)), nil, blockers(gravestFirst(o.refused))...)
}

// Warning says to a person what is in the way, so that it can be changed before the drain begins; empty if nothing is.
func (o Outlook) Warning() string {
	outcome := "wait until somebody changes the budgets or adds replicas"
	switch {
	case len(o.refused) > 0:
		outcome = "fail"
	case len(o.stuck) == 0:
		return ""
	}
	return fmt.Sprintf("as node %s stands, its drain would %s: %s", o.node, outcome, summarize(slices.Concat(o.refused, o.stuck)))
}
