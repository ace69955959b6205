package kit

// What the tests of this package use of its inside.

const (
	WatchProbe       = watchProbe
	HurriedAtMost    = maxUrgentReports
	OutageRound      = outageRound
	ProgressInterval = progressInterval
	ProgressSteps    = progressSteps
)
