package activitykit

// What the tests of this package use of its inside.

const (
	LongestReportInterval = longestReportInterval
	ReportInterval        = reportInterval
	UsualReports          = usualReports
)

type HeartbeatDetails = heartbeatDetails

var PauseAfter = pauseAfter
