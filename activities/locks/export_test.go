package locks

// What the tests of this package use of its inside.

const CycleStands = cycleStands

var (
	HeldObservation = heldObservation
	ReadNodeLocks   = readNodeLocks
	RequestMeta     = requestMeta
)
