package drain

// What the tests of this package use of its inside.

var AwaitedPods = awaitedPods
