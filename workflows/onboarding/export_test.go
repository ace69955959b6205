package onboarding

// What the tests of this package use of its inside.

const OnboardedAtOnce = maxRunning
