package node

// What the tests of this package use of its inside.

var (
	Ahead        = ahead
	CordonChange = cordonChange
	TakenBefore  = acquiredBefore
)
