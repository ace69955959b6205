package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// WindowResult is the delay of the effects of windows that open in the same second.
type WindowResult struct {
	Size WindowSize `json:"size"`
	// Notified is the time from the opening until the notification of a subscriber; 0 if it is notified in advance.
	Notified Latency `json:"notified"`
	// Started is the time from the opening until the waiting maintenances start.
	Started Latency `json:"started"`
	// Cordoned is the time from the opening until their nodes are cordoned.
	Cordoned Latency `json:"cordoned"`
	// Recorded is the time from the opening until a window has recorded it.
	Recorded Latency `json:"recorded"`
	// WorkerBefore and TemporalBefore are the usage before the opening, for its confirmation. Worker and Temporal are the usage from the opening
	// until the end of the measurement.
	WorkerBefore   Usage `json:"workerBefore"`
	TemporalBefore Usage `json:"temporalBefore"`
	Worker         Usage `json:"worker"`
	Temporal       Usage `json:"temporal"`
}

// runWindows measures each size of windows on its own fleet.
func (r *Report) runWindows(ctx context.Context, sizes []WindowSize, progress io.Writer) error {
	for _, size := range sizes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		result, err := windowsOnFleet(ctx, size, confirming, progress)
		if err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		r.Windows = append(r.Windows, result)
	}
	return nil
}

// confirming is how long before the opening all windows are defined, so that each confirms its opening in advance.
const confirming = 95 * time.Second

// errTooLate is returned when the windows opened before the setup was complete: the estimate of the setup time was too short.
type errTooLate struct {
	took, allowed time.Duration
}

func (e errTooLate) Error() string {
	return fmt.Sprintf("it took %s to define all windows, and they were due to open after %s", e.took.Round(time.Second), e.allowed.Round(time.Second))
}

// windowsOnFleet measures windows that are defined in advance. If the setup takes too long, it repeats the measurement on a new fleet and allows
// twice that time.
func windowsOnFleet(ctx context.Context, size WindowSize, ahead time.Duration, progress io.Writer) (WindowResult, error) {
	for allowed := time.Duration(0); ; {
		result, err := windowsDefinedWithin(ctx, size, allowed, ahead, progress)
		var late errTooLate
		if !errors.As(err, &late) {
			return result, err
		}
		fmt.Fprintln(progress, late)
		allowed = 2 * late.took
	}
}

// windowsDefinedWithin measures windows on its own fleet. It estimates the setup time if none is given.
func windowsDefinedWithin(ctx context.Context, size WindowSize, allowed, ahead time.Duration, progress io.Writer) (WindowResult, error) {
	f, err := fleet.Start(ctx, fleet.Options{Spokes: 1, Workers: size.Maintenances + 1, Temporal: temporalServer(false), Output: progress})
	if err != nil {
		return WindowResult{}, err
	}
	result, err := func() (WindowResult, error) {
		server, err := dial(ctx, f)
		if err != nil {
			return WindowResult{}, err
		}
		defer server.Close()
		nodes := Size{Nodes: size.Maintenances, AtOnce: size.Maintenances + 1, Rounds: 1}
		s := &windowMeasurement{measurement: measurement{fleet: f, spoke: f.Spokes[0], size: nodes, server: server}, windows: size, allowed: allowed, ahead: ahead}
		return s.measure(ctx)
	}()
	return result, errors.Join(err, f.Stop())
}

// windowMeasurement is a spoke whose nodes wait for windows.
type windowMeasurement struct {
	measurement
	windows WindowSize
	// allowed is the limit of the setup, which ends ahead before the openings.
	allowed, ahead time.Duration
	// opens is when all windows open.
	opens time.Time
}

// Limits of the start of a maintenance, and of the rest of the setup.
const (
	startingOne = 500 * time.Millisecond
	preparing   = 5 * time.Second
)

func (s *windowMeasurement) measure(ctx context.Context) (WindowResult, error) {
	if err := errors.Join(s.populate(ctx), s.startScheduler(ctx)); err != nil {
		return WindowResult{}, err
	}
	if s.allowed == 0 {
		took, err := s.defineSome(ctx)
		if err != nil {
			return WindowResult{}, err
		}
		s.allowed = preparing + time.Duration(s.windows.Maintenances)*startingOne + time.Duration(s.windows.Windows)*took*5/4
	}
	setupStart := time.Now()
	s.opens = setupStart.Add(s.allowed + s.ahead).Truncate(time.Second)
	if err := errors.Join(s.defineAll(ctx, 0, s.windows.Windows, s.opens), s.startMaintenances(ctx)); err != nil {
		return WindowResult{}, err
	}
	left := time.Until(s.opens)
	if left < 0 {
		return WindowResult{}, errTooLate{took: time.Since(setupStart), allowed: s.allowed + s.ahead}
	}
	defined, err := usagesOf(ctx, s.fleet)
	if err != nil {
		return WindowResult{}, err
	}
	select { // the openings are at a fixed time
	case <-time.After(left):
	case <-ctx.Done():
		return WindowResult{}, ctx.Err()
	}
	opened, err := usagesOf(ctx, s.fleet)
	if err != nil {
		return WindowResult{}, err
	}
	if err := s.awaitCordons(ctx, s.windows.Maintenances+1); err != nil {
		return WindowResult{}, err
	}
	result := WindowResult{Size: s.windows, WorkerBefore: opened.Worker.since(defined.Worker), TemporalBefore: opened.Temporal.since(defined.Temporal)}
	notified, err := s.notified(ctx, 0, s.windows.Windows, func(snapshot windows.Snapshot) bool {
		return windows.Ask([]windows.Snapshot{snapshot}, s.opens, 0).Allowed
	})
	result.Notified = s.late(notified)
	if err != nil {
		return WindowResult{}, err
	}
	if result.Recorded, err = s.recorded(ctx); err != nil {
		return WindowResult{}, err
	}
	done, err := usagesOf(ctx, s.fleet)
	if err != nil {
		return WindowResult{}, err
	}
	result.Worker, result.Temporal = done.Worker.since(opened.Worker), done.Temporal.since(opened.Temporal)
	if result.Started, err = s.started(ctx); err != nil {
		return WindowResult{}, err
	}
	result.Cordoned, err = s.cordoned()
	return result, err
}

// late returns how long after the opening events were; 0 if they were before it.
func (s *windowMeasurement) late(moments []time.Time) Latency {
	var took []time.Duration
	for _, at := range moments {
		took = append(took, max(0, at.Sub(s.opens)))
	}
	return latency(took)
}

func windowName(i int) string { return fmt.Sprintf("w-%d", i) }

func windowSubscriber(i int) string { return fmt.Sprintf("subscriber-%d", i/windowsPerSubscriber) }

const (
	windowsPerSubscriber = 50
	// windowsAtOnce is how many windows are defined at the same time.
	windowsAtOnce = 16
	// windowsBefore is how many windows are defined to estimate the setup time.
	windowsBefore = 3 * windowsAtOnce
)

// defineSome defines windows that open tomorrow, and returns the time that each took.
func (s *windowMeasurement) defineSome(ctx context.Context) (time.Duration, error) {
	took, err := timed(func() error {
		return s.defineAll(ctx, s.windows.Windows, s.windows.Windows+windowsBefore, time.Now().AddDate(0, 0, 1))
	})
	return took / windowsBefore, err
}

// defineAll defines a range of windows, and subscribes workflows without a worker to them: their histories contain the updates
// that they receive.
func (s *windowMeasurement) defineAll(ctx context.Context, from, to int, opens time.Time) error {
	var group errgroup.Group
	group.SetLimit(windowsAtOnce)
	for i := from; i < to; i++ {
		group.Go(func() error { return s.define(ctx, i, opens) })
	}
	if err := group.Wait(); err != nil {
		return err
	}
	_, err := s.notified(ctx, from, to, func(snapshot windows.Snapshot) bool { return snapshot.Trouble == "" })
	return err
}

func (s *windowMeasurement) define(ctx context.Context, i int, opens time.Time) error {
	object := drydockv1.MaintenanceWindow{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: windowName(i)},
		Spec: drydockv1.MaintenanceWindowSpec{TimeZone: "UTC", WindowTimes: drydockv1.WindowTimes{
			Recurrence: opens.UTC().Format("DTSTART:20060102T150405\nRRULE:FREQ=DAILY"), Duration: "1h",
		}},
	}
	options := temporal.MaintenanceWindowOptions(object.Namespace + "/" + object.Name)
	defined, err := s.server.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: s.server.NewWithStartWorkflowOperation(options, temporal.MaintenanceWindow),
		UpdateOptions: client.UpdateWorkflowOptions{
			WorkflowID: options.ID, UpdateName: temporal.UpdateDefine, Args: []any{windows.DefineRequest{Object: object}}, WaitForStage: client.WorkflowUpdateStageCompleted,
		},
	})
	if err != nil {
		return err
	}
	if err := defined.Get(ctx, nil); err != nil {
		return err
	}
	subscriber, err := s.server.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: windowSubscriber(i), TaskQueue: "no-worker"}, "Subscriber")
	if err != nil {
		return err
	}
	subscription := temporal.Subscription{WorkflowID: subscriber.GetID(), FirstRunID: subscriber.GetRunID()}
	return s.server.SignalWorkflow(ctx, options.ID, "", temporal.SignalSubscribeWindow, subscription)
}

// notified waits until the subscribers of a range of windows have received a matching snapshot of each, and returns the times.
func (s *windowMeasurement) notified(ctx context.Context, from, to int, matches func(windows.Snapshot) bool) ([]time.Time, error) {
	var times []time.Time
	for first := from; first < to; {
		end := min(to, (first/windowsPerSubscriber+1)*windowsPerSubscriber)
		missing := map[string]bool{}
		for i := first; i < end; i++ {
			missing[namespace+"/"+windowName(i)] = true
		}
		_, err := s.firstEvent(ctx, windowSubscriber(first), func(event *historypb.HistoryEvent) (bool, error) {
			signal := event.GetWorkflowExecutionSignaledEventAttributes()
			if signal == nil {
				return false, nil
			}
			var snapshot windows.Snapshot
			if err := converter.GetDefaultDataConverter().FromPayloads(signal.Input, &snapshot); err != nil {
				return false, fmt.Errorf("read the notifications of %s: %w", windowSubscriber(first), err)
			}
			if missing[snapshot.Window] && matches(snapshot) {
				delete(missing, snapshot.Window)
				times = append(times, event.EventTime.AsTime())
			}
			return len(missing) == 0, nil
		})
		if err != nil {
			return nil, err
		}
		first = end
	}
	return times, nil
}

// firstEvent waits for the first event of a workflow that matches, and returns its time.
func (s *windowMeasurement) firstEvent(ctx context.Context, id string, matches func(*historypb.HistoryEvent) (bool, error)) (time.Time, error) {
	for events := s.server.GetWorkflowHistory(ctx, id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); ; {
		event, err := events.Next()
		if err != nil {
			return time.Time{}, fmt.Errorf("read the history of %s: %w", id, err)
		}
		if found, err := matches(event); found || err != nil {
			return event.EventTime.AsTime(), err
		}
	}
}

// recorded waits until all windows have recorded their opening.
func (s *windowMeasurement) recorded(ctx context.Context) (Latency, error) {
	var recorded []time.Time
	for i := range s.windows.Windows {
		at, err := s.firstEvent(ctx, temporal.MaintenanceWindowPrefix+namespace+"/"+windowName(i), func(event *historypb.HistoryEvent) (bool, error) {
			return event.GetUpsertWorkflowSearchAttributesEventAttributes() != nil && event.EventTime.AsTime().After(s.opens), nil
		})
		if err != nil {
			return Latency{}, err
		}
		recorded = append(recorded, at)
	}
	return s.late(recorded), nil
}

// started returns when the waiting maintenances started.
func (s *windowMeasurement) started(ctx context.Context) (Latency, error) {
	var started []time.Time
	for _, node := range s.nodes() {
		at, err := s.firstEvent(ctx, temporal.NodeMaintenanceID(s.spoke.Name, namespace, node), func(event *historypb.HistoryEvent) (bool, error) {
			return event.GetWorkflowTaskCompletedEventAttributes() != nil && event.EventTime.AsTime().After(s.opens), nil
		})
		if err != nil {
			return Latency{}, err
		}
		started = append(started, at)
	}
	return s.late(started), nil
}

// startMaintenances starts the waiting maintenances, one for each window.
func (s *windowMeasurement) startMaintenances(ctx context.Context) error {
	for i, node := range s.nodes() {
		window := drydockv1.WindowName(windowName(i * s.windows.Windows / s.windows.Maintenances))
		if err := s.startMaintenance(ctx, node, window); err != nil {
			return err
		}
	}
	return nil
}

// startScheduler maintains a node without a window, because a new scheduler grants no slot for some seconds.
func (s *windowMeasurement) startScheduler(ctx context.Context) error {
	return errors.Join(s.startMaintenance(ctx, fmt.Sprintf("worker-%d", s.windows.Maintenances+1)), s.awaitCordons(ctx, 1))
}

func (s *windowMeasurement) startMaintenance(ctx context.Context, node string, windows ...drydockv1.WindowName) error {
	file, err := yaml.Marshal(&maintenancev1.NodeMaintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "bench.example.com", NodeName: node, MaintenanceWindows: windows},
	})
	if err != nil {
		return err
	}
	start := s.fleet.Command(ctx, "node", "maintain", "-f", "-", "--cluster", s.spoke.Name)
	start.Stdin = bytes.NewReader(file)
	if output, err := start.CombinedOutput(); err != nil {
		return fmt.Errorf("start the maintenance of %s: %w: %s", node, err, output)
	}
	return nil
}

// awaitCordons waits until that many nodes are cordoned. They stay cordoned, because the work on them never ends.
func (s *windowMeasurement) awaitCordons(ctx context.Context, count int) error {
	return s.fleet.Await(ctx, s.spoke, counted(count, "node")+" cordoned", []k8sclient.Object{&corev1.Node{}}, func(ctx context.Context, reader k8sclient.Reader) (bool, error) {
		var nodes corev1.NodeList
		err := reader.List(ctx, &nodes)
		cordoned := 0
		for _, node := range nodes.Items {
			if node.Spec.Unschedulable {
				cordoned++
			}
		}
		return cordoned == count, err
	})
}

// cordoned reads the delay of the cordons from the audit log. It returns an error if a node was cordoned before its window opened.
func (s *windowMeasurement) cordoned() (Latency, error) {
	actions, err := fleet.Actions(s.spoke)
	if err != nil {
		return Latency{}, err
	}
	var took []time.Duration
	for _, action := range actions {
		switch {
		case action.What != fleet.ActionCordon || !slices.Contains(s.nodes(), action.Object):
		case action.Received.Before(s.opens):
			return Latency{}, fmt.Errorf("%s was cordoned %s before its window opened", action.Object, s.opens.Sub(action.Received))
		default:
			took = append(took, action.At.Sub(s.opens))
		}
	}
	if len(took) != s.windows.Maintenances {
		return Latency{}, fmt.Errorf("the audit log has %d cordons, not %d", len(took), s.windows.Maintenances)
	}
	return latency(took), nil
}
