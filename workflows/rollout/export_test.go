package rollout

// What the tests of this package use of its inside.

const ChangedAtOnce = changedAtOnce
const ClustersAtOnce = clustersAtOnce
const GatesAtOnce = gatesAtOnce
const NoteLimit = noteLimit
const NotesKept = notesKept
const PreparationsAtOnce = preparationsAtOnce
const PreparedTogether = preparedTogether
const ReasonRefused = reasonRefused
const ResultClusters = resultClusters

type NodeRemediator = nodeRemediator

var NewGroupRecord = newGroupRecord
var NewGroupUpgrade = newGroupUpgrade
