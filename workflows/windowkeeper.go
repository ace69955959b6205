package workflows

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// windowKeeper keeps what a workflow knows of the maintenance windows that it names. A window that is closed holds like an emergency stop: see
// holdKeeper, whose part it is.
type windowKeeper struct {
	ctx workflow.Context
	// names of the windows, as namespace/name; none: there is nothing to wait for.
	names []string
	told  map[string]windows.Standing
	// version grows with everything that is told.
	version int64
	// clusters are those of which it must be known which windows are for them; selected has the answer, by the selectors that were told; nil: there is none.
	clusters func() []string
	selected map[string][]string
	// recalled are the windows for each cluster that the run before knew, as it has carried them.
	recalled [][]int
	// unknown is since when there is none.
	unknown time.Time
	// outdated: something was told since that was asked last, and labels may have changed, too.
	outdated bool
	// trouble is why that could not be found out.
	trouble string
	answers map[string]windowAnswer
	changed func()
}

// CarriedWindows is what a run hands to the next one of what it knows of windows.
type CarriedWindows struct {
	Told    []windows.Standing `json:"told,omitempty"`
	Version int64              `json:"version,omitempty"`
	// Unknown is since when it is not known which windows are for which clusters; the zero time: it is known.
	Unknown time.Time `json:"unknown,omitzero"`
	// Selected are the windows, by their places in Told, for each cluster that is left, in the order of the plan. Absent: all are for all, or it is not known.
	Selected [][]int `json:"selected,omitempty"`
}

func (k *windowKeeper) carry() CarriedWindows {
	carried := CarriedWindows{Version: k.version, Selected: k.selectedPlaces()}
	if !k.known() {
		carried.Unknown = k.unknown
	}
	for _, name := range k.names {
		carried.Told = append(carried.Told, k.told[name])
	}
	return carried
}

func (k *windowKeeper) restore(carried CarriedWindows) {
	k.version, k.unknown, k.told, k.recalled = carried.Version, carried.Unknown, map[string]windows.Standing{}, carried.Selected
	for _, standing := range carried.Told {
		k.told[standing.Window] = standing
	}
}

// windowNames are the names that an object gives to windows, those without a namespace in its own.
func windowNames(namespace string, given []drydockv1.WindowName) []string {
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

// listen takes in how windows stand. What was said before what is known counts no more.
func (k *windowKeeper) listen(ctx workflow.Context, changed func()) {
	k.changed = changed
	onSignal(ctx, temporal.SignalWindow, "How a maintenance window stands.", func(standing windows.Standing) {
		known := k.told[standing.Window]
		if slices.Contains(k.names, standing.Window) && standing.Number > known.Number {
			//workflowcheck:ignore to compare values has no order that shows
			if !reflect.DeepEqual(standing.Selector, known.Selector) {
				k.forget(workflow.Now(ctx)) // it answers another question
			}
			k.told[standing.Window] = standing
			k.renew()
		}
	})
}

// forget takes in that it is not known any more which windows are for which clusters.
func (k *windowKeeper) forget(now time.Time) {
	if k.known() || k.unknown.IsZero() {
		k.unknown = now
	}
	k.selected = nil
}

// renew takes in that something was told.
func (k *windowKeeper) renew() {
	k.outdated = true
	k.news()
}

// news makes those ask again who wait.
func (k *windowKeeper) news() {
	k.version++
	k.changed()
}

// follow asks windows to tell how they stand. Until they have, they count as closed.
func (k *windowKeeper) follow(ctx workflow.Context, names []string, clusters func() []string) {
	if len(names) == 0 || len(k.names) > 0 {
		return
	}
	k.ctx, k.names, k.clusters = ctx, names, clusters
	k.forget(workflow.Now(ctx))
	if k.told == nil {
		k.told = map[string]windows.Standing{}
	}
	k.recall()
	for _, name := range names {
		workflow.GoNamed(ctx, "follow window "+name, func(ctx workflow.Context) { k.keepFollowing(ctx, name) })
	}
	workflow.GoNamed(ctx, "which windows are for which clusters", k.keepSelecting)
	k.renew()
}

// saysBy is how long after it should have told something a window is asked once more: its workflow may have been terminated.
const saysBy = time.Minute

// asksEvery is how often a window is asked that says nothing, and need not: its workflow may have been terminated, too.
const asksEvery = time.Hour

// keepFollowing asks a window to tell how it stands, and asks again when it should have told something and has not. An opening that the window has confirmed
// begins without another word.
func (k *windowKeeper) keepFollowing(ctx workflow.Context, name string) {
	info := workflow.GetInfo(ctx)
	in := activities.FollowWindowInput{Window: name, Subscription: temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}}
	insist := insistence{taskQueue: temporal.TaskQueue, waiting: func(workflow.Context, string, string) {}}
	var hub *activities.Windows
	var last time.Time // that it was heard, or asked
	if k.told[name].Number > 0 {
		last = workflow.Now(ctx)
	}
	for {
		known, now := k.told[name], workflow.Now(ctx)
		until, summary := askAt(known, last), "window "+name+" must have said something"
		opens, opening := known.Opens(now)
		if opening = opening && opens.Before(until); opening {
			until, summary = opens, "window "+name+" opens"
		}
		if !until.After(now) {
			if insist.effect(ctx, "ask window "+name+" how it stands", hub.FollowWindow, in, nil) != nil {
				return // cancelled: nothing starts any more
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
			k.renew()
		}
	}
}

// askAt is when a window is asked that has been heard, or asked, last then: at once when it was never.
func askAt(known windows.Standing, last time.Time) time.Time {
	switch {
	case last.IsZero():
		return last
	case known.Next != nil && known.Next.Add(saysBy).After(last):
		return known.Next.Add(saysBy)
	}
	return last.Add(asksEvery)
}

// awaitNews waits until a window says something, but not after that moment.
func (k *windowKeeper) awaitNews(ctx workflow.Context, name string, until time.Time, summary string) error {
	number := k.told[name].Number
	return awaitFor(ctx, until.Sub(workflow.Now(ctx)), summary, func() bool { return k.told[name].Number != number })
}

// leave says that nothing more needs to be told.
func (k *windowKeeper) leave(ctx workflow.Context) {
	info := workflow.GetInfo(ctx)
	for _, name := range k.names {
		subscription := temporal.Subscription{WorkflowID: info.WorkflowExecution.ID, FirstRunID: info.FirstRunID}
		_ = workflow.SignalExternalWorkflow(ctx, temporal.MaintenanceWindowPrefix+name, "", temporal.SignalLeaveWindow, subscription).Get(ctx, nil)
	}
	k.names = nil
}

// asked are the windows for a cluster, by what is known; false: that is not known yet.
func (k *windowKeeper) asked(cluster string) ([]windows.Standing, bool) {
	names := k.names
	if k.selective() {
		selected, known := k.selected[cluster]
		if !known {
			return nil, false
		}
		names = selected
	}
	told := make([]windows.Standing, len(names))
	for i, name := range names {
		told[i] = k.told[name]
		told[i].Window = name
	}
	return told, true
}

// hold returns what keeps something that takes that long from being started in a cluster now; nil: nothing does. Of no particular cluster, with an
// empty name, it is said only when that holds for every cluster.
func (k *windowKeeper) hold(cluster string, need time.Duration) *drydockv1.Hold {
	if len(k.names) == 0 || cluster == "" && k.selective() {
		return nil
	}
	told, known := k.asked(cluster)
	scope := k.scope(cluster)
	if !known {
		return &drydockv1.Hold{Scope: scope, Window: strings.Join(k.names, ", "), Reason: k.whyUnknown(), Since: metav1.NewTime(k.unknown)}
	}
	if hold := k.ask(told, need); hold != nil {
		hold := *hold
		hold.Scope = scope
		return &hold
	}
	return nil
}

// whyUnknown says that it is not known which windows are for which clusters, since when, and why.
func (k *windowKeeper) whyUnknown() string {
	why := fmt.Sprintf("it is not known since %s which of the windows are for the cluster", k.unknown.UTC().Format(clockFormat))
	if k.trouble != "" {
		why += ": " + k.trouble
	}
	return why
}

// scope of what windows hold of a cluster.
func (k *windowKeeper) scope(cluster string) drydockv1.HoldScope {
	if k.selective() {
		return drydockv1.HoldCluster(cluster)
	}
	return drydockv1.HoldAll
}

// closes is when nothing new may be started in a cluster any more, and when what is at work stops, of what is open now; nil: nothing is, or no end is in sight.
func (k *windowKeeper) closes(cluster string) *emergency.Closing {
	told, known := k.asked(cluster)
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

// ask asks windows. The answer is remembered for as long as nothing changes: a rollout asks for each of its clusters.
func (k *windowKeeper) ask(told []windows.Standing, need time.Duration) *drydockv1.Hold {
	now := workflow.Now(k.ctx)
	key := need.String()
	for _, s := range told {
		key += " " + s.Window
	}
	before := k.answers[key]
	if before.version == k.version && before.at.Equal(now) {
		return before.hold
	}
	hold := windows.Closure(told, windows.Ask(told, now, need), now)
	if hold != nil && before.hold != nil && before.hold.Reason == hold.Reason {
		hold.Since = before.hold.Since
	}
	if k.answers == nil {
		k.answers = map[string]windowAnswer{}
	}
	k.answers[key] = windowAnswer{version: k.version, at: now, hold: hold}
	return hold
}

// windowAnswer is what windows have answered, by what was known of them then.
type windowAnswer struct {
	version int64
	at      time.Time
	hold    *drydockv1.Hold
}
