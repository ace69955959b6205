package sweeper

// What the tests of this package use of its inside.

var SweeperDetails = details
