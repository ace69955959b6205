package locks

// Unexported names for the tests of this package.

const CycleStands = cycleStands

var (
	HeldObservation = heldObservation
	ReadNodeLocks   = readNodeLocks
	RequestMeta     = requestMeta
)
