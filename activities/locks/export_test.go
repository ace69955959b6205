package locks

// What the tests of this package use of its inside.

const CycleStands = cycleStands

var HeldObservation = heldObservation
var ReadNodeLocks = readNodeLocks
var RequestMeta = requestMeta
