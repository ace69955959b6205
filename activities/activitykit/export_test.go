package activitykit

// Unexported names for the tests of this package.

const (
	LongestReportInterval = longestReportInterval
	ReportInterval        = reportInterval
	UsualReports          = usualReports
)

type HeartbeatDetails = heartbeatDetails

var PauseAfter = pauseAfter
