package windows

import (
	"crypto/sha256"
	"encoding/binary"
	"slices"
	"time"
)

// Who follows a window is told shortly before an opening that it takes place, and begins at its start by a clock of its own. So nobody waits for the window
// at the very moment at which a thousand others open, too; the window itself takes down a little later that it has opened. Each does so at times of its own.
const (
	// confirmsLast is how long before its start an opening is confirmed at the latest, and confirmsOver how much earlier at most.
	confirmsLast = 30 * time.Second
	confirmsOver = time.Minute
	// recordsWithin is how long after its start it is taken down at the latest that an opening which was confirmed has begun; recordsPart: the part of its
	// length that this may be at most.
	recordsWithin = 10 * time.Second
	recordsPart   = 20
)

// confirmsAt is when an opening is confirmed that starts next.
func (c *Course) confirmsAt(o Opening) time.Time {
	return o.Start.Add(-confirmsLast - c.share(confirmsOver))
}

// confirmed reports whether those that follow the window know that an opening takes place.
func (c *Course) confirmed(o Opening) bool { return o.Start.Equal(c.Confirmed) }

// recordAfter is how long after the start of an opening that was confirmed it is taken down that it has begun: at once if a receiver is to be told,
// or a portal shows it.
func (c *Course) recordAfter(o Opening) time.Duration {
	if !c.confirmed(o) || len(c.Window.Spec.Notify) > 0 || c.Window.Spec.PortalRef != "" {
		return 0
	}
	return c.share(min(recordsWithin, o.End.Sub(o.Start)/recordsPart))
}

// share is the part of a length of time that falls to the window: always the same, another for another window.
func (c *Course) share(of time.Duration) time.Duration {
	sum := sha256.Sum256([]byte(c.Window.Namespace + "/" + c.Window.Name))
	return time.Duration(float64(of) * float64(binary.BigEndian.Uint32(sum[:])) / (1 << 32))
}

// At returns how the course stands at a moment, which leaves the course itself as it is.
func (c *Course) At(now time.Time) *Course {
	then := *c
	then.Amendments, then.Events = slices.Clone(c.Amendments), slices.Clone(c.Events)
	then.Announced, then.Owed = slices.Clone(c.Announced), slices.Clone(c.Owed)
	then.Pass(now)
	return &then
}
