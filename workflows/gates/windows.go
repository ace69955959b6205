package gates

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	windowsactivities "drydock.dev/drydock/activities/windows"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/kit"
)

// Windows has the state of the maintenance windows of a workflow. A closed window prevents new work like the emergency stop; see Holds.
type Windows struct {
	ctx workflow.Context
	// Names of the windows, as namespace/name.
	Names     []string
	snapshots map[string]windows.Snapshot
	// Version grows with every change.
	Version int64
	// clusters returns the clusters whose windows must be known. selected has the windows that select each cluster; nil: unknown.
	clusters func() []string
	selected map[string][]string
	// carriedSelection is the selection of the previous run.
	carriedSelection [][]int
	// unknownSince is the time since which selected is nil.
	unknownSince time.Time
	// selectionOutdated: a window has changed since the last selection. Labels of clusters may have changed, too.
	selectionOutdated bool
	// trouble is the error of a failed selection.
	trouble   string
	decisions map[string]decision
	changed   func()
}

// CarriedWindows is the state of windows that a run carries to the next one.
type CarriedWindows struct {
	Snapshots []windows.Snapshot `json:"snapshots,omitempty"`
	Version   int64              `json:"version,omitempty"`
	// UnknownSince is the time since which the windows of the clusters are unknown; zero: they are known.
	UnknownSince time.Time `json:"unknownSince,omitzero"`
	// Selected has, for each remaining cluster in the order of the plan, the indexes of its windows in Snapshots. Absent: every window is for every
	// cluster, or the selection is unknown.
	Selected [][]int `json:"selected,omitempty"`
}

// Carry returns the state for the next run.
func (k *Windows) Carry() CarriedWindows {
	carried := CarriedWindows{Version: k.Version, Selected: k.selectedIndexes()}
	if !k.Known() {
		carried.UnknownSince = k.unknownSince
	}
	for _, name := range k.Names {
		carried.Snapshots = append(carried.Snapshots, k.snapshots[name])
	}
	return carried
}

// Restore restores the state of the previous run.
func (k *Windows) Restore(carried CarriedWindows) {
	k.Version, k.unknownSince, k.snapshots, k.carriedSelection = carried.Version, carried.UnknownSince, map[string]windows.Snapshot{}, carried.Selected
	for _, snapshot := range carried.Snapshots {
		k.snapshots[snapshot.Window] = snapshot
	}
}

// QualifiedNames returns the names of windows as namespace/name. The default is the namespace of the object.
func QualifiedNames(namespace string, given []drydockv1.WindowName) []string {
	var names []string
	for _, given := range given {
		name := string(given)
		if !strings.Contains(name, "/") {
			name = namespace + "/" + name
		}
		names = append(names, name)
	}
	return names
}

// Listen handles the signals with the state of windows. An older state is ignored.
func (k *Windows) Listen(ctx workflow.Context, changed func()) {
	k.changed = changed
	kit.OnSignal(ctx, temporal.SignalWindow, "The state of a maintenance window.", func(snapshot windows.Snapshot) {
		known := k.snapshots[snapshot.Window]
		if slices.Contains(k.Names, snapshot.Window) && snapshot.Number > known.Number {
			//workflowcheck:ignore a comparison has no order
			if !reflect.DeepEqual(snapshot.Selector, known.Selector) {
				k.invalidate(workflow.Now(ctx))
			}
			k.snapshots[snapshot.Window] = snapshot
			k.refresh()
		}
	})
}

// invalidate drops the selection. The windows of the clusters are unknown from now on.
func (k *Windows) invalidate(now time.Time) {
	if k.Known() || k.unknownSince.IsZero() {
		k.unknownSince = now
	}
	k.selected = nil
}

// refresh records a change of a window.
func (k *Windows) refresh() {
	k.selectionOutdated = true
	k.notify()
}

// notify wakes the parts of the workflow that wait for a change.
func (k *Windows) notify() {
	k.Version++
	k.changed()
}

// Subscribe subscribes to windows. A window counts as closed until its state is known.
func (k *Windows) Subscribe(ctx workflow.Context, names []string, clusters func() []string) {
	if len(names) == 0 || len(k.Names) > 0 {
		return
	}
	k.ctx, k.Names, k.clusters = ctx, names, clusters
	k.invalidate(workflow.Now(ctx))
	if k.snapshots == nil {
		k.snapshots = map[string]windows.Snapshot{}
	}
	k.restoreSelection()
	for _, name := range names {
		workflow.GoNamed(ctx, "subscribe to window "+name, func(ctx workflow.Context) { k.keepSubscribed(ctx, name) })
	}
	workflow.GoNamed(ctx, "select windows", k.selectOnChange)
	k.refresh()
}

// notificationGrace is the delay of an expected notification after which the workflow subscribes again: the window may have been terminated.
const notificationGrace = time.Minute

// pollInterval is the interval of subscriptions while no notification is expected: the window may have been terminated.
const pollInterval = time.Hour

// keepSubscribed subscribes to a window, and again when an expected notification is missing. A confirmed opening starts without another
// notification.
func (k *Windows) keepSubscribed(ctx workflow.Context, name string) {
	info := workflow.GetInfo(ctx)
	in := windowsactivities.SubscribeToWindowInput{Window: name, Subscription: temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}}
	retrier := kit.HubRetrier(nil)
	var hub *windowsactivities.Activities
	var last time.Time // of the last notification or subscription
	if k.snapshots[name].Number > 0 {
		last = workflow.Now(ctx)
	}
	for {
		known, now := k.snapshots[name], workflow.Now(ctx)
		until, summary := nextSubscription(known, last), "window "+name+" is late with a notification"
		opens, opening := known.Opens(now)
		if opening = opening && opens.Before(until); opening {
			until, summary = opens, "window "+name+" opens"
		}
		if !until.After(now) {
			if retrier.Run(ctx, "subscribe to window "+name, hub.SubscribeToWindow, in, nil) != nil {
				return // cancelled
			}
			last = workflow.Now(ctx)
			continue
		}
		if k.awaitNotification(ctx, name, until, summary) != nil {
			return
		}
		switch {
		case k.snapshots[name].Number != known.Number:
			last = workflow.Now(ctx)
		case opening:
			k.refresh()
		}
	}
}

// nextSubscription returns when to subscribe again. last is the time of the last notification or subscription; zero: subscribe now.
func nextSubscription(known windows.Snapshot, last time.Time) time.Time {
	switch {
	case last.IsZero():
		return last
	case known.Next != nil && known.Next.Add(notificationGrace).After(last):
		return known.Next.Add(notificationGrace)
	}
	return last.Add(pollInterval)
}

// awaitNotification waits for a notification of a window, at most until that instant.
func (k *Windows) awaitNotification(ctx workflow.Context, name string, until time.Time, summary string) error {
	number := k.snapshots[name].Number
	return kit.AwaitFor(ctx, until.Sub(workflow.Now(ctx)), summary, func() bool { return k.snapshots[name].Number != number })
}

// unsubscribe ends the subscriptions.
func (k *Windows) unsubscribe(ctx workflow.Context) {
	info := workflow.GetInfo(ctx)
	for _, name := range k.Names {
		subscription := temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}
		_ = workflow.SignalExternalWorkflow(ctx, temporal.MaintenanceWindowPrefix+name, "", temporal.SignalUnsubscribeWindow, subscription).Get(ctx, nil)
	}
	k.Names = nil
}

// windowsOf returns the windows of a cluster; false: they are unknown.
func (k *Windows) windowsOf(cluster string) ([]windows.Snapshot, bool) {
	names := k.Names
	if k.selective() {
		selected, known := k.selected[cluster]
		if !known {
			return nil, false
		}
		names = selected
	}
	snapshots := make([]windows.Snapshot, len(names))
	for i, name := range names {
		snapshots[i] = k.snapshots[name]
		snapshots[i].Window = name
	}
	return snapshots, true
}

// Hold returns the hold that prevents the start of work of that length in a cluster now; nil: none. For the empty name it returns only a hold of every
// cluster.
func (k *Windows) Hold(cluster string, need time.Duration) *drydockv1.Hold {
	if len(k.Names) == 0 || cluster == "" && k.selective() {
		return nil
	}
	snapshots, known := k.windowsOf(cluster)
	scope := k.scope(cluster)
	if !known {
		return &drydockv1.Hold{Scope: scope, Window: strings.Join(k.Names, ", "), Reason: k.whyUnknown(), Since: metav1.NewTime(k.unknownSince)}
	}
	if hold := k.decide(snapshots, need); hold != nil {
		hold := *hold
		hold.Scope = scope
		return &hold
	}
	return nil
}

// whyUnknown describes why, and since when, the windows of the clusters are unknown.
func (k *Windows) whyUnknown() string {
	why := fmt.Sprintf("unknown since %s which of the windows are for the cluster", k.unknownSince.UTC().Format(kit.TimeFormat))
	if k.trouble != "" {
		why += ": " + k.trouble
	}
	return why
}

// scope returns the scope of a hold by windows.
func (k *Windows) scope(cluster string) drydockv1.HoldScope {
	if k.selective() {
		return drydockv1.HoldCluster(cluster)
	}
	return drydockv1.HoldAll
}

// closes returns when the open windows of a cluster stop new work, and when they stop running work; nil: none is open, or no end is known.
func (k *Windows) closes(cluster string) *emergency.Closing {
	snapshots, known := k.windowsOf(cluster)
	if !known || len(snapshots) == 0 {
		return nil
	}
	verdict := windows.Ask(snapshots, workflow.Now(k.ctx), 0)
	if verdict.LastStart == nil {
		return nil
	}
	closing := &emergency.Closing{At: *verdict.LastStart, Hold: windows.Closing(snapshots, verdict)}
	closing.Hold.Scope = k.scope(cluster)
	if windows.Overrun(snapshots) != drydockv1.OverrunFinish {
		closing.StopsAt = *verdict.Ends
	}
	return closing
}

// decide decides whether windows are open. It caches the decision until something changes, because a rollout asks for each of its clusters.
func (k *Windows) decide(snapshots []windows.Snapshot, need time.Duration) *drydockv1.Hold {
	now := workflow.Now(k.ctx)
	key := need.String()
	for _, s := range snapshots {
		key += " " + s.Window
	}
	before := k.decisions[key]
	if before.version == k.Version && before.at.Equal(now) {
		return before.hold
	}
	hold := windows.Closure(snapshots, windows.Ask(snapshots, now, need), now)
	if hold != nil && before.hold != nil && before.hold.Reason == hold.Reason {
		hold.Since = before.hold.Since
	}
	if k.decisions == nil {
		k.decisions = map[string]decision{}
	}
	k.decisions[key] = decision{version: k.Version, at: now, hold: hold}
	return hold
}

// decision is a cached decision.
type decision struct {
	version int64
	at      time.Time
	hold    *drydockv1.Hold
}
