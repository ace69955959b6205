package node

// Unexported names for the tests of this package.

var (
	FirstBeside  = firstBeside
	CordonChange = cordonChange
	TakenBefore  = acquiredBefore
)
