package policy

// Names of this package for its external tests.

const (
	ClustersPerWatch     = clustersPerWatch
	ClustersPerPlacement = clustersPerPlacement
)

type (
	Items    = items
	Sequence = sequence
)

var NewSequence = newSequence
