package policy

// What the tests of this package use of its inside.

const (
	ClustersPerWatch     = clustersPerWatch
	ClustersPerPlacement = clustersPerPlacement
)

type (
	Items    = items
	Sequence = sequence
)

var NewSequence = newSequence
