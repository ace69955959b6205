package locks

// Names that the tests of this package use.

var (
	ApplySummary = applySummary
	Details      = details
)
