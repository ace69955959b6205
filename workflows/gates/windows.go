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

// Windows is what a workflow knows of the maintenance windows that it names. A closed window holds like an emergency stop: see holdKeeper, which
// contains it.
type Windows struct {
	ctx workflow.Context
	// Names of the windows, as namespace/name; empty: no windows.
	Names []string
	told  map[string]windows.Snapshot
	// Version grows with every change.
	Version int64
	// clusters returns the clusters whose windows must be known. selected has the windows of each, by the selectors of the windows; nil: unknown.
	clusters func() []string
	selected map[string][]string
	// carriedSelection are the windows of each cluster as the run before carried them over.
	carriedSelection [][]int
	// unknown is since when selected is nil.
	unknown time.Time
	// outdated: a window has changed since the last selection, and labels may have changed, too.
	outdated bool
	// trouble is why the selection failed.
	trouble   string
	decisions map[string]decision
	changed   func()
}

// CarriedWindows is what a run carries over of the windows it knows.
type CarriedWindows struct {
	Told    []windows.Snapshot `json:"told,omitempty"`
	Version int64              `json:"version,omitempty"`
	// Unknown is since when the windows of the clusters are unknown; the zero time: they are known.
	Unknown time.Time `json:"unknown,omitzero"`
	// Selected are the windows, by their index in Told, of each remaining cluster, in the order of the plan. Absent: every window is for every cluster, or
	// they are unknown.
	Selected [][]int `json:"selected,omitempty"`
}

func (k *Windows) Carry() CarriedWindows {
	carried := CarriedWindows{Version: k.Version, Selected: k.selectedPlaces()}
	if !k.Known() {
		carried.Unknown = k.unknown
	}
	for _, name := range k.Names {
		carried.Told = append(carried.Told, k.told[name])
	}
	return carried
}

func (k *Windows) Restore(carried CarriedWindows) {
	k.Version, k.unknown, k.told, k.carriedSelection = carried.Version, carried.Unknown, map[string]windows.Snapshot{}, carried.Selected
	for _, standing := range carried.Told {
		k.told[standing.Window] = standing
	}
}

// QualifiedNames returns the names of windows as namespace/name; a name without a namespace is in that of the object.
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
	kit.OnSignal(ctx, temporal.SignalWindow, "The state of a maintenance window.", func(standing windows.Snapshot) {
		known := k.told[standing.Window]
		if slices.Contains(k.Names, standing.Window) && standing.Number > known.Number {
			//workflowcheck:ignore to compare values has no order that shows
			if !reflect.DeepEqual(standing.Selector, known.Selector) {
				k.invalidate(workflow.Now(ctx))
			}
			k.told[standing.Window] = standing
			k.refresh()
		}
	})
}

// invalidate records that the windows of the clusters are unknown from now on.
func (k *Windows) invalidate(now time.Time) {
	if k.Known() || k.unknown.IsZero() {
		k.unknown = now
	}
	k.selected = nil
}

// refresh records that a window has changed.
func (k *Windows) refresh() {
	k.outdated = true
	k.notify()
}

// notify wakes the parts of the workflow that wait for a change.
func (k *Windows) notify() {
	k.Version++
	k.changed()
}

// Follow subscribes to windows. A window counts as closed until its state is known.
func (k *Windows) Follow(ctx workflow.Context, names []string, clusters func() []string) {
	if len(names) == 0 || len(k.Names) > 0 {
		return
	}
	k.ctx, k.Names, k.clusters = ctx, names, clusters
	k.invalidate(workflow.Now(ctx))
	if k.told == nil {
		k.told = map[string]windows.Snapshot{}
	}
	k.restoreSelection()
	for _, name := range names {
		workflow.GoNamed(ctx, "follow window "+name, func(ctx workflow.Context) { k.keepFollowing(ctx, name) })
	}
	workflow.GoNamed(ctx, "select windows", k.keepSelecting)
	k.refresh()
}

// notificationGrace is how long after an expected notification a window is asked again: its workflow may have been terminated.
const notificationGrace = time.Minute

// pollInterval is how often a window is asked when no notification is expected: its workflow may have been terminated, too.
const pollInterval = time.Hour

// keepFollowing subscribes to a window, and again when an expected notification is missing. An opening that the window has confirmed starts without
// another notification.
func (k *Windows) keepFollowing(ctx workflow.Context, name string) {
	info := workflow.GetInfo(ctx)
	in := windowsactivities.SubscribeToWindowInput{Window: name, Subscription: temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}}
	retrier := kit.HubRetrier(nil)
	var hub *windowsactivities.Activities
	var last time.Time // of the last notification or subscription
	if k.told[name].Number > 0 {
		last = workflow.Now(ctx)
	}
	for {
		known, now := k.told[name], workflow.Now(ctx)
		until, summary := askAt(known, last), "window "+name+" should have notified"
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
		if k.awaitNews(ctx, name, until, summary) != nil {
			return
		}
		switch {
		case k.told[name].Number != known.Number:
			last = workflow.Now(ctx)
		case opening:
			k.refresh()
		}
	}
}

// askAt returns when to ask a window again whose last notification or subscription was at that instant: at once when there was none.
func askAt(known windows.Snapshot, last time.Time) time.Time {
	switch {
	case last.IsZero():
		return last
	case known.Next != nil && known.Next.Add(notificationGrace).After(last):
		return known.Next.Add(notificationGrace)
	}
	return last.Add(pollInterval)
}

// awaitNews waits until a window notifies, at most until that instant.
func (k *Windows) awaitNews(ctx workflow.Context, name string, until time.Time, summary string) error {
	number := k.told[name].Number
	return kit.AwaitFor(ctx, until.Sub(workflow.Now(ctx)), summary, func() bool { return k.told[name].Number != number })
}

// leave ends the subscriptions.
func (k *Windows) leave(ctx workflow.Context) {
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
	told := make([]windows.Snapshot, len(names))
	for i, name := range names {
		told[i] = k.told[name]
		told[i].Window = name
	}
	return told, true
}

// Hold returns what prevents work that takes that long from starting in a cluster now; nil: nothing. For the empty name it returns only what holds for
// every cluster.
func (k *Windows) Hold(cluster string, need time.Duration) *drydockv1.Hold {
	if len(k.Names) == 0 || cluster == "" && k.selective() {
		return nil
	}
	told, known := k.windowsOf(cluster)
	scope := k.scope(cluster)
	if !known {
		return &drydockv1.Hold{Scope: scope, Window: strings.Join(k.Names, ", "), Reason: k.whyUnknown(), Since: metav1.NewTime(k.unknown)}
	}
	if hold := k.decide(told, need); hold != nil {
		hold := *hold
		hold.Scope = scope
		return &hold
	}
	return nil
}

// whyUnknown describes since when and why the windows of the clusters are unknown.
func (k *Windows) whyUnknown() string {
	why := fmt.Sprintf("unknown since %s which of the windows are for the cluster", k.unknown.UTC().Format(kit.TimeFormat))
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

// closes returns when the open windows of a cluster stop new work, and when they stop the work that has started; nil: none is open, or no end is in sight.
func (k *Windows) closes(cluster string) *emergency.Closing {
	told, known := k.windowsOf(cluster)
	if !known || len(told) == 0 {
		return nil
	}
	verdict := windows.Ask(told, workflow.Now(k.ctx), 0)
	if verdict.LastStart == nil {
		return nil
	}
	closing := &emergency.Closing{At: *verdict.LastStart, Hold: windows.Closing(told, verdict)}
	closing.Hold.Scope = k.scope(cluster)
	if windows.Overrun(told) != drydockv1.OverrunFinish {
		closing.StopsAt = *verdict.Ends
	}
	return closing
}

// decide decides whether windows are open. It caches the decision until something changes: a rollout asks for each of its clusters.
func (k *Windows) decide(told []windows.Snapshot, need time.Duration) *drydockv1.Hold {
	now := workflow.Now(k.ctx)
	key := need.String()
	for _, s := range told {
		key += " " + s.Window
	}
	before := k.decisions[key]
	if before.version == k.Version && before.at.Equal(now) {
		return before.hold
	}
	hold := windows.Closure(told, windows.Ask(told, now, need), now)
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
