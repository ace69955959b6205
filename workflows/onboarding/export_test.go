package onboarding

// Names that the tests of this package use.

const MaxRunning = maxRunning
