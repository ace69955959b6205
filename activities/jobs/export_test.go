package jobs

// What the tests of this package use of its inside.

const LogLines = logLines

var Finished = finished
