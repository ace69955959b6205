package slots

// What the tests of this package use of its inside.

const (
	CheckOwnersEvery = checkOwnersEvery
	SendAtOnce       = maxSignals
)
