package clusterupgrade

// Names that the tests of this package use.
const Overdue = overdue
