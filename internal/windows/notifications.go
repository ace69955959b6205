package windows

import (
	"iter"
	"slices"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Notifications of an opening may be due long before subscribers need it. Subscribers receive a few openings some days ahead. For its receivers, the window
// reads the calendar as far ahead as their longest lead.

const (
	// maxNotified limits the upcoming openings with notifications.
	maxNotified = 1000
	// notifiedPerPass limits the openings that are notified in one pass: each needs a workflow per receiver.
	notifiedPerPass = 20
	// minCalendarRange is the shortest range of a calendar that is read ahead.
	minCalendarRange = time.Hour
)

// maxWithin returns the largest number of openings that start within a lead. It counts EXDATEs and excluded openings too, and stops above the limit.
func (w *Window) maxWithin(lead time.Duration) int {
	c := w.calendar
	var dates []time.Time
	for _, date := range c.recurrence.dates {
		dates = append(dates, date.clock(c.zone))
	}
	slices.SortFunc(dates, time.Time.Compare)
	count, rule := maxWithin(slices.Values(dates), lead), c.recurrence.rule
	if rule == nil {
		return count
	}
	if everyDay := count + rule.perDay*int(lead/(24*time.Hour)+1); everyDay <= maxNotified {
		return everyDay
	}
	from := rule.option.Dtstart
	if w.notBefore != nil {
		from = later(from, localTime(*w.notBefore, c.zone))
	}
	to := from.Add(maxRange + lead)
	if w.notAfter != nil {
		to = earlier(to, localTime(*w.notAfter, c.zone))
	}
	if until := rule.until; until != nil {
		to = earlier(to, until.clock(c.zone).Add(time.Second))
	}
	return count + maxWithin(rule.clocks(from, to), lead)
}

// maxWithin returns the largest number of the sorted starts within a lead.
func maxWithin(starts iter.Seq[time.Time], lead time.Duration) int {
	var within []time.Time
	count, checked := 0, 0
	for start := range starts {
		first := slices.IndexFunc(within, func(before time.Time) bool { return start.Sub(before) < lead })
		if first < 0 {
			first = len(within)
		}
		within = append(within[first:], start)
		count = max(count, len(within))
		if checked++; count > maxNotified || checked == maxOccurrences {
			break
		}
	}
	return count
}

// addLater adds later openings whose notifications are due before the calendar is read again. If there are too many, it adds none, and their
// notifications are late.
func (w *Window) addLater(o Schedule, from time.Time) Schedule {
	if w.longestLead == 0 || o.Last {
		return o
	}
	for lookahead := o.Until.Sub(from); lookahead >= minCalendarRange; lookahead /= 2 {
		found, err := w.schedule(o.Until, from.Add(w.longestLead+lookahead))
		if err != nil {
			continue
		}
		further := slices.DeleteFunc(found.Openings, func(opening Opening) bool { return opening.Start.Before(o.Until) })
		due := 0 // the number of openings within the lead
		for due < len(further) && further[due].Start.Before(from.Add(w.longestLead)) {
			due++
		}
		if due > maxNotified {
			return o
		}
		if o.Again = from.Add(lookahead); len(further) > due+maxOpenings {
			o.Again = further[due+maxOpenings].Start.Add(-w.longestLead)
			further = further[:due+maxOpenings]
		}
		o.Later = further
		return o
	}
	return o
}

// again returns when the calendar must be read again.
func (o Schedule) again() time.Time {
	if o.Again.IsZero() {
		return o.Until
	}
	return o.Again
}

// further returns all known upcoming openings, including those that only need notifications.
func (c *State) further() []upcomingOpening {
	return c.amended(slices.Concat(c.Schedule.Openings, c.Schedule.Later))
}

// Lead is a notification of a webhook some time before a start.
type Lead struct {
	// Start of the opening by the calendar.
	Start time.Time `json:"start"`
	URL   string    `json:"url"`
	Lead  string    `json:"lead"`
}

func (l Lead) alike(other Lead) bool { return l.URL == other.URL && l.Lead == other.Lead }

func (l Lead) is(other Lead) bool { return l.alike(other) && l.Start.Equal(other.Start) }

// announce returns the due notifications of at most notifiedPerPass openings.
func (c *State) announce(now time.Time) []Event {
	var events []Event
	sent := 0
	for _, next := range c.further() {
		due := c.announceOne(next, now)
		if events = append(events, due...); len(due) > 0 {
			if sent++; sent == notifiedPerPass {
				break
			}
		}
	}
	return events
}

// announceOne returns the due notifications of an opening. Of several due leads of a receiver, only the shortest counts.
func (c *State) announceOne(next upcomingOpening, now time.Time) []Event {
	var events []Event
	for _, receiver := range c.Window.Spec.Notify {
		var due *drydockv1.Duration
		for _, lead := range receiver.Leads {
			notification := Lead{Start: next.planned, URL: receiver.URL, Lead: string(lead)}
			if now.Before(next.Start.Add(-length(lead))) || c.handled(notification) {
				continue
			}
			c.markHandled(notification)
			if due == nil || length(lead) < length(*due) {
				due = &lead
			}
		}
		if due != nil {
			opening := next.Opening
			events = append(events, Event{Kind: EventUpcoming, Opening: &opening, Lead: string(*due), Receiver: receiver.URL, Message: "opens " + clock(opening.Start)})
		}
	}
	return events
}

// handled reports whether a notification was sent or skipped, or precedes one that was.
func (c *State) handled(notification Lead) bool {
	return slices.ContainsFunc(c.Announced, func(l Lead) bool { return l.alike(notification) && !l.Start.Before(notification.Start) }) &&
		!slices.ContainsFunc(c.Pending, notification.is)
}

// markHandled marks a notification as handled.
func (c *State) markHandled(notification Lead) {
	c.Pending = slices.DeleteFunc(c.Pending, notification.is)
	if !c.handled(notification) {
		c.Announced = append(slices.DeleteFunc(c.Announced, notification.alike), notification)
	}
}

// changeOpenings applies a change that cancels or shortens openings. Other openings may then take place or start earlier. Their notifications become
// pending, even if a later one was handled.
func (c *State) changeOpenings(change func()) {
	before := c.further()
	change()
	for _, next := range c.further() {
		if slices.ContainsFunc(before, func(o upcomingOpening) bool { return o.Start.Equal(next.Start) }) {
			continue
		}
		for _, last := range c.Announced {
			if !last.Start.Before(next.planned) {
				c.Pending = append(c.Pending, Lead{Start: next.planned, URL: last.URL, Lead: last.Lead})
			}
		}
	}
}

// notificationsDue returns the moments at which notifications of upcoming openings are due.
func (c *State) notificationsDue() []time.Time {
	var leads []time.Duration
	for _, receiver := range c.Window.Spec.Notify {
		for _, lead := range receiver.Leads {
			leads = append(leads, length(lead))
		}
	}
	var due []time.Time
	if len(leads) == 0 {
		return due
	}
	for _, next := range c.further() {
		for _, lead := range leads {
			due = append(due, next.Start.Add(-lead))
		}
	}
	return due
}
