package windows

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// A window confirms an opening to its subscribers shortly before its start, and they start on their own timers. So no subscriber waits for the window at a
// moment at which a thousand other windows open. The window records the start a little later. Both times differ from window to window.
const (
	// minConfirmation is the minimum time from the confirmation to the start of an opening. Confirmations are spread over confirmationSpread before that.
	minConfirmation    = 30 * time.Second
	confirmationSpread = time.Minute
	// maxRecordDelay limits the delay with which the window records the start of a confirmed opening. The delay is at most the length of the opening
	// divided by recordDelayPart.
	maxRecordDelay  = 10 * time.Second
	recordDelayPart = 20
)

// confirmsAt returns when an opening is confirmed.
func (c *State) confirmsAt(o Opening) time.Time {
	return o.Start.Add(-minConfirmation - c.share(confirmationSpread))
}

// confirmed reports whether an opening has been confirmed to subscribers.
func (c *State) confirmed(o Opening) bool { return o.Start.Equal(c.Confirmed) }

// recordAfter returns the delay with which the start of an opening is recorded. It is 0 if a receiver is notified or a portal shows the window.
func (c *State) recordAfter(o Opening) time.Duration {
	if !c.confirmed(o) || len(c.Window.Spec.Notify) > 0 || c.Window.Spec.PortalRef != "" {
		return 0
	}
	return c.share(min(maxRecordDelay, o.End.Sub(o.Start)/recordDelayPart))
}

// share returns a fraction of a length of time that is constant for a window and spread over windows.
func (c *State) share(of time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(c.Window.Namespace + "/" + c.Window.Name))
	return time.Duration(float64(of) * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
}

// At returns a copy of the state, advanced to a moment.
func (c *State) At(now time.Time) *State {
	then := *c
	then.Amendments, then.Events = slices.Clone(c.Amendments), slices.Clone(c.Events)
	then.Announced, then.Pending = slices.Clone(c.Announced), slices.Clone(c.Pending)
	then.Advance(now)
	return &then
}
