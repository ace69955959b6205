package temporal

import (
	"errors"
	"fmt"
	"regexp"
	"strings"

	sdktemporal "go.temporal.io/sdk/temporal"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

// Types of application errors. The type is the contract between activities, workflows and users.
const (
	// ErrInvalidSpec: a specification is invalid; the message names the field.
	ErrInvalidSpec = "InvalidSpec"
	// ErrNotFound: a required object does not exist.
	ErrNotFound = "NotFound"
	// ErrNodeGone: the node was deleted.
	ErrNodeGone = "NodeGone"
	// ErrNodeBusy: the node belongs to another maintenance.
	ErrNodeBusy = "NodeBusy"
	// ErrDrainTimedOut: the drain's deadline passed with pods on the node; the details are the []Blocker.
	ErrDrainTimedOut = "DrainTimedOut"
	// ErrPodCompletionUnseen: at the deadline the state of the pods that should end by themselves was unknown.
	ErrPodCompletionUnseen = "PodCompletionUnseen"
	// ErrPodsNotEvictable: pods that the drain may not evict block it; the details are the []Blocker.
	ErrPodsNotEvictable = "PodsNotEvictable"
	// ErrLockRefused: a released workload lock is held again.
	ErrLockRefused = "LockRefused"
	// ErrLockCycle: maintenances wait for each other's workload locks, and this one must yield; the details are the requests that go first.
	ErrLockCycle = "LockCycle"
	// ErrLockTimedOut: workload locks were held at the deadline; the details are the []Blocker.
	ErrLockTimedOut = "LockTimedOut"
	// ErrHealthGateFailed: a health check failed until its deadline; the details are the []Blocker.
	ErrHealthGateFailed = "HealthGateFailed"
	// ErrJobFailed: the Job on the node failed.
	ErrJobFailed = "JobFailed"
	// ErrJobTimedOut: a Job that prepares a cluster for its rollout did not finish in time.
	ErrJobTimedOut = "JobTimedOut"
	// ErrNodeCancelled: a person cancelled the maintenance of a node.
	ErrNodeCancelled = "NodeCancelled"
	// ErrNodeNotReturned: a node could not be returned to service; the sweeper keeps trying.
	ErrNodeNotReturned = "NodeNotReturned"
	// ErrHeld: the emergency stop holds the cluster, so no new disruption started.
	ErrHeld = "Held"
	// ErrAgentOffline: the agent that is to create a Job is offline, and was not asked.
	ErrAgentOffline = "AgentOffline"
	// ErrEnding: the workflow is closing and did not handle the request; another run would.
	ErrEnding = "Ending"
	// ErrClusterUnreachable: the cluster's API server does not answer, or refuses the credentials.
	ErrClusterUnreachable = "ClusterUnreachable"
	// ErrForbidden: the cluster's API server answers, and the worker's user lacks a right. It is retried, because a person may grant it.
	ErrForbidden = "Forbidden"
	// ErrNoHub: this worker has no access to a hub. It is retried, because another worker may have it.
	ErrNoHub = "NoHub"
	// ErrReleaseUnknown: the update graph still does not tell the image of a release. It is retried, because the server may come back.
	ErrReleaseUnknown = "ReleaseUnknown"
	// ErrClusterUnknown: this worker has no access to the cluster. It is retried, because another worker may have it.
	ErrClusterUnknown = "ClusterUnknown"
)

// NonRetryable are the types that a retry cannot change. They are part of every retry policy.
var NonRetryable = []string{
	ErrInvalidSpec, ErrNotFound, ErrNodeGone, ErrNodeBusy, ErrDrainTimedOut, ErrPodCompletionUnseen, ErrPodsNotEvictable, ErrLockRefused,
	ErrLockCycle, ErrLockTimedOut, ErrHealthGateFailed, ErrJobFailed, ErrJobTimedOut, ErrNodeCancelled, ErrNodeNotReturned, ErrHeld,
	ErrAgentOffline,
}

// Limits of an error, which becomes part of the history of its workflow and of the parent: a node can have 250 pods, and the messages that others write in
// their statuses can be long.
const (
	blockersNamed     = 20
	errorMessageLimit = 8000
)

// Error returns a typed error with at most 8000 bytes of the message. Blockers, if any, are its details: the first 20, and the message says how many more
// there are.
func Error(errType, message string, cause error, blockers ...drydockv1.Blocker) error {
	message = Cut(message, errorMessageLimit)
	if more := len(blockers) - blockersNamed; more > 0 {
		blockers = blockers[:blockersNamed]
		message += fmt.Sprintf(" (%d blockers are named, and there are %d more)", blockersNamed, more)
	}
	options := sdktemporal.ApplicationErrorOptions{Cause: cause}
	for _, t := range NonRetryable {
		options.NonRetryable = options.NonRetryable || t == errType
	}
	if len(blockers) > 0 {
		options.Details = []any{cutBlockers(blockers)}
	}
	return sdktemporal.NewApplicationErrorWithOptions(message, errType, options)
}

// Final reports whether a retry cannot change the error.
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
		return PlainText(application.Message())
	}
	return PlainText(err.Error())
}

// sdkSuffix is what Temporal's SDK puts between the message of an application error and its cause.
var sdkSuffix = regexp.MustCompile(` \(type: [^,()]*, retryable: (?:true|false)\)`)

// PlainText removes the terms of Temporal's SDK from the text of an error, and a cause that repeats the message.
func PlainText(text string) string {
	at := sdkSuffix.FindStringIndex(text)
	if at == nil {
		return text
	}
	said, rest := text[:at[0]], PlainText(text[at[1]:])
	if cause, is := strings.CutPrefix(rest, ": "); is && strings.Contains(said, cause) {
		return said
	}
	return said + rest
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
