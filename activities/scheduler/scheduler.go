// Package scheduler holds the activities that bring messages to the slot scheduler of a cluster and observe its nodes.
package scheduler

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// Activities delivers messages to the scheduler of a cluster, and observes nodes and slot owners for it.
type Activities struct {
	Clusters *kube.Clusters
	Temporal Client

	// sent are the nodes that the scheduler of each workflow id has, if the worker may only answer its tasks: a sentNodes.
	sent sync.Map
	// requests are sent to each scheduler in rounds, so that thousands at once do not keep it from its work.
	requests activitykit.Rounds
}

// Client is the part of Temporal's client that the activities of the scheduler need.
type Client interface {
	temporal.Executions
	activitykit.Starter
	activitykit.Signaller
	activitykit.Lister
}

// RequestSlotsInput names the scheduler and the requests of an owner.
type RequestSlotsInput struct {
	Cluster  string                  `json:"cluster"`
	Requests scheduling.SlotRequests `json:"requests"`
}

// RequestSlots delivers the requests of a slot owner to the scheduler of a cluster, and starts the scheduler if it is not running.
func (s *Activities) RequestSlots(ctx context.Context, in RequestSlotsInput) error {
	return s.requests.Do(ctx, in.Cluster, func(ctx context.Context) error {
		return signalScheduler(ctx, s.Temporal, in.Cluster, temporal.SignalSlotRequests, in.Requests)
	})
}

// ReturnSlotInput names the scheduler and the slot.
type ReturnSlotInput struct {
	Cluster string                `json:"cluster"`
	Return  scheduling.SlotReturn `json:"return"`
}

// ReturnSlot returns a slot on behalf of its owner. A scheduler that is not running is started, and collects the slots with a resync.
func (s *Activities) ReturnSlot(ctx context.Context, in ReturnSlotInput) error {
	return signalScheduler(ctx, s.Temporal, in.Cluster, temporal.SignalSlotReturn, in.Return)
}

// signalScheduler signals the scheduler of a cluster, and starts it if it is not running. A scheduler that is started learns whether another one ran before,
// which may have granted slots in its last moments.
func signalScheduler(ctx context.Context, server activitykit.Starter, cluster, signal string, payload any) error {
	// The format of slots.SchedulerInput.
	type start struct {
		Cluster string `json:"cluster"`
		First   bool   `json:"first,omitempty"`
	}
	send := func(reuse enumspb.WorkflowIdReusePolicy, start start) error {
		_, err := server.SignalWithStartWorkflow(ctx, temporal.MaintenanceSchedulerID(cluster), signal, payload,
			client.StartWorkflowOptions{
				TaskQueue:             temporal.TaskQueue,
				WorkflowIDReusePolicy: reuse,
				StaticSummary:         "grants slots to the maintenances of " + cluster,
				StaticDetails:         temporal.SchedulerDetails(cluster),
			}, temporal.MaintenanceScheduler, start)
		return err
	}
	err := send(enumspb.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE, start{Cluster: cluster, First: true})
	if _, ended := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ended {
		err = send(enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, start{Cluster: cluster})
	}
	if err != nil {
		return fmt.Errorf("signal the scheduler of %s: %w", cluster, err)
	}
	return nil
}

// sendTimeout limits the signals of one activity, so that it still reports those that were lost.
const sendTimeout = 8 * time.Second

// SendResponses delivers responses to slot owners. It returns the owners that did not get theirs: their workflows are closed, or cannot be signalled now.
func (s *Activities) SendResponses(ctx context.Context, responses []scheduling.SlotResponse) ([]scheduling.SlotOwner, error) {
	got := s.signalAll(ctx, len(responses), temporal.SignalSlotResponse, func(i int) (string, any) { return responses[i].Owner.WorkflowID, responses[i] })
	var lost []scheduling.SlotOwner
	for i, response := range responses {
		if !got[i] {
			lost = append(lost, response.Owner)
		}
	}
	return lost, nil
}

// RequestResyncInput names slot owners by their workflow ids, and the scheduler that asks them.
type RequestResyncInput struct {
	Owners []string          `json:"owners"`
	Resync scheduling.Resync `json:"resync"`
}

// RequestResync asks slot owners for their requests and slots. The scheduler asks those again that do not answer.
func (s *Activities) RequestResync(ctx context.Context, in RequestResyncInput) error {
	s.signalAll(ctx, len(in.Owners), temporal.SignalResync, func(i int) (string, any) { return in.Owners[i], in.Resync })
	return nil
}

// signalAll signals slot owners, and reports which ones got the signal. A lost signal does not affect the others.
func (s *Activities) signalAll(ctx context.Context, count int, signal string, message func(int) (id string, payload any)) (got []bool) {
	ctx, cancel := context.WithTimeout(ctx, sendTimeout)
	defer cancel()
	got = make([]bool, count)
	var sends errgroup.Group
	sends.SetLimit(activitykit.MaxParallelRequests)
	for i := range count {
		sends.Go(func() error {
			id, payload := message(i)
			err := s.Temporal.SignalWorkflow(ctx, id, "", signal, payload)
			if _, closed := errors.AsType[*serviceerror.NotFound](err); err != nil && !closed {
				activitykit.Logger(ctx, "owner", id).Warn("cannot signal a slot owner", "signal", signal, "error", err)
			}
			got[i] = err == nil
			return nil
		})
	}
	_ = sends.Wait()
	return got
}

// FindSlotOwners returns the ids of the workflows that may request slots of a cluster or have them: its rollouts, and its maintenances without a rollout.
// Workflows that started within the last moments may be missing.
func (s *Activities) FindSlotOwners(ctx context.Context, cluster string) ([]string, error) {
	return findSlotOwners(ctx, s.Temporal, cluster)
}

func findSlotOwners(ctx context.Context, server activitykit.Lister, cluster string) ([]string, error) {
	query := fmt.Sprintf("ExecutionStatus = 'Running' AND (WorkflowType = '%s' AND %s = '%s' OR %s)",
		temporal.ClusterUpgrade, temporal.AttributeCluster.GetName(), strings.ReplaceAll(cluster, "'", "''"), temporal.MaintenancesOf(cluster))
	owners := []string{}
	err := activitykit.EachWorkflow(ctx, server, query, func(execution *workflowpb.WorkflowExecutionInfo) {
		// The rollout owns the slots of its maintenances.
		if _, _, _, ofRollout := temporal.ParseClusterUpgradeID(execution.GetParentExecution().GetWorkflowId()); !ofRollout {
			owners = append(owners, execution.GetExecution().GetWorkflowId())
		}
	})
	if err != nil {
		return nil, fmt.Errorf("find the slot owners of %s: %w", cluster, err)
	}
	return owners, nil
}

// reviver has the clients to start a terminated scheduler.
type reviver interface {
	temporal.Executions
	activitykit.Starter
	activitykit.Lister
}

// ReviveScheduler starts the scheduler of a cluster if it was terminated while there are slot owners. A waiting owner also does so, but may take an hour.
func ReviveScheduler(ctx context.Context, server reviver, cluster string) error {
	open, err := temporal.Open(ctx, server, temporal.MaintenanceSchedulerID(cluster))
	if err != nil || open {
		return err
	}
	owners, err := findSlotOwners(ctx, server, cluster)
	if err != nil || len(owners) == 0 {
		return err
	}
	return signalScheduler(ctx, server, cluster, temporal.SignalSlotRequests, scheduling.SlotRequests{})
}

// FindGoneInput names a cluster and the nodes to look for.
type FindGoneInput struct {
	Cluster string   `json:"cluster"`
	Nodes   []string `json:"nodes"`
}

// FindGone returns the nodes that the cluster does not have. It reads from the API server, because a watch may lag.
func (s *Activities) FindGone(ctx context.Context, in FindGoneInput) ([]string, error) {
	cluster, err := s.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return nil, err
	}
	isGone := make([]bool, len(in.Nodes))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, name := range in.Nodes {
		reads.Go(func() error {
			err := cluster.Client.Get(reading, kubeclient.ObjectKey{Name: name}, &corev1.Node{})
			isGone[i] = apierrors.IsNotFound(err)
			return kubeclient.IgnoreNotFound(err)
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, activitykit.Explain(cluster, "find nodes", err)
	}
	var gone []string
	for i, name := range in.Nodes {
		if isGone[i] {
			gone = append(gone, name)
		}
	}
	return gone, nil
}

// FindClosedOwners returns the owners whose workflow is closed, each with those of its maintenances that are still running.
func (s *Activities) FindClosedOwners(ctx context.Context, holders []scheduling.Holder) ([]scheduling.Holder, error) {
	isClosed, isRunning := make([]bool, len(holders)), make([][]bool, len(holders))
	reads, reading := errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, holder := range holders {
		reads.Go(func() error {
			chain, err := temporal.DescribeChain(reading, s.Temporal, holder.WorkflowID, holder.FirstRunID)
			isClosed[i] = chain.State != temporal.ChainOpen
			return err
		})
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	reads, reading = errgroup.WithContext(ctx)
	reads.SetLimit(activitykit.MaxParallelRequests)
	for i, holder := range holders {
		isRunning[i] = make([]bool, len(holder.Maintenances))
		for j, maintenance := range holder.Maintenances {
			if !isClosed[i] || maintenance == holder.WorkflowID {
				continue
			}
			reads.Go(func() (err error) {
				isRunning[i][j], err = temporal.Open(reading, s.Temporal, maintenance)
				return err
			})
		}
	}
	if err := reads.Wait(); err != nil {
		return nil, err
	}
	var closed []scheduling.Holder
	for i, holder := range holders {
		if !isClosed[i] {
			continue
		}
		running := scheduling.Holder{SlotOwner: holder.SlotOwner}
		for j, maintenance := range holder.Maintenances {
			if isRunning[i][j] {
				running.Maintenances = append(running.Maintenances, maintenance)
			}
		}
		closed = append(closed, running)
	}
	return closed, nil
}
