package bench

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// startsInParallel limits the requests for workflows in progress.
const startsInParallel = 10

// byWorkflows maintains the nodes with one workflow each, all started at once, as drydock node maintain starts them. Their requestor has nothing to do on a
// node: it sends done as soon as the Event of the node says that it is ready.
type byWorkflows struct{ *measurement }

func (byWorkflows) String() string { return "Drydock, by workflows" }

func (b byWorkflows) maintain(ctx context.Context, number int) (time.Duration, error) {
	return timed(func() error { return b.startAll(ctx, number) })
}

func (b byWorkflows) record(ctx context.Context, rounds []round, result *Result) error {
	seen, err := b.recordWorker(rounds, result)
	if err != nil {
		return err
	}
	histories, err := b.requested(ctx)
	if err != nil {
		return err
	}
	return result.readHistories(histories, seen)
}

// warmUp lets a maintenance without a cordon start what lasts: the scheduler and the sweeper of the cluster, the emergency stop, and the watches of the
// worker.
func (s *measurement) warmUp(ctx context.Context, result *Result) error {
	ready, err := s.watchReady(ctx)
	if err != nil {
		return err
	}
	defer ready.Stop()
	node := s.nodes()[0]
	request := requestFor(node, "warm-up")
	request.Spec.Cordon, request.Spec.DrainSpec = new(false), nil
	began := time.Now()
	run, err := s.startMaintenance(ctx, request)
	if err != nil {
		return err
	}
	if err := s.sendDone(ctx, ready, map[string]string{node: run.GetID()}); err != nil {
		return err
	}
	result.FirstUse = time.Since(began).Seconds()
	if err := run.Get(ctx, nil); err != nil {
		return err
	}
	return s.settle(ctx)
}

// startAll starts a workflow for each node, sends it done when its node is ready, and waits until all have ended.
func (s *measurement) startAll(ctx context.Context, number int) error {
	ready, err := s.watchReady(ctx)
	if err != nil {
		return err
	}
	defer ready.Stop()
	maintenances := map[string]string{}
	for _, node := range s.nodes() {
		maintenances[node] = s.maintenanceOf(node, number)
	}
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error { return s.sendDone(ctx, ready, maintenances) })
	group.Go(func() error {
		var starts errgroup.Group
		starts.SetLimit(startsInParallel)
		for _, node := range s.nodes() {
			starts.Go(func() error {
				run, err := s.startMaintenance(ctx, requestFor(node, requestName(node, number)))
				if err == nil {
					group.Go(func() error { return run.Get(ctx, nil) })
				}
				return err
			})
		}
		return starts.Wait()
	})
	return group.Wait()
}

// maintenanceOf is the id of the maintenance that requests a node in a round.
func (s *measurement) maintenanceOf(node string, number int) string {
	return temporal.NodeMaintenanceID(s.spoke.Name, namespace, requestName(node, number))
}

func (s *measurement) startMaintenance(ctx context.Context, request *maintenancev1.NodeMaintenance) (client.WorkflowRun, error) {
	// The format of nodemaintenance.Input.
	type input struct {
		Cluster string                        `json:"cluster"`
		Object  maintenancev1.NodeMaintenance `json:"object"`
	}
	options := temporal.NodeMaintenanceOptions(s.spoke.Name, request.Spec.NodeName, requestorID)
	options.ID, options.TaskQueue = temporal.NodeMaintenanceID(s.spoke.Name, namespace, request.Name), temporal.TaskQueue
	return s.server.ExecuteWorkflow(ctx, options, temporal.NodeMaintenance, input{s.spoke.Name, *request})
}

// watchReady watches the Events of nodes that are ready, from now on.
func (s *measurement) watchReady(ctx context.Context) (watch.Interface, error) {
	requestor, err := s.requestor()
	if err != nil {
		return nil, err
	}
	of := []kubeclient.ListOption{
		kubeclient.InNamespace(metav1.NamespaceDefault), kubeclient.MatchingFields{"reason": string(maintenancev1.NodeReady), "involvedObject.kind": "Node"},
	}
	var before corev1.EventList
	if err := requestor.List(ctx, &before, of...); err != nil {
		return nil, err
	}
	from := &kubeclient.ListOptions{Raw: &metav1.ListOptions{ResourceVersion: before.ResourceVersion}}
	return requestor.Watch(ctx, &corev1.EventList{}, append(of, from)...)
}

// sendDone sends done to each maintenance, by node, as soon as its node is ready.
func (s *measurement) sendDone(ctx context.Context, ready watch.Interface, maintenances map[string]string) error {
	left := len(maintenances)
	for event := range ready.ResultChan() {
		found, known := event.Object.(*corev1.Event)
		if !known {
			return fmt.Errorf("watch the Events: %v", event.Object)
		}
		id, requested := maintenances[found.InvolvedObject.Name]
		if event.Type != watch.Added || !requested {
			continue
		}
		if err := s.server.SignalWorkflow(ctx, id, "", temporal.SignalDone, temporal.SignalRequest{}); err != nil {
			return err
		}
		if left--; left == 0 {
			return nil
		}
	}
	return fmt.Errorf("%d nodes did not become ready: the watch has ended", left)
}
