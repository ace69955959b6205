package windows

import (
	"fmt"
	"reflect"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/edits"
)

// PreviewRequest asks what an edit would do at a moment.
type PreviewRequest struct {
	DefineRequest
	Now time.Time `json:"now"`
	// Schedule is the edited calendar from Now on. The client reads it, because a query cannot run an activity.
	Schedule Schedule `json:"schedule"`
}

// EditPreview is what an edit of a window would do.
type EditPreview = edits.Preview[drydockv1.MaintenanceWindowSpec]

// PreviewEdit returns what an edit would do. follows: an object defines the window, so the same spec again has no effect.
func (c *State) PreviewEdit(r PreviewRequest, follows bool) EditPreview {
	var preview EditPreview
	if c.Window != nil {
		preview.Spec = c.Window.Spec
	}
	before := c.At(r.Now)
	preview.Changed = edits.ChangedFields(preview.Spec, r.Object.Spec, "spec.")
	if len(preview.Changed) == 0 && (follows || len(before.Amendments) == 0) {
		return preview
	}
	if err := r.check(); err != nil {
		preview.Refused = err.Error()
		return preview
	}
	after := before.At(r.Now)
	if before.Running != nil {
		after.Running = new(*before.Running)
	}
	after.Define(r.DefineRequest, r.Schedule, r.Now)
	after.Advance(r.Now)
	preview.Effects = slices.Concat(before.effectsNow(after, r.Now), before.effectsOnWork(after, r.Now), before.droppedAmendments(), before.effectsOnUpcoming(after))
	return preview
}

// effectsNow returns what an edit means for the current opening.
func (c *State) effectsNow(after *State, now time.Time) []string {
	var effects []string
	add := func(format string, args ...any) { effects = append(effects, fmt.Sprintf(format, args...)) }
	switch {
	case c.Window == nil:
		add("the window is defined")
	case c.Cancelled:
		add("the window is no longer cancelled")
	}
	if c.overridden(now) {
		add("the emergency override keeps the window open until %s", clock(c.Override.Until))
	}
	switch excludedBefore, excluded := c.Excluding(now), after.Excluding(now); {
	case after.Running == nil:
		if excluded := after.Schedule.excludedAt(now); excluded != nil && c.Schedule.excludedAt(now) == nil {
			add("an exclusion closes all windows of rollouts and maintenances that name this one, until %s", clock(excluded.End))
		}
	case excluded != nil && excludedBefore != nil:
		add("an exclusion keeps the window closed until %s", clock(excluded.End))
	case excluded != nil:
		add("an exclusion closes the window now, until %s", clock(excluded.End))
	case c.Running == nil:
		add("the window opens now, until %s", clock(after.Running.End))
	case excludedBefore != nil:
		add("the window is open again, until %s", clock(after.Running.End))
	default:
		add("the current opening keeps its end, %s", clock(after.Running.End))
		if rest := after.Schedule.excludedIn(Opening{Start: now, End: after.Running.End}); len(rest) > 0 && !after.Running.Forced {
			add("an exclusion closes the window from %s to %s", clock(rest[0].Start), clock(rest[0].End))
		}
	}
	return effects
}

// effectsOnWork returns what an edit means for work in the current opening.
func (c *State) effectsOnWork(after *State, now time.Time) []string {
	if c.Running == nil || c.Excluding(now) != nil {
		return nil
	}
	var effects []string
	before, edited := c.Window.Spec, after.Window.Spec
	switch {
	case after.Excluding(now) != nil:
		effects = append(effects, "the close: "+overrunText(edited.OnOverrun))
	case before.OnOverrun != edited.OnOverrun:
		effects = append(effects, "when the current opening ends: "+overrunText(edited.OnOverrun))
	}
	if edited.Selector != nil && !reflect.DeepEqual(before.Selector, edited.Selector) {
		effects = append(effects, "the window closes now for clusters that spec.selector does not match")
	}
	return effects
}

// overrunText says what happens to work that is in progress when its window closes.
func overrunText(action drydockv1.OverrunAction) string {
	switch action {
	case drydockv1.OverrunCancel:
		return "nodes in progress return to service"
	case drydockv1.OverrunPause:
		return "nodes in progress finish their step, and wait"
	}
	return "nodes in progress are finished, and no other work starts"
}

// droppedAmendments returns the requested changes of upcoming openings that an edit drops.
func (c *State) droppedAmendments() []string {
	var dropped []string
	for _, a := range c.Amendments {
		what := "extension"
		if a.Cancelled {
			what = "cancellation"
		}
		dropped = append(dropped, fmt.Sprintf("the %s of the opening of %s is dropped", what, clock(a.Start)))
	}
	return dropped
}

// maxOpeningEffects limits the upcoming openings in a preview.
const maxOpeningEffects = 10

// effectsOnUpcoming compares the upcoming openings that both calendars know. An opening that overlaps a former one replaces it.
func (c *State) effectsOnUpcoming(after *State) []string {
	type change struct {
		at   time.Time
		text string
	}
	var changes []change
	known := func(o Opening) bool { return (c.Window == nil || c.Schedule.knows(o)) && after.Schedule.knows(o) }
	edited := after.Upcoming()
	for _, former := range c.Upcoming() {
		i := slices.IndexFunc(edited, func(o Opening) bool { return o.Start.Before(former.End) && former.Start.Before(o.End) })
		switch {
		case i < 0 && known(former):
			changes = append(changes, change{former.Start, "no opening " + rangeText(former)})
		case i >= 0:
			if o := edited[i]; !o.Start.Equal(former.Start) || !o.End.Equal(former.End) {
				changes = append(changes, change{former.Start, "opening " + rangeText(o) + " instead of " + rangeText(former)})
			}
			edited = slices.Delete(edited, i, i+1)
		}
	}
	for _, o := range edited {
		if known(o) {
			changes = append(changes, change{o.Start, "new opening " + rangeText(o)})
		}
	}
	slices.SortStableFunc(changes, func(a, b change) int { return a.at.Compare(b.at) })
	var texts []string
	for _, c := range changes[:min(len(changes), maxOpeningEffects)] {
		texts = append(texts, c.text)
	}
	if more := len(changes) - len(texts); more > 0 {
		texts = append(texts, fmt.Sprintf("changes of %d later openings", more))
	}
	return texts
}

func rangeText(o Opening) string { return clock(o.Start) + " to " + clock(o.End) }
