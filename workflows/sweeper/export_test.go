package sweeper

// Names that the tests of this package use.

var SweeperDetails = details
