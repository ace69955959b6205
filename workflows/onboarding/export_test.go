package onboarding

// What the tests of this package use of its inside.

const FailuresExplained = failuresExplained
const OnboardedAtOnce = onboardedAtOnce

var NewOnboardingRecord = newOnboardingRecord
