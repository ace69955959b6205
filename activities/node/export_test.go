package node

// What the tests of this package use of its inside.

var Ahead = ahead
var CordonChange = cordonChange
var TakenBefore = takenBefore
