package activities

import (
	"context"
	"fmt"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Scheduler takes requests for slots to the scheduler of a cluster, and shows it the cluster and its askers.
type Scheduler struct {
	Clusters *kube.Clusters
	Temporal SchedulerClient
}

// SchedulerClient is what is asked of Temporal and told to it, as Temporal's client does.
type SchedulerClient interface {
	Workflows
	Signaller
}

// CallSchedulerInput says what to tell which scheduler.
type CallSchedulerInput struct {
	Cluster string          `json:"cluster"`
	Call    scheduling.Call `json:"call"`
}

// CallScheduler tells the scheduler of a cluster what an asker wants, and starts it where it does not run.
func (s *Scheduler) CallScheduler(ctx context.Context, in CallSchedulerInput) error {
	// As workflows.MaintenanceSchedulerInput reads it.
	type start struct {
		Cluster string `json:"cluster"`
	}
	_, err := s.Temporal.SignalWithStartWorkflow(ctx, temporal.MaintenanceSchedulerID(in.Cluster), temporal.SignalCall, in.Call,
		client.StartWorkflowOptions{
			TaskQueue:             temporal.TaskQueue,
			WorkflowIDReusePolicy: enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE,
			StaticSummary:         "grants slots to the maintenances of " + in.Cluster,
		}, temporal.MaintenanceScheduler, start{in.Cluster})
	if err != nil {
		return fmt.Errorf("ask the scheduler of %s: %w", in.Cluster, err)
	}
	return nil
}

// FindLost returns the askers whose workflow is over, each with those of its maintenances that go on.
func (s *Scheduler) FindLost(ctx context.Context, holders []scheduling.Holder) ([]scheduling.Holder, error) {
	var lost []scheduling.Holder
	for _, holder := range holders {
		chain, err := temporal.DescribeChain(ctx, s.Temporal, holder.WorkflowID, holder.FirstRunID)
		if err != nil {
			return nil, err
		}
		if chain.State == temporal.ChainOpen {
			continue
		}
		over := scheduling.Holder{Asker: holder.Asker}
		for _, maintenance := range holder.Maintenances {
			open := false
			if maintenance != holder.WorkflowID {
				if open, err = temporal.Open(ctx, s.Temporal, maintenance); err != nil {
					return nil, err
				}
			}
			if open {
				over.Maintenances = append(over.Maintenances, maintenance)
			}
		}
		lost = append(lost, over)
	}
	return lost, nil
}
