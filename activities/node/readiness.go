package node

import (
	"context"
	"time"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Readiness is the state of a node that is ready: it waits for its requestor, or a Job works on it.
type Readiness struct {
	scheduling.Staleness
	// Uncordoned: the node was cordoned, and now it is not.
	Uncordoned bool `json:"uncordoned,omitempty"`
}

// AwaitStaleInput has the time since which a node is ready, and its known readiness.
type AwaitStaleInput struct {
	Cluster    string    `json:"cluster"`
	ReadySince time.Time `json:"readySince"`
	// CordonedNode that the maintenance has; empty: it is not cordoned.
	CordonedNode string    `json:"cordonedNode,omitempty"`
	Known        Readiness `json:"known"`
	// Announce is recorded first; nil: nothing.
	Announce *AnnounceStateInput `json:"announce,omitempty"`
	// Changes counts earlier changes. With more changes, the pauses between checks grow.
	Changes int `json:"changes,omitempty"`
}

// longestReadinessPause is the longest pause between two checks.
const longestReadinessPause = 5 * time.Minute

// pause returns the time before the next check: repeated cordons and uncordons by others must not fill the history of the maintenance.
func (in AwaitStaleInput) pause() time.Duration {
	if in.Changes == 0 {
		return 0
	}
	return min(time.Second<<min(in.Changes, 10), longestReadinessPause)
}

// AwaitStale waits until the readiness differs from in.Known: the node becomes stale, the configuration of the cluster changes, or
// another writer uncordons the node. While the configuration is invalid, no node is stale.
func (c *Activities) AwaitStale(ctx context.Context, in AwaitStaleInput) (Readiness, error) {
	cluster, err := c.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return Readiness{}, err
	}
	if in.Announce != nil {
		if err := c.AnnounceState(ctx, *in.Announce); err != nil {
			return Readiness{}, err
		}
	}
	if err := activitykit.HeartbeatFor(ctx, in.pause()); err != nil {
		return Readiness{}, err
	}
	watched := append(activitykit.NodeToWatch(in.CordonedNode), kube.IfServed(&maintenancev1.MaintenanceOperatorConfig{}))
	for {
		found, due, err := c.readiness(ctx, cluster, in)
		if err != nil || found != in.Known {
			return found, err
		}
		var until *time.Time
		if !due.IsZero() {
			until = &due
		}
		// This wait is not reported to the workflow.
		_, err = activitykit.Waits{}.AwaitUntil(ctx, until, cluster, watched, func(ctx context.Context, _ client.Reader) (temporal.Observation, bool, error) {
			now, again, err := c.readiness(ctx, cluster, in)
			return temporal.Observation{}, now != in.Known || !again.Equal(due), err
		})
		if err != nil {
			return Readiness{}, err
		}
	}
}

// readiness also returns when it may change without an event; the zero time: never.
func (c *Activities) readiness(ctx context.Context, cluster *kube.Cluster, in AwaitStaleInput) (found Readiness, due time.Time, err error) {
	if found.Staleness, due, err = c.staleness(ctx, cluster, in.ReadySince); err == nil && in.CordonedNode != "" {
		found.Uncordoned, err = activitykit.IsUncordoned(ctx, cluster, in.CordonedNode, in.Known.Uncordoned)
	}
	return found, due, err
}

func (c *Activities) staleness(ctx context.Context, cluster *kube.Cluster, readySince time.Time) (scheduling.Staleness, time.Time, error) {
	config, err := activitykit.MaintenanceConfig(ctx, cluster)
	if temporal.ErrorType(err) == temporal.ErrInvalidSpec {
		return scheduling.Staleness{}, time.Time{}, nil
	}
	found, due := scheduling.StalenessOf(config, readySince, temporal.Now(ctx))
	return found, due, err
}
