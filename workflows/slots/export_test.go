package slots

// Names that the tests of this package use.

const (
	CheckOwnersEvery = checkOwnersEvery
	MaxSignals       = maxSignals
)
