package windows

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/teambition/rrule-go"
)

// Limits of a rule, which bound the work of its evaluation. A rule beyond them is a mistake.
const (
	maxInterval = 1000
	maxCount    = 10_000
	maxPerDay   = 24 * 12
)

// A year and a month have at most this many of one day of the week.
const (
	maxWeeks        = 53
	maxWeeksOfMonth = 5
)

// parts are the parts of an RRULE, by name.
type parts map[string]string

func (p parts) has(names ...string) bool {
	return slices.ContainsFunc(names, func(name string) bool { return p[name] != "" })
}

// parseRule parses the value of an RRULE. anchor is its start; nil: it has none. The rrule library accepts rules that RFC 5545 forbids, misreads some rules,
// and loops forever on rules that never occur. parseRule refuses those.
func parseRule(text string, anchor *time.Time) (*rule, error) {
	parsed, err := splitRule(text)
	if err != nil {
		return nil, err
	}
	if err := parsed.check(); err != nil {
		return nil, err
	}
	if err := parsed.checkComplete(anchor); err != nil {
		return nil, err
	}
	r := &rule{}
	if text := parsed["UNTIL"]; text != "" {
		until, err := parsePoint(text)
		if err != nil {
			return nil, fmt.Errorf("UNTIL: %w", err)
		}
		r.until = &until
	}
	option, err := rrule.StrToROption(parsed.except("UNTIL"))
	if err != nil {
		return nil, fmt.Errorf("cannot be read: %w", err)
	}
	r.option = *option
	if err := r.checkNumbers(parsed); err != nil {
		return nil, err
	}
	r.complete(anchor)
	return r, r.checkHappens()
}

// ruleParts are the names of the parts of an RRULE in RFC 5545.
var ruleParts = []string{
	"FREQ", "INTERVAL", "WKST", "COUNT", "UNTIL", "BYSETPOS", "BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND",
}

func splitRule(text string) (parts, error) {
	parsed := parts{}
	for part := range strings.SplitSeq(text, ";") {
		name, value, _ := strings.Cut(part, "=")
		switch {
		case !slices.Contains(ruleParts, name):
			return nil, fmt.Errorf("%q is not one of %s", name, strings.Join(ruleParts, ", "))
		case value == "":
			return nil, fmt.Errorf("%s has no value", name)
		case parsed.has(name):
			return nil, fmt.Errorf("%s is given twice", name)
		}
		parsed[name] = value
	}
	return parsed, parsed.checkIntegers()
}

// checkIntegers refuses invalid numbers.
func (p parts) checkIntegers() error {
	for _, name := range ruleParts {
		switch value := p[name]; name {
		case "FREQ", "WKST", "UNTIL", "BYDAY":
		case "INTERVAL", "COUNT":
			if strings.Contains(value, ",") {
				return fmt.Errorf("%s=%s: must be one number", name, value)
			}
			fallthrough
		default:
			if p.has(name) && (!integers.MatchString(value) || strings.HasSuffix(value, ",")) {
				return fmt.Errorf("%s=%s: must be whole numbers, of at most 5 digits", name, value)
			}
		}
	}
	return nil
}

// except returns the text of all parts but one.
func (p parts) except(name string) string {
	var written []string
	for _, part := range ruleParts {
		if part != name && p.has(part) {
			written = append(written, part+"="+p[part])
		}
	}
	return strings.Join(written, ";")
}

var (
	weekday  = regexp.MustCompile(`^(MO|TU|WE|TH|FR|SA|SU)$`)
	weekdays = regexp.MustCompile(`^(([+-]?[1-9][0-9]?)?(MO|TU|WE|TH|FR|SA|SU)(,|$))+$`)
	numbered = regexp.MustCompile(`[1-9]`)
	integers = regexp.MustCompile(`^([+-]?[0-9]{1,5}(,|$))+$`)
)

// check refuses combinations that RFC 5545 (3.3.10) does not define, and some that most readers would misunderstand.
func (p parts) check() error {
	freq := p["FREQ"]
	switch {
	case freq == "SECONDLY" || freq == "MINUTELY":
		return fmt.Errorf("FREQ=%s: a window opens hourly at most; give the minutes in BYMINUTE", freq)
	case !slices.Contains([]string{"HOURLY", "DAILY", "WEEKLY", "MONTHLY", "YEARLY"}, freq):
		return fmt.Errorf("FREQ=%s: must be HOURLY, DAILY, WEEKLY, MONTHLY or YEARLY", freq)
	case p.has("COUNT") && p.has("UNTIL"):
		return errors.New("COUNT and UNTIL: give only one of them")
	case p.has("WKST") && !weekday.MatchString(p["WKST"]):
		return fmt.Errorf("WKST=%s: must be a day of the week, e.g. MO", p["WKST"])
	case p.has("BYDAY") && (!weekdays.MatchString(p["BYDAY"]) || strings.HasSuffix(p["BYDAY"], ",")):
		return fmt.Errorf("BYDAY=%s: must be days of the week, e.g. SA, or -1FR for the last Friday", p["BYDAY"])
	case numbered.MatchString(p["BYDAY"]) && (freq != "MONTHLY" && freq != "YEARLY" || p.has("BYWEEKNO")):
		return fmt.Errorf("BYDAY=%s: days are numbered within a month or a year only", p["BYDAY"])
	case p.has("BYWEEKNO") && (freq != "YEARLY" || !p.has("BYDAY")):
		return errors.New("BYWEEKNO needs FREQ=YEARLY and BYDAY")
	case p.has("BYYEARDAY") && freq != "YEARLY":
		return errors.New("BYYEARDAY needs FREQ=YEARLY")
	case p.has("BYMONTHDAY") && freq == "WEEKLY":
		return errors.New("BYMONTHDAY cannot be combined with FREQ=WEEKLY")
	case p.has("BYSETPOS") && freq == "HOURLY":
		return errors.New("BYSETPOS cannot be combined with FREQ=HOURLY")
	case p.has("BYSETPOS") && !p.has("BYMONTH", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO", "BYDAY", "BYHOUR", "BYMINUTE", "BYSECOND"):
		return errors.New("BYSETPOS needs another part to choose from, e.g. BYDAY")
	}
	return nil
}

// checkComplete refuses a rule without a start that lacks parts which default to those of the start.
func (p parts) checkComplete(anchor *time.Time) error {
	switch freq := p["FREQ"]; {
	case anchor != nil:
		return nil
	case p.has("COUNT") || p.has("INTERVAL") && p["INTERVAL"] != "1":
		return errors.New("COUNT and INTERVAL need a start: add a line before the rule, e.g. DTSTART:20261121T220000")
	case freq != "HOURLY" && !p.has("BYHOUR"):
		return errors.New("has no time of day: give BYHOUR, e.g. BYHOUR=22;BYMINUTE=30, or a line DTSTART:20261121T223000 before the rule")
	case freq == "WEEKLY" && !p.has("BYDAY"),
		freq == "MONTHLY" && !p.has("BYDAY", "BYMONTHDAY"),
		freq == "YEARLY" && !p.has("BYDAY", "BYMONTHDAY", "BYYEARDAY", "BYWEEKNO"):
		return errors.New("has no day: give BYDAY or BYMONTHDAY, or a line DTSTART:20261121T220000 before the rule")
	}
	return nil
}

// checkNumbers refuses numbers that the library misreads or fails on.
func (r *rule) checkNumbers(parsed parts) error {
	withinMonth := r.option.Freq == rrule.MONTHLY || len(r.option.Bymonth) > 0
	for _, day := range r.option.Byweekday {
		if withinMonth && (day.N() > maxWeeksOfMonth || day.N() < -maxWeeksOfMonth) {
			return fmt.Errorf("BYDAY=%s: no month has more than five of a day", parsed["BYDAY"])
		}
	}
	switch {
	case parsed.has("INTERVAL") && (r.option.Interval < 1 || r.option.Interval > maxInterval):
		return fmt.Errorf("INTERVAL=%s: must be from 1 to %d", parsed["INTERVAL"], maxInterval)
	case r.option.Freq == rrule.HOURLY && 24%max(r.option.Interval, 1) != 0:
		return fmt.Errorf("INTERVAL=%s: with FREQ=HOURLY it must divide the 24 hours of a day", parsed["INTERVAL"])
	case parsed.has("COUNT") && (r.option.Count < 1 || r.option.Count > maxCount):
		return fmt.Errorf("COUNT=%s: must be from 1 to %d", parsed["COUNT"], maxCount)
	}
	// The library checks the ranges of the other numbers. With this frequency it does nothing else.
	ranges := r.option
	ranges.Freq, ranges.Dtstart = rrule.SECONDLY, time.Unix(0, 0).UTC()
	_, err := rrule.NewRRule(ranges)
	return err
}

// complete sets the parts that default to those of the start, so that an expansion can start at any period.
func (r *rule) complete(anchor *time.Time) {
	o := &r.option
	o.Dtstart = time.Date(firstYear, 1, 1, 0, 0, 0, 0, time.UTC)
	if anchor != nil {
		o.Dtstart = *anchor
	}
	o.Interval = max(o.Interval, 1)
	switch {
	case o.Freq == rrule.HOURLY:
		r.completeHours()
	case len(o.Byhour) == 0:
		o.Byhour = []int{o.Dtstart.Hour()}
	}
	if len(o.Byminute) == 0 {
		o.Byminute = []int{o.Dtstart.Minute()}
	}
	if len(o.Bysecond) == 0 {
		o.Bysecond = []int{o.Dtstart.Second()}
	}
	for _, list := range []*[]int{&o.Byhour, &o.Byminute, &o.Bysecond, &o.Bymonth, &o.Bymonthday} {
		slices.Sort(*list)
		*list = slices.Compact(*list)
	}
	if len(o.Byweekday)+len(o.Bymonthday)+len(o.Byyearday)+len(o.Byweekno) == 0 {
		r.completeDay()
	}
	r.completeNumbers()
	r.perDay = len(o.Byhour) * len(o.Byminute) * len(o.Bysecond)
}

// completeHours turns an hourly rule into a daily one, because the library searches forever for an hour that the interval never reaches.
func (r *rule) completeHours() {
	o := &r.option
	var hours []int
	for hour := o.Dtstart.Hour() % o.Interval; hour < 24; hour += o.Interval {
		if len(o.Byhour) == 0 || slices.Contains(o.Byhour, hour) {
			hours = append(hours, hour)
		}
	}
	o.Freq, o.Interval, o.Byhour = rrule.DAILY, 1, hours
}

// completeDay sets the day to that of the start.
func (r *rule) completeDay() {
	o := &r.option
	switch o.Freq {
	case rrule.YEARLY:
		if len(o.Bymonth) == 0 {
			o.Bymonth = []int{int(o.Dtstart.Month())}
		}
		o.Bymonthday = []int{o.Dtstart.Day()}
	case rrule.MONTHLY:
		o.Bymonthday = []int{o.Dtstart.Day()}
	case rrule.WEEKLY:
		o.Byweekday = []rrule.Weekday{[...]rrule.Weekday{rrule.SU, rrule.MO, rrule.TU, rrule.WE, rrule.TH, rrule.FR, rrule.SA}[o.Dtstart.Weekday()]}
	}
}

// completeNumbers replaces a plain day by all its numbered days if other days are numbered. In RFC 5545 a list of days is a union, but the library
// intersects plain and numbered days.
func (r *rule) completeNumbers() {
	o := &r.option
	if !slices.ContainsFunc(o.Byweekday, func(day rrule.Weekday) bool { return day.N() != 0 }) {
		return
	}
	weeks := maxWeeks
	if o.Freq == rrule.MONTHLY || len(o.Bymonth) > 0 {
		weeks = maxWeeksOfMonth
	}
	var days []rrule.Weekday
	for _, day := range o.Byweekday {
		if day.N() != 0 {
			days = append(days, day)
			continue
		}
		for n := 1; n <= weeks; n++ {
			days = append(days, day.Nth(n))
		}
	}
	o.Byweekday = days
}

// checkHappens refuses a rule that starts too often, or never.
func (r *rule) checkHappens() error {
	if r.perDay > maxPerDay {
		return fmt.Errorf("has %d starts a day, more than %d", r.perDay, maxPerDay)
	}
	if r.perDay == 0 {
		return fmt.Errorf("%w: the interval skips every hour of BYHOUR", errNeverHappens)
	}
	for range r.clocks(r.option.Dtstart, time.Date(lastYear, 1, 1, 0, 0, 0, 0, time.UTC)) {
		return nil
	}
	return errNeverHappens
}
