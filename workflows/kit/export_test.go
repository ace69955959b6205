package kit

// What the tests of this package use of its inside.

const HeardWait = heardWait
const HurriedAtMost = hurriedAtMost
const OutageRound = outageRound
const ProgressInterval = progressInterval
const ProgressSteps = progressSteps
