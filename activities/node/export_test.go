package node

// Unexported names for the tests of this package.

var (
	Ahead        = ahead
	CordonChange = cordonChange
	TakenBefore  = acquiredBefore
)
