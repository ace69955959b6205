package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	k8sclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// WindowSize is how many maintenance windows open in the same second, and how many node maintenances wait for that, each for a window of its own.
type WindowSize struct {
	Windows      int `json:"windows"`
	Maintenances int `json:"maintenances"`
}

// windowsSuffix follows the size of windows.
const windowsSuffix = "/windows"

// ParseWindowSize reads WINDOWSxMAINTENANCES/windows, such as "1000x20/windows".
func ParseWindowSize(text string) (WindowSize, error) {
	rest, found := strings.CutSuffix(text, windowsSuffix)
	opening, waiting, _ := strings.Cut(rest, "x")
	var size WindowSize
	var err, also error
	size.Windows, err = strconv.Atoi(opening)
	size.Maintenances, also = strconv.Atoi(waiting)
	if err := errors.Join(err, also); err != nil || !found || size.Maintenances < 1 || size.Windows < size.Maintenances {
		return WindowSize{}, fmt.Errorf("size %q is not WINDOWSxMAINTENANCES/windows, with a window for each maintenance, e.g. 1000x20/windows", text)
	}
	return size, nil
}

// String is what ParseWindowSize reads.
func (s WindowSize) String() string {
	return fmt.Sprintf("%dx%d%s", s.Windows, s.Maintenances, windowsSuffix)
}

// WindowResult is how late it is when windows that open in the same second have done so.
type WindowResult struct {
	Size WindowSize `json:"size"`
	// Told is from the instant until who follows a window has been told.
	Told Latency `json:"told"`
	// Cordoned is from the instant until a node is cordoned whose maintenance has waited for it.
	Cordoned Latency `json:"cordoned"`
	// Worker and Temporal are what was used from the instant until all of that was done.
	Worker   Usage `json:"worker"`
	Temporal Usage `json:"temporal"`
}

// runWindows measures windows, each size on a fleet of its own.
func (r *Report) runWindows(ctx context.Context, sizes []WindowSize, progress io.Writer) error {
	for _, size := range sizes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		result, err := windowsOnFleet(ctx, size, progress)
		if err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		r.Windows = append(r.Windows, result)
	}
	return nil
}

func windowsOnFleet(ctx context.Context, size WindowSize, progress io.Writer) (WindowResult, error) {
	f, err := fleet.Start(ctx, fleet.Options{Spokes: 1, Workers: size.Maintenances + 1, Temporal: devstack.TemporalOptions{}, Output: progress})
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
		s := &windowScene{scene: scene{fleet: f, spoke: f.Spokes[0], size: nodes, server: server}, windows: size}
		return s.measure(ctx)
	}()
	return result, errors.Join(err, f.Stop())
}

// windowScene is a spoke whose nodes wait for windows.
type windowScene struct {
	scene
	windows WindowSize
	// opens is when all windows do.
	opens time.Time
}

// How long it takes to start a maintenance at most, and all else that is done beside the windows.
const (
	startingOne = 500 * time.Millisecond
	preparing   = 5 * time.Second
)

func (s *windowScene) measure(ctx context.Context) (WindowResult, error) {
	if err := errors.Join(s.populate(ctx), s.wakeScheduler(ctx)); err != nil {
		return WindowResult{}, err
	}
	took, err := s.defineSome(ctx)
	if err != nil {
		return WindowResult{}, err
	}
	s.opens = time.Now().Add(preparing + time.Duration(s.windows.Maintenances)*startingOne + time.Duration(s.windows.Windows)*took*5/4).Truncate(time.Second)
	if err := errors.Join(s.defineAll(ctx, 0, s.windows.Windows, s.opens), s.startMaintenances(ctx)); err != nil {
		return WindowResult{}, err
	}
	left := time.Until(s.opens)
	if left < 0 {
		return WindowResult{}, fmt.Errorf("the windows were due to open %s before all of them were defined", -left)
	}
	select { // what is waited for is time itself
	case <-time.After(left):
	case <-ctx.Done():
		return WindowResult{}, ctx.Err()
	}
	before, err := usageOfBoth(s.fleet)
	if err != nil {
		return WindowResult{}, err
	}
	if err := s.awaitCordons(ctx, s.windows.Maintenances+1); err != nil {
		return WindowResult{}, err
	}
	result := WindowResult{Size: s.windows}
	if result.Told, err = s.told(ctx); err != nil {
		return WindowResult{}, err
	}
	after, err := usageOfBoth(s.fleet)
	if err != nil {
		return WindowResult{}, err
	}
	result.Worker, result.Temporal = after[0].since(before[0]), after[1].since(before[1])
	result.Cordoned, err = s.cordoned()
	return result, err
}

func windowName(i int) string { return fmt.Sprintf("w-%d", i) }

func windowFollower(i int) string { return fmt.Sprintf("follower-%d", i) }

const (
	// windowsAtOnce is how many windows are defined together.
	windowsAtOnce = 16
	// windowsBefore is how many are defined to see how long that takes.
	windowsBefore = 3 * windowsAtOnce
)

// defineSome defines windows that open tomorrow, and says how long each took.
func (s *windowScene) defineSome(ctx context.Context) (time.Duration, error) {
	took, err := timed(func() error {
		return s.defineAll(ctx, s.windows.Windows, s.windows.Windows+windowsBefore, time.Now().AddDate(0, 0, 1))
	})
	return took / windowsBefore, err
}

// defineAll defines the windows from one number to another, and has each followed by a workflow that nobody works on: what it is told, and when, is in its
// history.
func (s *windowScene) defineAll(ctx context.Context, from, to int, opens time.Time) error {
	var group errgroup.Group
	group.SetLimit(windowsAtOnce)
	for i := from; i < to; i++ {
		group.Go(func() error { return s.define(ctx, i, opens) })
	}
	return group.Wait()
}

func (s *windowScene) define(ctx context.Context, i int, opens time.Time) error {
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
	follower, err := s.server.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: windowFollower(i), TaskQueue: "nobody"}, "Follower")
	if err != nil {
		return err
	}
	subscription := temporal.Subscription{WorkflowID: follower.GetID(), FirstRunID: follower.GetRunID()}
	if err := s.server.SignalWorkflow(ctx, options.ID, "", temporal.SignalFollowWindow, subscription); err != nil {
		return err
	}
	_, err = s.toldAfter(ctx, i, time.Time{})
	return err
}

// toldAfter is when a follower was told something for the first time after an instant.
func (s *windowScene) toldAfter(ctx context.Context, i int, after time.Time) (time.Time, error) {
	events := s.server.GetWorkflowHistory(ctx, windowFollower(i), "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for {
		event, err := events.Next()
		if err != nil {
			return time.Time{}, err
		}
		if at := event.EventTime.AsTime(); event.GetWorkflowExecutionSignaledEventAttributes() != nil && at.After(after) {
			return at, nil
		}
	}
}

// startMaintenances starts those that wait, each for another window.
func (s *windowScene) startMaintenances(ctx context.Context) error {
	for i, node := range s.nodes() {
		window := drydockv1.WindowName(windowName(i * s.windows.Windows / s.windows.Maintenances))
		if err := s.startMaintenance(ctx, node, window); err != nil {
			return err
		}
	}
	return nil
}

// wakeScheduler takes a node out of service that waits for nothing: a scheduler that has begun only now grants nothing for some seconds.
func (s *windowScene) wakeScheduler(ctx context.Context) error {
	return errors.Join(s.startMaintenance(ctx, fmt.Sprintf("worker-%d", s.windows.Maintenances+1)), s.awaitCordons(ctx, 1))
}

func (s *windowScene) startMaintenance(ctx context.Context, node string, waits ...drydockv1.WindowName) error {
	file, err := yaml.Marshal(&maintenancev1.NodeMaintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: node},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "bench.example.com", NodeName: node, MaintenanceWindows: waits},
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

// awaitCordons waits until so many nodes are out of service. They stay so: nobody says that the work on them is done.
func (s *windowScene) awaitCordons(ctx context.Context, count int) error {
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

func (s *windowScene) told(ctx context.Context) (Latency, error) {
	var took []time.Duration
	for i := range s.windows.Windows {
		at, err := s.toldAfter(ctx, i, s.opens)
		if err != nil {
			return Latency{}, err
		}
		took = append(took, at.Sub(s.opens))
	}
	return latency(took), nil
}

// cordoned reads from the audit log how late the nodes were cordoned. It is an error if one was before its window opened.
func (s *windowScene) cordoned() (Latency, error) {
	deeds, err := fleet.Deeds(s.spoke)
	if err != nil {
		return Latency{}, err
	}
	var took []time.Duration
	for _, deed := range deeds {
		switch {
		case deed.What != fleet.DeedCordon || !slices.Contains(s.nodes(), deed.Object):
		case deed.Received.Before(s.opens):
			return Latency{}, fmt.Errorf("%s was cordoned %s before its window opened", deed.Object, s.opens.Sub(deed.Received))
		default:
			took = append(took, deed.At.Sub(s.opens))
		}
	}
	if len(took) != s.windows.Maintenances {
		return Latency{}, fmt.Errorf("the audit log has %d cordons, not %d", len(took), s.windows.Maintenances)
	}
	return latency(took), nil
}
