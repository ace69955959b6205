package drain

// Unexported names for the tests of this package.

var AwaitedPods = awaitedPods
