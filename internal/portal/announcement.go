package portal

import (
	"slices"
	"strings"
	"time"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/windows"
)

// Announcement is the message of a window to the portal that shows its openings.
type Announcement struct {
	// Window is the name of the window, as namespace/name.
	Window string `json:"window"`
	// Number grows with every announcement.
	Number int64 `json:"number"`
	// Portal is the name of the portal that shows the window; any other removes it. Empty: none.
	Portal         string                    `json:"portal,omitempty"`
	Title          string                    `json:"title,omitempty"`
	Description    string                    `json:"description,omitempty"`
	Components     []string                  `json:"components,omitempty"`
	AffectedStatus sreportalv1.ServiceStatus `json:"affectedStatus,omitempty"`
	// Openings are the current one, and the next.
	Openings []windows.Opening `json:"openings,omitempty"`
	// Bytes are the size of each, as the portal counts it.
	Bytes int `json:"bytes,omitempty"`
}

// Inquiry requests an announcement of a window.
type Inquiry struct {
	Portal string `json:"portal"`
	// Shown: the portal shows openings of the window, and needs an answer even if it should not.
	Shown bool `json:"shown,omitempty"`
}

// RefusedWindow is a window that is not shown, and why.
type RefusedWindow struct {
	Window string `json:"window"`
	Why    string `json:"why"`
	// Bytes are its size. The portal remembers it until then: without a later announcement it is gone.
	Bytes int       `json:"bytes"`
	Until time.Time `json:"until"`
}

// announcedOpenings is how many upcoming openings a window announces.
const announcedOpenings = 3

// Shows returns the portal that shows a window; empty: none. A window without a title, or with an invalid name of a portal, is not shown.
func Shows(window *windows.State) string {
	if window.Window == nil || window.Window.Spec.Title == "" || CheckName(window.Window.Spec.PortalRef) != nil {
		return ""
	}
	return window.Window.Spec.PortalRef
}

// Announce returns the announcement of the window with that name. It includes an emergency override. An opening that an exclusion closes is not
// announced until the exclusion ends.
func Announce(window *windows.State, name string, number int64, now time.Time) Announcement {
	a := Announcement{Window: name, Number: number, Portal: Shows(window)}
	if a.Portal == "" {
		return a
	}
	spec := window.Window.Spec
	a.Title, a.Description, a.Components, a.AffectedStatus = spec.Title, spec.Description, spec.Components, spec.AffectedStatus
	if o := window.Override; o != nil && now.Before(o.Until) {
		a.Openings = append(a.Openings, windows.Opening{Start: o.Since, End: o.Until, Begun: true})
	}
	if window.Running != nil && window.Excluding(now) == nil {
		a.Openings = append(a.Openings, *window.Running)
	}
	ahead := window.Upcoming()
	a.Openings = append(a.Openings, ahead[:min(len(ahead), announcedOpenings)]...)
	return a
}

// Receive stores an announcement, and reports whether anything shown has changed. It replaces the announcement before.
func (p *Portal) Receive(a Announcement, now time.Time) bool {
	p.Advance(now)
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
		return false // it is not for this portal
	}
	p.changed(now)
	return true
}

// admit adds a window, or records why it is not shown.
func (p *Portal) admit(a Announcement) bool {
	a.Bytes = lengthOf(append(slices.Clone(a.Components), a.Window, a.Window, a.Title, a.Description)...)
	if err := p.checkCapacity(ApplyRequest{}, a); err != nil {
		if len(p.Refused) < maxRefused {
			p.Refused = append(p.Refused, RefusedWindow{Window: a.Window, Why: err.Error(), Bytes: a.Bytes, Until: a.Openings[len(a.Openings)-1].End})
		}
		return false
	}
	for _, opening := range a.Openings {
		p.removePast(a.Window, opening.Start) // its end was extended after it had passed
	}
	p.Windows = append(p.Windows, a)
	slices.SortFunc(p.Windows, func(a, b Announcement) int { return strings.Compare(a.Window, b.Window) })
	return true
}

// end moves started openings that the window no longer has to the past ones.
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

// maxRefused limits the refused windows that are remembered.
const maxRefused = 20

// reconsider requests announcements of windows for which there is capacity now.
func (p *Portal) reconsider() {
	p.Refused = slices.DeleteFunc(p.Refused, func(r RefusedWindow) bool {
		if p.checkCapacity(ApplyRequest{}, Announcement{Bytes: r.Bytes}) != nil {
			return false
		}
		p.Silent = append(p.Silent, r.Window)
		return true
	})
}

// Overdue advances the state, and returns the windows to query, each once: those that should have announced their start and have not, and those for
// which there is capacity now.
func (p *Portal) Overdue(now time.Time) []string {
	p.Advance(now)
	silent := p.Silent
	p.Silent = nil
	return silent
}

// RemoveWindow removes the upcoming openings of a deleted window. The current one is shown until its end.
func (p *Portal) RemoveWindow(window string, now time.Time) {
	p.Advance(now)
	for i := range p.Windows {
		if a := &p.Windows[i]; a.Window == window {
			a.Openings = slices.DeleteFunc(slices.Clone(a.Openings), func(o windows.Opening) bool { return !o.Begun })
		}
	}
	p.changed(now)
}
