package activities

import (
	"context"
	"errors"
	"fmt"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Ending is how a workflow ended.
type Ending struct {
	// Completed: without an error.
	Completed bool `json:"completed,omitempty"`
	// Text says how and when, if that is known.
	Text string `json:"text,omitempty"`
}

// AwaitEnd waits until a workflow is over, however it ends: those that share a node look after each other.
func (s *Scheduler) AwaitEnd(ctx context.Context, workflow scheduling.Asker) (Ending, error) {
	stop := newReport(ctx, nil).start(ctx, nil)
	defer stop()
	for {
		chain, err := temporal.DescribeChain(ctx, s.Temporal, workflow.WorkflowID, workflow.FirstRunID)
		if err != nil || chain.State != temporal.ChainOpen {
			return Ending{Completed: chain.Completed, Text: chain.Ended}, err
		}
		// A run that has ended may have been reset: it is asked once more.
		closing := s.Temporal.GetWorkflowHistory(ctx, workflow.WorkflowID, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_CLOSE_EVENT)
		if closing.HasNext() {
			_, err = closing.Next()
		} else {
			err = errors.New("its history ends without saying how it ended")
		}
		if err != nil {
			return Ending{}, fmt.Errorf("wait for the end of workflow %s: %w", workflow.WorkflowID, err)
		}
	}
}

// AwaitStaleInput says since when a maintenance has been ready, and what is known of its staleness.
type AwaitStaleInput struct {
	Cluster    string               `json:"cluster"`
	ReadySince time.Time            `json:"readySince"`
	Known      scheduling.Staleness `json:"known"`
}

// AwaitStale waits until the staleness of a maintenance is another than is known: until its time is over, or the cluster's configuration says so.
// While that cannot be read, nothing is stale.
func (c *Clusters) AwaitStale(ctx context.Context, in AwaitStaleInput) (scheduling.Staleness, error) {
	cluster, err := c.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return scheduling.Staleness{}, err
	}
	watched := []client.Object{kube.IfServed(&maintenancev1.MaintenanceOperatorConfig{})}
	for {
		found, due, err := c.staleness(ctx, cluster, in.ReadySince)
		if err != nil || found != in.Known {
			return found, err
		}
		var until *time.Time
		if !due.IsZero() {
			until = &due
		}
		// Nobody needs to be told what it waits for.
		_, err = Waits{}.awaitUntil(ctx, until, cluster, watched, func(ctx context.Context, _ client.Reader) (temporal.Observation, bool, error) {
			now, again, err := c.staleness(ctx, cluster, in.ReadySince)
			return temporal.Observation{}, now != in.Known || !again.Equal(due), err
		})
		if err != nil {
			return scheduling.Staleness{}, err
		}
	}
}

func (c *Clusters) staleness(ctx context.Context, cluster *kube.Cluster, readySince time.Time) (scheduling.Staleness, time.Time, error) {
	config, err := maintenanceConfig(ctx, cluster)
	if temporal.ErrorType(err) == temporal.ErrInvalidSpec {
		return scheduling.Staleness{}, time.Time{}, nil
	}
	found, due := scheduling.StalenessOf(config, readySince, temporal.Now(ctx))
	return found, due, err
}
