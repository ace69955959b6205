package portal

import (
	"slices"
	"strings"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// Announcement is what a window tells the portal that shows its openings.
type Announcement struct {
	// Window is its name, as namespace/name.
	Window string `json:"window"`
	// Number grows with everything that it tells.
	Number int64 `json:"number"`
	// Portal is the name of the one that shows it; any other forgets it. Empty: none does.
	Portal         string                    `json:"portal,omitempty"`
	Title          string                    `json:"title,omitempty"`
	Description    string                    `json:"description,omitempty"`
	Components     []string                  `json:"components,omitempty"`
	AffectedStatus sreportalv1.ServiceStatus `json:"affectedStatus,omitempty"`
	// Openings are the one at hand, and the next.
	Openings []windows.Opening `json:"openings,omitempty"`
	// Bytes that are said of each, as the portal counts them.
	Bytes int `json:"bytes,omitempty"`
}

// Inquiry asks a window to announce itself.
type Inquiry struct {
	Portal string `json:"portal"`
	// Shown: the portal shows openings of the window, and is to be told also if it should not.
	Shown bool `json:"shown,omitempty"`
}

// RefusedWindow is a window that is not shown, and why.
type RefusedWindow struct {
	Window string `json:"window"`
	Why    string `json:"why"`
	// Bytes are said of it. Until then it is remembered: unless it has told more, it is gone.
	Bytes int       `json:"bytes"`
	Until time.Time `json:"until"`
}

// openingsAnnounced is how many openings ahead a window announces.
const openingsAnnounced = 3

// Shows is the name of the portal that shows a window; empty: none does. One without a title is not shown, nor one that names no possible portal.
func Shows(course *windows.Course) string {
	if course.Window == nil || course.Window.Spec.Title == "" || CheckName(course.Window.Spec.PortalRef) != nil {
		return ""
	}
	return course.Window.Spec.PortalRef
}

// Announce returns what the window of that name tells its portal. Whoever opens it in an emergency announces that, too. An opening that an exclusion keeps
// closed is not announced until that ends.
func Announce(course *windows.Course, name string, number int64, now time.Time) Announcement {
	a := Announcement{Window: name, Number: number, Portal: Shows(course)}
	if a.Portal == "" {
		return a
	}
	spec := course.Window.Spec
	a.Title, a.Description, a.Components, a.AffectedStatus = spec.Title, spec.Description, spec.Components, spec.AffectedStatus
	if o := course.Override; o != nil && now.Before(o.Until) {
		a.Openings = append(a.Openings, windows.Opening{Start: o.Since, End: o.Until, Begun: true})
	}
	if course.Running != nil && course.Excluding(now) == nil {
		a.Openings = append(a.Openings, *course.Running)
	}
	ahead := course.Coming()
	a.Openings = append(a.Openings, ahead[:min(len(ahead), openingsAnnounced)]...)
	return a
}

// Hear takes in what a window tells, and reports whether anything has changed that is shown. What it told before counts no more.
func (p *Portal) Hear(a Announcement, now time.Time) bool {
	p.Pass(now)
	i := slices.IndexFunc(p.Windows, func(known Announcement) bool { return known.Window == a.Window })
	if i >= 0 && p.Windows[i].Number >= a.Number {
		return false
	}
	refused := len(p.Refused)
	p.Refused = slices.DeleteFunc(p.Refused, func(r RefusedWindow) bool { return r.Window == a.Window })
	if i >= 0 {
		before := p.Windows[i]
		p.Windows = slices.Delete(p.Windows, i, i+1)
		if a.Portal == p.Name {
			p.end(before, a, now)
		}
	}
	shown := a.Portal == p.Name && len(a.Openings) > 0 && p.admit(a)
	if i < 0 && !shown && refused == len(p.Refused) {
		return false // it is of no concern here
	}
	p.changed(now)
	return true
}

// admit takes in a window, or records why it is not shown.
func (p *Portal) admit(a Announcement) bool {
	a.Bytes = lengthOf(append(slices.Clone(a.Components), a.Window, a.Window, a.Title, a.Description)...)
	if err := p.checkRoom(ApplyRequest{}, a); err != nil {
		if len(p.Refused) < refusedKept {
			p.Refused = append(p.Refused, RefusedWindow{Window: a.Window, Why: err.Error(), Bytes: a.Bytes, Until: a.Openings[len(a.Openings)-1].End})
		}
		return false
	}
	for _, opening := range a.Openings {
		p.unpast(a.Window, opening.Start) // it was extended in the last moment
	}
	p.Windows = append(p.Windows, a)
	slices.SortFunc(p.Windows, func(a, b Announcement) int { return strings.Compare(a.Window, b.Window) })
	return true
}

// end puts openings that had begun, and that the window does not have any more, to those that are past.
func (p *Portal) end(before, after Announcement, now time.Time) {
	for _, opening := range before.Openings {
		goesOn := slices.ContainsFunc(after.Openings, func(o windows.Opening) bool { return o.Begun && o.Start.Equal(opening.Start) })
		if opening.Begun && !goesOn {
			p.past(before, opening, earliest(opening.End, now))
		}
	}
}

func earliest(a, b time.Time) time.Time {
	if a.Before(b) {
		return a
	}
	return b
}

// refusedKept is how many windows are remembered that are not shown.
const refusedKept = 20

// reconsider has windows asked once more for which there is room now.
func (p *Portal) reconsider() {
	p.Refused = slices.DeleteFunc(p.Refused, func(r RefusedWindow) bool {
		if p.checkRoom(ApplyRequest{}, Announcement{Bytes: r.Bytes}) != nil {
			return false
		}
		p.Silent = append(p.Silent, r.Window)
		return true
	})
}

// Overdue lets time pass, and returns the windows to be asked, each once: those that should have told that they have opened, and have not, and those
// for which there is room now.
func (p *Portal) Overdue(now time.Time) []string {
	p.Pass(now)
	silent := p.Silent
	p.Silent = nil
	return silent
}

// Lose forgets the coming openings of a window that is gone. The one at hand is shown until its end.
func (p *Portal) Lose(window string, now time.Time) {
	p.Pass(now)
	for i := range p.Windows {
		if a := &p.Windows[i]; a.Window == window {
			a.Openings = slices.DeleteFunc(slices.Clone(a.Openings), func(o windows.Opening) bool { return !o.Begun })
		}
	}
	p.changed(now)
}
