package drain

import (
	"context"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
)

// Preflight is how the pods of a node are to leave it.
type Preflight struct {
	// Drain evicts them; nil: they stay.
	Drain *maintenancev1.DrainSpec `json:"drain,omitempty"`
	// Completion lets them end by themselves before; nil: it does not.
	Completion *maintenancev1.WaitForPodCompletionSpec `json:"completion,omitempty"`
}

// Check stands before the first effect on a node: what would end its drain ends the maintenance while the node is still in service. It returns
// what else is in the drain's way and does not pass by itself. It asks the API server only about what would end it.
// Errors: PodsNotEvictable (with blockers), InvalidSpec.
func Check(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, departure Preflight) (warning string, err error) {
	outlook, err := foresee(ctx, cluster, ref.Node, departure)
	if err == nil {
		err = outlook.Err()
	}
	if err != nil {
		events.AnnounceFailure(ctx, cluster, ref, 0, err)
		return "", err
	}
	return warnOf(ctx, cluster, ref, outlook), nil
}

// Warn is checkDrain for a node whose turn is not yet: what would end its drain now may be gone by then.
func Warn(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, departure Preflight) (warning string, err error) {
	outlook, err := foresee(ctx, cluster, ref.Node, departure)
	return warnOf(ctx, cluster, ref, outlook), err
}

func foresee(ctx context.Context, cluster *kube.Cluster, node string, departure Preflight) (drain.Outlook, error) {
	if departure.Drain == nil {
		return drain.Outlook{}, nil
	}
	outlook, err := drain.Foresee(ctx, cluster.Cache, cluster.Client, node, *departure.Drain, departure.Completion)
	return outlook, activitykit.Explain(cluster, "look at the pods of node "+node, err)
}

// warnOf records an Event on the node if there is anything to warn of.
func warnOf(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, outlook drain.Outlook) (warning string) {
	if warning = outlook.Warning(); warning != "" {
		events.Record(ctx, cluster, ref, events.Event{Reason: events.DrainObstructed, Warning: true, Message: warning})
	}
	return warning
}
