package kit

// What the tests of this package use of its inside.

const (
	HeardWait        = heardWait
	HurriedAtMost    = hurriedAtMost
	OutageRound      = outageRound
	ProgressInterval = progressInterval
	ProgressSteps    = progressSteps
)
