package drain

import (
	"errors"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/drydock/internal/temporal"
)

// Reasons why an eviction is not accepted. None fails the drain: it retries until its deadline.
const (
	// ReasonNamespaceTerminating: nothing can be created in the pod's namespace, including evictions, until the pod is deleted with it.
	ReasonNamespaceTerminating Reason = "NamespaceTerminating"
	// ReasonServerBusy: the API server throttles its clients.
	ReasonServerBusy Reason = "ServerBusy"
	// ReasonServerError: the API server failed, or did not answer.
	ReasonServerError Reason = "ServerError"
	// ReasonEvictionRefused: the API server or an admission webhook refused.
	ReasonEvictionRefused Reason = "EvictionRefused"
	// ReasonForbidden: the worker's user lacks the right to evict pods in the namespace.
	ReasonForbidden Reason = temporal.ErrForbidden
)

// refusal is the answer to an eviction that was not accepted.
type refusal struct {
	reason  Reason
	message string
	// byBudget: it may be retried when a budget changes.
	byBudget bool
	// byRight: it may be retried when the worker's user gets the right.
	byRight bool
	// gone: the pod has left already; a watch event follows.
	gone bool
	// delay is the pause that the API server asks for; 0: none.
	delay time.Duration
}

// lacksRight is in the answer of the API server if the user may not evict. The answer of an admission webhook has the same code.
const lacksRight = `cannot create resource "pods/eviction"`

// classify interprets an error of an eviction.
func classify(err error) refusal {
	r := refusal{message: err.Error(), delay: requestedDelay(err)}
	budgetCause, byBudget := apierrors.StatusCause(err, policyv1.DisruptionBudgetCause)
	switch {
	case apierrors.IsNotFound(err), apierrors.IsConflict(err):
		// No such pod, or one with another UID: the evicted pod is gone. If the API server meant another conflict, the pod is still there at the next
		// pass and is evicted again.
		r.gone = true
	case apierrors.IsTooManyRequests(err) && byBudget:
		r.reason, r.byBudget, r.message = ReasonDisruptionBudget, true, budgetCause.Message
	case strings.Contains(r.message, "more than one PodDisruptionBudget"):
		// A 500 without reason or cause: only the text distinguishes it from an internal error.
		r.reason, r.byBudget = ReasonMultipleBudgets, true
	case apierrors.IsTooManyRequests(err):
		r.reason = ReasonServerBusy
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		r.reason = ReasonNamespaceTerminating
	case apierrors.IsForbidden(err) && strings.Contains(r.message, lacksRight):
		_, r.message, _ = strings.Cut(r.message, " is forbidden: ") // without the name of the pod: the others are refused, too
		r.reason, r.byRight, r.message = ReasonForbidden, true, r.message+": grant the worker's user the roles of deploy/rbac"
	case isRefusal(err):
		r.reason = ReasonEvictionRefused
	default:
		r.reason = ReasonServerError
	}
	return r
}

func requestedDelay(err error) time.Duration {
	seconds, ok := apierrors.SuggestsClientDelay(err)
	if !ok {
		return 0
	}
	return time.Duration(seconds) * time.Second
}

func isRefusal(err error) bool {
	status, ok := errors.AsType[*apierrors.StatusError](err)
	return ok && status.ErrStatus.Code >= 400 && status.ErrStatus.Code < 500
}
