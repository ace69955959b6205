package windows

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
)

// maxDuration limits an occurrence.
const maxDuration = 366 * 24 * time.Hour

// maxOverlaps limits the occurrences that overlap before each is cut where the next starts. All of them must be evaluated.
const maxOverlaps = 1000

// New parses a MaintenanceWindow. An error names every invalid field.
func New(object *drydockv1.MaintenanceWindow) (*Window, error) {
	name := object.Name
	if object.Namespace != "" {
		name = object.Namespace + "/" + name
	}
	r := reader{}
	window := r.window(&object.Spec, field.NewPath("spec"))
	window.name = name
	if err := r.invalid.ToAggregate(); err != nil {
		return nil, fmt.Errorf("window %s: %w", name, err)
	}
	if r.incomplete != nil {
		return nil, fmt.Errorf("window %s: %s: invalid; `drydock window preview -f FILE` shows why", name, r.incomplete)
	}
	return window, nil
}

// Check returns the errors in the times of a window to define or edit that a schema cannot express. path is the path of the spec. It does not check
// selectors. A stored window with too long leads stays valid; its notifications are late.
func Check(spec *drydockv1.MaintenanceWindowSpec, path *field.Path) field.ErrorList {
	r := reader{}
	if w := r.window(spec, path); len(r.invalid) == 0 && r.incomplete == nil {
		r.leads(w, spec.Notify, path.Child("notify"))
	}
	return append(r.invalid, checkReceivers(path.Child("notify"), spec.Notify)...)
}

// CheckMaintenance returns the errors in the times of a maintenance that a schema cannot express. path is the path of the spec.
func CheckMaintenance(spec *sreportalv1.MaintenanceSpec, path *field.Path) field.ErrorList {
	r := reader{}
	r.instant(&spec.ScheduledStart, path.Child("scheduledStart"))
	r.instant(&spec.ScheduledEnd, path.Child("scheduledEnd"))
	return r.invalid
}

// reader parses a window and collects all errors.
type reader struct {
	invalid field.ErrorList
	// incomplete is the path of a missing, contradictory or unreadable field that other checks report; nil: none.
	incomplete *field.Path
}

func (r *reader) refuse(path *field.Path, value any, err error) {
	r.invalid = append(r.invalid, field.Invalid(path, value, err.Error()))
}

func (r *reader) window(spec *drydockv1.MaintenanceWindowSpec, path *field.Path) *Window {
	w := &Window{selector: labels.Everything()}
	w.calendar = r.calendar(spec.WindowTimes, spec.TimeZone, path.Child("timeZone"), path)
	for i, given := range spec.Exclusions {
		path := path.Child("exclusions").Index(i)
		zone, zonePath := given.TimeZone, path.Child("timeZone")
		if zone == "" {
			zone, zonePath = spec.TimeZone, nil
		}
		w.exclusions = append(w.exclusions, exclusion{
			name: given.Name, effect: given.Effect, calendar: r.calendar(given.WindowTimes, zone, zonePath, path),
		})
	}
	w.notBefore = r.instant(spec.NotBefore, path.Child("notBefore"))
	w.notAfter = r.instant(spec.NotAfter, path.Child("notAfter"))
	w.cutoff = r.duration(spec.Cutoff, path.Child("cutoff"))
	if longest := w.calendar.maxLength(); w.cutoff > 0 && longest > 0 && w.cutoff >= longest {
		r.refuse(path.Child("cutoff"), string(spec.Cutoff), fmt.Errorf("must be shorter than an opening, which lasts %s: nothing could ever start", longest))
	}
	if spec.Selector != nil {
		selector, err := metav1.LabelSelectorAsSelector(spec.Selector)
		if err != nil {
			r.incomplete = path.Child("selector")
		}
		w.selector = selector
	}
	for i, notification := range spec.Notify {
		for j, lead := range notification.Leads {
			w.longestLead = max(w.longestLead, r.duration(lead, path.Child("notify").Index(i).Child("leads").Index(j)))
		}
	}
	return w
}

// calendar parses the times of a window or of an exclusion. zonePath is nil if the zone comes from the window, which reports its errors.
func (r *reader) calendar(times drydockv1.WindowTimes, zone string, zonePath, path *field.Path) *calendar {
	c := &calendar{gap: times.OnGap, repeat: times.OnRepeat, zone: time.UTC}
	loaded, err := loadZone(zone)
	switch {
	case err == nil:
		c.zone = loaded
	case zonePath != nil && zone != "":
		r.refuse(zonePath, zone, err)
	default:
		r.incomplete = path
	}
	start := r.instant(times.ScheduledStart, path.Child("scheduledStart"))
	end := r.instant(times.ScheduledEnd, path.Child("scheduledEnd"))
	recurs, once := times.Recurrence != "", start != nil && end != nil && end.After(*start)
	if recurs == once || recurs && (times.Duration == "") == (times.EndTime == "") || once && (times.Duration != "" || times.EndTime != "") {
		r.incomplete = path
	}
	if once {
		c.once = &Occurrence{Start: start.UTC(), End: end.UTC(), LocalStart: start.In(c.zone)}
	}
	if recurs {
		r.recurrence(c, times, zone, path)
	}
	return c
}

// recurrence parses the starts of a calendar and the length of its occurrences.
func (r *reader) recurrence(c *calendar, times drydockv1.WindowTimes, zone string, path *field.Path) {
	c.duration = r.duration(times.Duration, path.Child("duration"))
	if _, ok := times.Duration.Elapsed(); ok && (c.duration <= 0 || c.duration > maxDuration) {
		r.refuse(path.Child("duration"), string(times.Duration), fmt.Errorf("must be more than 0s and at most %s", maxDuration))
	}
	var err error
	if c.endTime, err = timeOfDay(times.EndTime); times.EndTime != "" && err != nil {
		r.incomplete = path.Child("endTime")
	}
	if c.recurrence, err = parseRecurrence(times.Recurrence, zone); err != nil {
		r.refuse(path.Child("recurrence"), times.Recurrence, err)
		return
	}
	c.exceptedClocks, c.exceptedStarts = map[int64]bool{}, map[int64]bool{}
	for _, except := range c.recurrence.excepts {
		start, _, _ := c.start(newClocks(c.zone), except)
		c.exceptedStarts[start.Unix()] = true
		if !except.moment { // a moment is equal in all zones
			c.exceptedClocks[except.time.Unix()] = true
		}
	}
	if rule := c.recurrence.rule; rule != nil {
		days := int((c.duration + 24*time.Hour - 1) / (24 * time.Hour))
		if rule.perDay*days > maxOverlaps {
			r.refuse(path.Child("duration"), string(times.Duration), fmt.Errorf("is too long for %d starts a day: more than %d openings would overlap", rule.perDay, maxOverlaps))
		}
	}
}

// maxLength returns the length of the longest opening by local time; 0: unknown.
func (c *calendar) maxLength() time.Duration {
	switch {
	case c.once != nil:
		return c.once.End.Sub(c.once.Start)
	case c.duration > 0:
		return c.duration
	case c.recurrence.rule != nil || len(c.recurrence.dates) > 0:
		return 24 * time.Hour
	}
	return 0
}

// instant parses a moment. It refuses fractions of a second, which the API server does not store.
func (r *reader) instant(given *metav1.Time, path *field.Path) *time.Time {
	if given == nil || given.IsZero() {
		return nil
	}
	if given.Nanosecond() != 0 {
		r.refuse(path, instant(given.Time), errWholeSecond)
	} else if err := checkYear(given.Time); err != nil {
		r.refuse(path, instant(given.Time), err)
	}
	return &given.Time
}

var errWholeSecond = errors.New("must be a whole second")

// duration parses a length of time. The schema checks its syntax.
func (r *reader) duration(given drydockv1.Duration, path *field.Path) time.Duration {
	if given == "" {
		return 0
	}
	elapsed, ok := given.Elapsed()
	if !ok {
		r.incomplete = path
	}
	return elapsed
}

// leads refuses leads within which too many openings start.
func (r *reader) leads(w *Window, receivers []drydockv1.WindowNotification, path *field.Path) {
	for i, receiver := range receivers {
		for j, lead := range receiver.Leads {
			if w.maxWithin(length(lead)) > maxNotified {
				r.refuse(path.Index(i).Child("leads").Index(j), string(lead),
					fmt.Errorf("is too long for a window that opens so often: notifications of more than %d openings would be sent ahead", maxNotified))
			}
		}
	}
}

// timeOfDay parses 04:00 or 04:00:00 as the time since midnight.
func timeOfDay(text string) (time.Duration, error) {
	t, err := time.Parse(time.TimeOnly, text)
	if err != nil {
		t, err = time.Parse("15:04", text)
	}
	return t.Sub(t.Truncate(24 * time.Hour)), err
}
