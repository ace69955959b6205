package kit

// Names that the tests of this package use.

const (
	WatchProbe       = watchProbe
	HurriedAtMost    = maxUrgentReports
	OutageRound      = outageRound
	ProgressInterval = progressInterval
	QuickInterval    = quickInterval
	ProgressSteps    = progressSteps
)

var Uneventful = uneventful
