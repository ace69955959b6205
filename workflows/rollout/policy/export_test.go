package policy

// What the tests of this package use of its inside.

const (
	WatchedTogether = watchedTogether
	WorksAtOnce     = worksAtOnce
)

type (
	Items    = items
	Sequence = sequence
)

var NewSequence = newSequence
