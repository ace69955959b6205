package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/allow"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// QueueSize is how many NodeMaintenance objects wait for slots of a cluster, how many nodes the cluster has, and how many may be in maintenance.
type QueueSize struct {
	Requests int `json:"requests"`
	Nodes    int `json:"nodes"`
	AtOnce   int `json:"atOnce"`
}

const (
	// queueSuffix follows the size of a queue.
	queueSuffix = "/queue"
	// createdPerSecond is the rate at which the objects are created, and handOvers the number of measured hand-overs.
	createdPerSecond, handOvers = 500, 300
)

// ParseQueueSize reads REQUESTSxNODES@ATONCE/queue, such as "10000x5000@50/queue".
func ParseQueueSize(text string) (QueueSize, error) {
	rest, found := strings.CutSuffix(text, queueSuffix)
	rest, atOnce, _ := strings.Cut(rest, "@")
	requests, nodes, _ := strings.Cut(rest, "x")
	var size QueueSize
	var errs [3]error
	size.Requests, errs[0] = strconv.Atoi(requests)
	size.Nodes, errs[1] = strconv.Atoi(nodes)
	size.AtOnce, errs[2] = strconv.Atoi(atOnce)
	if errors.Join(errs[:]...) != nil || !found || size.AtOnce < 1 || size.Nodes <= size.AtOnce || size.Requests <= size.AtOnce {
		return QueueSize{}, fmt.Errorf("size %q is not REQUESTSxNODES@ATONCE/queue, with more requests and nodes than may be in maintenance at once, e.g. 10000x5000@50/queue", text)
	}
	return size, nil
}

// String is what ParseQueueSize reads.
func (s QueueSize) String() string {
	return fmt.Sprintf("%dx%d@%d%s", s.Requests, s.Nodes, s.AtOnce, queueSuffix)
}

// measured is the number of measured hand-overs: a short queue has fewer.
func (s QueueSize) measured() int { return min(handOvers, s.Requests-s.AtOnce) }

// QueueResult is the result of one queue. All times are in seconds.
type QueueResult struct {
	Size QueueSize `json:"size"`
	// Created is the time in which the objects were created, and Accepted the time from the first creation until each shows why it waits.
	Created  float64 `json:"created"`
	Accepted float64 `json:"accepted"`
	// SlotIdle is the time from the return of a node to the cordon of the next node.
	SlotIdle Latency `json:"slotIdle"`
	// EventsBefore are the events of the scheduler for each request before the first grant; EventsEach are those for each hand-over.
	EventsBefore float64 `json:"eventsBefore"`
	EventsEach   float64 `json:"eventsEach"`
	// Events are those of EventsEach, by type.
	Events map[string]float64 `json:"events"`
	// Runs is the number of runs of the scheduler, LargestEvent the size of its largest event in bytes. TaskTime is how long its workflow tasks ran during the
	// hand-overs.
	Runs         int     `json:"runs"`
	LargestEvent int     `json:"largestEvent"`
	TaskTime     Latency `json:"taskTime"`
	// Worker and Temporal are the usage until the last measured hand-over.
	Worker   Usage `json:"worker"`
	Temporal Usage `json:"temporal"`
}

// runQueues measures each queue on its own fleet.
func (r *Report) runQueues(ctx context.Context, sizes []QueueSize, progress io.Writer) error {
	for _, size := range sizes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		f, err := fleet.Start(ctx, fleet.Options{Spokes: 1, Workers: size.Nodes, WorkerEnv: chartContainer(), Temporal: temporalServer(false), Output: progress})
		if err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		result, err := measureQueue(ctx, f, size, progress)
		if err := errors.Join(err, f.Stop()); err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		r.Queues = append(r.Queues, result)
	}
	return nil
}

// measureQueue lets all requests wait before the first gets a slot, and ends with requests in the queue unless it is short.
func measureQueue(ctx context.Context, f *fleet.Fleet, size QueueSize, progress io.Writer) (QueueResult, error) {
	result := QueueResult{Size: size}
	server, err := dial(ctx, f)
	if err != nil {
		return result, err
	}
	defer server.Close()
	s := &measurement{fleet: f, spoke: f.Spokes[0], server: server, size: Size{Nodes: size.Nodes, AtOnce: 0}}
	if err := s.populate(ctx); err != nil {
		return result, err
	}
	c, err := s.requestor()
	if err != nil {
		return result, err
	}
	seen, err := s.watchObjects(ctx, size)
	if err != nil {
		return result, err
	}
	if err := result.accept(ctx, s, c, seen); err != nil {
		return result, err
	}
	fmt.Fprintf(progress, "%s: all requests wait after %s\n", size, seconds(result.Accepted))
	began := time.Now()
	budgets := &maintenancev1.MaintenanceOperatorConfig{}
	if err := c.Get(ctx, client.ObjectKey{Namespace: allow.NamespaceSystem, Name: "budgets"}, budgets); err != nil {
		return result, err
	}
	budgets.Spec.MaxParallelOperations = new(intstr.FromInt(size.AtOnce))
	if err := c.Update(ctx, budgets); err != nil {
		return result, err
	}
	if err := deleteReady(ctx, c, seen, size.AtOnce+size.measured()); err != nil {
		return result, err
	}
	ended := time.Now()
	usage, err := usagesOf(ctx, f)
	if err != nil {
		return result, err
	}
	result.Worker, result.Temporal = usage.Worker, usage.Temporal
	if result.SlotIdle, err = s.idleSlots(size); err != nil {
		return result, err
	}
	return result, result.readScheduler(ctx, s, began, ended)
}

// watchObjects watches the objects with an informer: the API server may end the watch on so many.
func (s *measurement) watchObjects(ctx context.Context, size QueueSize) (watch.Interface, error) {
	spoke, err := s.fleet.Watch(ctx, s.spoke)
	if err != nil {
		return nil, err
	}
	informer, err := spoke.Cache.GetInformer(ctx, &maintenancev1.NodeMaintenance{})
	if err != nil {
		return nil, err
	}
	events := make(chan watch.Event, 10*size.Requests)
	send := func(kind watch.EventType) func(any) {
		return func(object any) {
			if unknown, isUnknown := object.(cache.DeletedFinalStateUnknown); isUnknown {
				object = unknown.Obj
			}
			events <- watch.Event{Type: kind, Object: object.(runtime.Object)}
		}
	}
	changed := send(watch.Modified)
	_, err = informer.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: changed, UpdateFunc: func(_, object any) { changed(object) }, DeleteFunc: send(watch.Deleted),
	})
	return watch.NewProxyWatcher(events), err
}

// accept creates the objects, and waits until each shows why it waits.
func (r *QueueResult) accept(ctx context.Context, s *measurement, c client.Client, seen watch.Interface) error {
	began, limiter := time.Now(), rate.NewLimiter(createdPerSecond, 1)
	group, ctx := errgroup.WithContext(ctx)
	group.Go(func() error {
		var creates errgroup.Group
		creates.SetLimit(32)
		for i := range r.Size.Requests {
			if err := limiter.Wait(ctx); err != nil {
				return err
			}
			creates.Go(func() error {
				return c.Create(ctx, requestFor(s.nodes()[i%r.Size.Nodes], fmt.Sprintf("request-%d", i)))
			})
		}
		err := creates.Wait()
		r.Created = time.Since(began).Seconds()
		return err
	})
	group.Go(func() error {
		shown := map[string]bool{}
		for event := range seen.ResultChan() {
			object, known := event.Object.(*maintenancev1.NodeMaintenance)
			if !known {
				return fmt.Errorf("watch the objects: %v", event.Object)
			}
			if meta.FindStatusCondition(object.Status.Conditions, maintenancev1.ConditionReady) != nil && object.Status.Wait != nil {
				shown[object.Name] = true
			}
			if len(shown) == r.Size.Requests {
				r.Accepted = time.Since(began).Seconds()
				return nil
			}
		}
		return errors.New("the watch of the objects has ended")
	})
	return group.Wait()
}

// idleSlots reads from the audit log how long slots were idle.
func (s *measurement) idleSlots(size QueueSize) (Latency, error) {
	actions, err := fleet.Actions(s.spoke)
	if err != nil {
		return Latency{}, err
	}
	found := observed{actions: actions}
	cordons, uncordons := found.at(fleet.ActionCordon), found.at(fleet.ActionUncordon)
	measured := size.measured()
	if len(cordons) < size.AtOnce+measured || len(uncordons) < measured {
		return Latency{}, fmt.Errorf("the audit log has %d cordons and %d uncordons", len(cordons), len(uncordons))
	}
	return latency(observed{actions: actions}.slotIdle(Size{Nodes: size.AtOnce + measured, AtOnce: size.AtOnce, Rounds: 1})), nil
}

// readScheduler reads the histories of the scheduler.
func (r *QueueResult) readScheduler(ctx context.Context, s *measurement, began, ended time.Time) error {
	runs, err := readAll(ctx, s.server, temporal.MaintenanceSchedulerID(s.spoke.Name))
	if err != nil {
		return err
	}
	r.Runs, r.Events = len(runs), map[string]float64{}
	each := 1 / float64(r.Size.AtOnce+r.Size.measured())
	var tasks []time.Duration
	for _, run := range runs {
		for _, event := range run.events {
			r.LargestEvent = max(r.LargestEvent, event.Size())
			switch at := event.EventTime.AsTime(); {
			case at.Before(began):
				r.EventsBefore += 1 / float64(r.Size.Requests)
			case at.Before(ended):
				r.EventsEach += each
				r.Events[eventName(event)] += each
				if done := event.GetWorkflowTaskCompletedEventAttributes(); done != nil {
					tasks = append(tasks, at.Sub(run.event(done.StartedEventId).EventTime.AsTime()))
				}
			}
		}
	}
	r.TaskTime = latency(tasks)
	return nil
}
