package jobs

// Unexported names for the tests of this package.

const LogLines = logLines

var Finished = finished
