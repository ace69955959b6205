package drain

import (
	"context"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/kube"
)

// Preflight has the settings of a drain, which are checked before the cordon.
type Preflight struct {
	// Drain evicts them; nil: they stay.
	Drain *maintenancev1.DrainSpec `json:"drain,omitempty"`
	// Completion is the wait for pods before the drain; nil: no wait.
	Completion *maintenancev1.WaitForPodCompletionSpec `json:"completion,omitempty"`
}

// Check looks for pods that would make the drain fail, before the first effect on the node: the maintenance then fails while the node is still in
// service. It also returns a warning about what would block the drain until a person acts. It reads from the API server only to confirm a failure.
// Errors: PodsNotEvictable (with blockers), InvalidSpec.
func Check(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, preflight Preflight) (warning string, err error) {
	found, err := findObstacles(ctx, cluster, ref.Node, preflight)
	if err == nil {
		err = found.Err()
	}
	if err != nil {
		events.AnnounceFailure(ctx, cluster, ref, 0, err)
		return "", err
	}
	return warnOf(ctx, cluster, ref, found), nil
}

// Warn is Check for a node without a slot: it only warns, because the pods may be gone when the drain starts.
func Warn(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, preflight Preflight) (warning string, err error) {
	found, err := findObstacles(ctx, cluster, ref.Node, preflight)
	return warnOf(ctx, cluster, ref, found), err
}

// Forecast is what a drain would do now.
type Forecast = drain.Forecast

// Foresee returns what the drain would do now. It records no Event.
func Foresee(ctx context.Context, cluster *kube.Cluster, node string, preflight Preflight) (Forecast, error) {
	found, err := findObstacles(ctx, cluster, node, preflight)
	return found.Forecast(cluster.Name), err
}

func findObstacles(ctx context.Context, cluster *kube.Cluster, node string, preflight Preflight) (drain.Findings, error) {
	if preflight.Drain == nil {
		return drain.Findings{}, nil
	}
	found, err := drain.Preflight(ctx, cluster.Cache, cluster.Client, node, *preflight.Drain, preflight.Completion)
	return found, activitykit.Explain(cluster, "check the pods of node "+node, err)
}

// warnOf records an Event on the node if there is a warning.
func warnOf(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, found drain.Findings) (warning string) {
	if warning = found.Warning(); warning != "" {
		events.Record(ctx, cluster, ref, events.Event{Reason: events.DrainObstructed, Warning: true, Message: warning})
	}
	return warning
}
