package policy

// What the tests of this package use of its inside.

const WatchedTogether = watchedTogether
const WorksAtOnce = worksAtOnce

type Items = items
type Sequence = sequence

var NewSequence = newSequence
