package locks

// What the tests of this package use of its inside.

var (
	ApplySummary = applySummary
	Details      = details
)
