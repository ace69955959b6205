package temporal

import (
	"errors"
	"fmt"

	sdktemporal "go.temporal.io/sdk/temporal"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Types of application errors. The type is the contract between activities, workflows and people.
const (
	// ErrInvalidSpec: what the user wrote cannot be done; the message names the field.
	ErrInvalidSpec = "InvalidSpec"
	// ErrNotFound: an object that is needed does not exist.
	ErrNotFound = "NotFound"
	// ErrNodeGone: the node was deleted.
	ErrNodeGone = "NodeGone"
	// ErrNodeBusy: the node is under someone else's maintenance.
	ErrNodeBusy = "NodeBusy"
	// ErrDrainTimedOut: pods were left at the drain's deadline; the details are the []Blocker.
	ErrDrainTimedOut = "DrainTimedOut"
	// ErrPodCompletionUnseen: nobody could look at the deadline whether the pods have ended that may end by themselves.
	ErrPodCompletionUnseen = "PodCompletionUnseen"
	// ErrPodsNotEvictable: pods that the drain may not evict are in its way; the details are the []Blocker.
	ErrPodsNotEvictable = "PodsNotEvictable"
	// ErrLockRefused: a workload lock that had let go is held again.
	ErrLockRefused = "LockRefused"
	// ErrLockCycle: maintenances wait for each other's workload locks, and this one has to give way; the details are the requests that go first.
	ErrLockCycle = "LockCycle"
	// ErrLockTimedOut: workload locks were held at the deadline; the details are the []Blocker.
	ErrLockTimedOut = "LockTimedOut"
	// ErrHealthGateFailed: a health check was still false at its deadline; the details are the []Blocker.
	ErrHealthGateFailed = "HealthGateFailed"
	// ErrJobFailed: the Job on the node failed.
	ErrJobFailed = "JobFailed"
	// ErrJobTimedOut: a Job that prepares a cluster for its rollout did not end in time.
	ErrJobTimedOut = "JobTimedOut"
	// ErrNodeCancelled: somebody cancelled the maintenance of a node.
	ErrNodeCancelled = "NodeCancelled"
	// ErrNodeNotReturned: a node could not be returned to service; the sweeper goes on trying.
	ErrNodeNotReturned = "NodeNotReturned"
	// ErrHeld: the emergency stop holds the cluster, and what would disrupt it has not begun.
	ErrHeld = "Held"
	// ErrEnding: the workflow is about to end and does not do what it is asked for; another run would.
	ErrEnding = "Ending"
	// ErrClusterUnreachable: the cluster's API server does not answer, or its credentials are refused.
	ErrClusterUnreachable = "ClusterUnreachable"
	// ErrNoHub: this worker knows no hub. It is tried again: another worker may know it.
	ErrNoHub = "NoHub"
	// ErrClusterUnknown: this worker has no access to the cluster. It is tried again: another worker may have it.
	ErrClusterUnknown = "ClusterUnknown"
)

// NonRetryable are the types that no further attempt can change. They go into every retry policy.
var NonRetryable = []string{
	ErrInvalidSpec, ErrNotFound, ErrNodeGone, ErrNodeBusy, ErrDrainTimedOut, ErrPodCompletionUnseen, ErrPodsNotEvictable, ErrLockRefused,
	ErrLockCycle, ErrLockTimedOut, ErrHealthGateFailed, ErrJobFailed, ErrJobTimedOut, ErrNodeCancelled, ErrNodeNotReturned, ErrHeld,
}

// blockersNamed is how many blockers an error carries. It becomes part of its workflow's history, and of the parent's, and a node can have 250 pods.
const blockersNamed = 20

// Error makes a typed error. Blockers, if any, travel as its details: the first 20, and the message says how many more there are.
func Error(errType, message string, cause error, blockers ...drydockv1.Blocker) error {
	if more := len(blockers) - blockersNamed; more > 0 {
		blockers = blockers[:blockersNamed]
		message += fmt.Sprintf(" (%d of what is in the way are named, and there are %d more)", blockersNamed, more)
	}
	options := sdktemporal.ApplicationErrorOptions{Cause: cause}
	for _, t := range NonRetryable {
		options.NonRetryable = options.NonRetryable || t == errType
	}
	if len(blockers) > 0 {
		options.Details = []any{blockers}
	}
	return sdktemporal.NewApplicationErrorWithOptions(message, errType, options)
}

// Final reports whether no further attempt can change the error.
func Final(err error) bool {
	application, ok := errors.AsType[*sdktemporal.ApplicationError](err)
	return ok && application.NonRetryable()
}

// ErrorType returns the type of the application error within err, or "" when there is none.
func ErrorType(err error) string {
	if application, ok := errors.AsType[*sdktemporal.ApplicationError](err); ok {
		return application.Type()
	}
	return ""
}

// ErrorMessage returns the message of the application error within err without the wrapping of activities and child workflows, or err's
// own text.
func ErrorMessage(err error) string {
	if application, ok := errors.AsType[*sdktemporal.ApplicationError](err); ok {
		return application.Message()
	}
	return err.Error()
}

// Blockers returns the blockers that err carries.
func Blockers(err error) []drydockv1.Blocker {
	application, ok := errors.AsType[*sdktemporal.ApplicationError](err)
	if !ok || !application.HasDetails() {
		return nil
	}
	var blockers []drydockv1.Blocker
	if application.Details(&blockers) != nil {
		return nil
	}
	return blockers
}
