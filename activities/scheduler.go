package activities

import (
	"context"
	"errors"
	"fmt"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

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
	Lister
}

// CallSchedulerInput says what to tell which scheduler.
type CallSchedulerInput struct {
	Cluster string          `json:"cluster"`
	Call    scheduling.Call `json:"call"`
}

// CallScheduler tells the scheduler of a cluster what an asker wants, and starts it where it does not run. One that is started learns whether another
// one ran before, which may have granted slots in its last moments.
func (s *Scheduler) CallScheduler(ctx context.Context, in CallSchedulerInput) error {
	return callScheduler(ctx, s.Temporal, in)
}

func callScheduler(ctx context.Context, server Workflows, in CallSchedulerInput) error {
	// As workflows.MaintenanceSchedulerInput reads it.
	type start struct {
		Cluster string `json:"cluster"`
		First   bool   `json:"first,omitempty"`
	}
	call := func(reuse enumspb.WorkflowIdReusePolicy, start start) error {
		_, err := server.SignalWithStartWorkflow(ctx, temporal.MaintenanceSchedulerID(in.Cluster), temporal.SignalCall, in.Call,
			client.StartWorkflowOptions{
				TaskQueue:             temporal.TaskQueue,
				WorkflowIDReusePolicy: reuse,
				StaticSummary:         "grants slots to the maintenances of " + in.Cluster,
			}, temporal.MaintenanceScheduler, start)
		return err
	}
	err := call(enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, start{Cluster: in.Cluster, First: true})
	if _, ended := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ended {
		err = call(enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, start{Cluster: in.Cluster})
	}
	if err != nil {
		return fmt.Errorf("ask the scheduler of %s: %w", in.Cluster, err)
	}
	return nil
}

// FindAskers returns the ids of the workflows that may have slots of a cluster or wait for one: its rollouts, and its maintenances that belong to
// none. Whoever was started within the last moments may be missing.
func (s *Scheduler) FindAskers(ctx context.Context, cluster string) ([]string, error) {
	return findAskers(ctx, s.Temporal, cluster)
}

func findAskers(ctx context.Context, server Lister, cluster string) ([]string, error) {
	quoted := strings.ReplaceAll(cluster, "'", "''")
	query := fmt.Sprintf("ExecutionStatus = 'Running' AND (WorkflowType = '%s' AND %s = '%s' OR WorkflowType = '%s' AND WorkflowId STARTS_WITH 'node/%s/')",
		temporal.ClusterUpgrade, temporal.AttributeCluster.GetName(), quoted, temporal.NodeMaintenance, quoted)
	askers := []string{}
	err := eachWorkflow(ctx, server, query, func(execution *workflowpb.WorkflowExecutionInfo) {
		// The slots of a rollout's maintenances are the rollout's.
		if _, _, _, ofRollout := temporal.ParseClusterUpgradeID(execution.GetParentExecution().GetWorkflowId()); !ofRollout {
			askers = append(askers, execution.GetExecution().GetWorkflowId())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find those that may have slots of %s: %w", cluster, err)
	}
	return askers, nil
}

// reviveScheduler starts the scheduler of a cluster anew that does not run though somebody may have a slot of it, or wait for one: it was terminated.
// Whoever waits asks again by itself, but after an hour at times.
func reviveScheduler(ctx context.Context, server SweeperClient, cluster string) error {
	open, err := temporal.Open(ctx, server, temporal.MaintenanceSchedulerID(cluster))
	if err != nil || open {
		return err
	}
	askers, err := findAskers(ctx, server, cluster)
	if err != nil || len(askers) == 0 {
		return err
	}
	return callScheduler(ctx, server, CallSchedulerInput{Cluster: cluster})
}

// FindGoneInput says which nodes of which cluster to look for.
type FindGoneInput struct {
	Cluster string   `json:"cluster"`
	Nodes   []string `json:"nodes"`
}

// FindGone returns those of the nodes that the cluster does not have. The API server is asked: what a watch has shown may be behind.
func (s *Scheduler) FindGone(ctx context.Context, in FindGoneInput) ([]string, error) {
	cluster, err := s.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	isGone := make([]bool, len(in.Nodes))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(requestsAtOnce)
	for i, name := range in.Nodes {
		reads.Go(func() error {
			err := cluster.Client.Get(reading, kubeclient.ObjectKey{Name: name}, &corev1.Node{})
			isGone[i] = apierrors.IsNotFound(err)
			return kubeclient.IgnoreNotFound(err)
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, explain(cluster, "look for nodes", err)
	}
	var gone []string
	for i, name := range in.Nodes {
		if isGone[i] {
			gone = append(gone, name)
		}
	}
	return gone, nil
}

// FindLost returns the askers whose workflow is over, each with those of its maintenances that go on.
func (s *Scheduler) FindLost(ctx context.Context, holders []scheduling.Holder) ([]scheduling.Holder, error) {
	isLost, goesOn := make([]bool, len(holders)), make([][]bool, len(holders))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(requestsAtOnce)
	for i, holder := range holders {
		reads.Go(func() error {
			chain, err := temporal.DescribeChain(reading, s.Temporal, holder.WorkflowID, holder.FirstRunID)
			isLost[i] = chain.State != temporal.ChainOpen
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	reads, reading = errgroup.WithContext(ctx)
	reads.SetLimit(requestsAtOnce)
	for i, holder := range holders {
		goesOn[i] = make([]bool, len(holder.Maintenances))
		for j, maintenance := range holder.Maintenances {
			if !isLost[i] || maintenance == holder.WorkflowID {
				continue
			}
			reads.Go(func() (err error) {
				goesOn[i][j], err = temporal.Open(reading, s.Temporal, maintenance)
				return err
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var lost []scheduling.Holder
	for i, holder := range holders {
		if !isLost[i] {
			continue
		}
		over := scheduling.Holder{Asker: holder.Asker}
		for j, maintenance := range holder.Maintenances {
			if goesOn[i][j] {
				over.Maintenances = append(over.Maintenances, maintenance)
			}
		}
		lost = append(lost, over)
	}
	return lost, nil
}
