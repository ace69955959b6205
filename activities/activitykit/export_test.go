package activitykit

// What the tests of this package use of its inside.

const LongestReportInterval = longestReportInterval
const ReportInterval = reportInterval
const UsualReports = usualReports

type HeartbeatDetails = heartbeatDetails

var PauseAfter = pauseAfter
