package clusterupgrade

// What the tests of this package use of its inside.

const Overdue = overdue
