package nodemaintenance

// What the tests of this package use of its inside.

const (
	CleanUpLimit = cleanUpLimit
	MostCarried  = mostCarried
)

var DrainTimeout = drainTimeout
