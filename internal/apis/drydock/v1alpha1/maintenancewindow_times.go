package v1alpha1

import (
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// WindowTimes are the times of a window or of an exclusion: those of a recurrence, each with a length, or one from start to end.
// +kubebuilder:validation:XValidation:rule="has(self.recurrence) != (has(self.scheduledStart) || has(self.scheduledEnd))",message="either recurrence, or scheduledStart and scheduledEnd, must be set"
// +kubebuilder:validation:XValidation:rule="has(self.scheduledStart) == has(self.scheduledEnd)",message="scheduledStart and scheduledEnd must be set together"
// +kubebuilder:validation:XValidation:rule="!has(self.scheduledStart) || !has(self.scheduledEnd) || self.scheduledEnd > self.scheduledStart",message="must be after scheduledStart",fieldPath=".scheduledEnd"
// +kubebuilder:validation:XValidation:rule="has(self.recurrence) ? has(self.duration) != has(self.endTime) : !has(self.duration) && !has(self.endTime)",message="a recurrence, and nothing else, has either duration or endTime"
type WindowTimes struct {
	// Recurrence are the starts by RFC 5545, in the wall-clock time of the time zone: the lines DTSTART, RRULE, RDATE and EXDATE, or only
	// the value of an RRULE, e.g. FREQ=WEEKLY;BYDAY=SA;BYHOUR=22.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=8192
	// +optional
	Recurrence string `json:"recurrence,omitempty"`
	// Duration is the elapsed time from start to end, also across daylight saving time changes: at most 366 days.
	// +optional
	Duration Duration `json:"duration,omitempty"`
	// EndTime is the time of day at which it ends, e.g. 04:00: on the day of the start if that is before, otherwise on the next.
	// +kubebuilder:validation:Pattern=`^([01][0-9]|2[0-3]):[0-5][0-9](:[0-5][0-9])?$`
	// +optional
	EndTime string `json:"endTime,omitempty"`
	// ScheduledStart is the start of something that happens once.
	// +optional
	ScheduledStart *metav1.Time `json:"scheduledStart,omitempty"`
	// ScheduledEnd is its end.
	// +optional
	ScheduledEnd *metav1.Time `json:"scheduledEnd,omitempty"`
	// OnGap is the rule for a start at a local time that daylight saving time skips.
	// +kubebuilder:default=Later
	// +optional
	OnGap GapRule `json:"onGap,omitempty"`
	// OnRepeat is which one is meant by a start at a time of day that comes twice.
	// +kubebuilder:default=First
	// +optional
	OnRepeat RepeatRule `json:"onRepeat,omitempty"`
}

// GapRule is the rule for a start at a local time that does not exist, because daylight saving time begins.
// +kubebuilder:validation:Enum=Later;Earlier;Drop
type GapRule string

// The rules for a start at 02:30 when daylight saving time skips from 02:00 to 03:00.
const (
	// GapLater: by the clock as it was before, 03:30.
	GapLater GapRule = "Later"
	// GapEarlier: by the clock as it is afterwards, 01:30.
	GapEarlier GapRule = "Earlier"
	// GapDrop: it does not open that day.
	GapDrop GapRule = "Drop"
)

// RepeatRule selects one of two moments with the same local time, because daylight saving time ends.
// +kubebuilder:validation:Enum=First;Second
type RepeatRule string

// The rules for a time of day that comes twice.
const (
	RepeatFirst  RepeatRule = "First"
	RepeatSecond RepeatRule = "Second"
)

// Duration is a length of time in hours, minutes and seconds, e.g. 4h or 1h30m.
// +kubebuilder:validation:MaxLength=40
// +kubebuilder:validation:XValidation:rule="size(self) > 0 && self.matches('^([0-9]{1,6}h)?([0-9]{1,6}m)?([0-9]{1,9}([.][0-9]{1,9})?s)?$')",message="must be a duration with its units, such as 90s, 30m or 1h30m"
type Duration string

// Elapsed returns the length of time, and false if it is not written as one.
func (d Duration) Elapsed() (time.Duration, bool) {
	elapsed, err := time.ParseDuration(string(d))
	return elapsed, err == nil
}
