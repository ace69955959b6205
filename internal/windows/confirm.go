package windows

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// A window confirms an opening to its subscribers shortly before its start; they then start on their own timers. So no subscriber waits for the
// window at a moment at which a thousand others open too, and the window records the start a little later. Each window does both at times of its own.
const (
	// confirmsLast is the shortest time between the confirmation and the start of an opening; confirmsOver is how much earlier it may be.
	confirmsLast = 30 * time.Second
	confirmsOver = time.Minute
	// recordsWithin is the longest time after its start at which a confirmed opening is recorded as started; recordsPart is the largest part of its
	// length that this may take.
	recordsWithin = 10 * time.Second
	recordsPart   = 20
)

// confirmsAt is when the next opening is confirmed.
func (c *State) confirmsAt(o Opening) time.Time {
	return o.Start.Add(-confirmsLast - c.share(confirmsOver))
}

// confirmed reports whether subscribers know that an opening takes place.
func (c *State) confirmed(o Opening) bool { return o.Start.Equal(c.Confirmed) }

// recordAfter is how long after its start a confirmed opening is recorded as started: at once if a receiver is notified or a portal shows it.
func (c *State) recordAfter(o Opening) time.Duration {
	if !c.confirmed(o) || len(c.Window.Spec.Notify) > 0 || c.Window.Spec.PortalRef != "" {
		return 0
	}
	return c.share(min(recordsWithin, o.End.Sub(o.Start)/recordsPart))
}

// share is the window's part of a length of time: constant for a window, spread over windows.
func (c *State) share(of time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(c.Window.Namespace + "/" + c.Window.Name))
	return time.Duration(float64(of) * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
}

// At returns the state at a moment and leaves the original unchanged.
func (c *State) At(now time.Time) *State {
	then := *c
	then.Amendments, then.Events = slices.Clone(c.Amendments), slices.Clone(c.Events)
	then.Announced, then.Pending = slices.Clone(c.Announced), slices.Clone(c.Pending)
	then.Pass(now)
	return &then
}
