package nodemaintenance

// Unexported names for the tests of this package.

const (
	CleanUpLimit = cleanUpLimit
	MostCarried  = mostCarried
)

var DrainTimeout = drainTimeout
