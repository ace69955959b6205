package locks

// Unexported names for the tests of this package.

const CycleStands = cyclePersists

var (
	HeldObservation = heldObservation
	ReadNodeLocks   = readNodeLocks
	RequestMeta     = requestMeta
)
