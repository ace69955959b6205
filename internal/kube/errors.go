package kube

import (
	"errors"
	"fmt"
	"net"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"

	"drydock.dev/drydock/internal/temporal"
)

// errEnded refuses a request with credentials that an object on the hub had before it changed.
var errEnded = errors.New("these credentials are no longer in use")

// explain returns the error of Unreachable if err is one, and wraps any other error with the operation.
func (c *Cluster) explain(doing string, err error) error {
	if err == nil {
		return nil
	}
	if unreachable := c.Unreachable(err); unreachable != nil {
		return unreachable
	}
	return fmt.Errorf("cluster %s: %s: %w", c.Name, doing, err)
}

// Unreachable returns a ClusterUnreachable error, with what to do, if err means that the API server does not answer or rejects the credentials, or a
// Forbidden error if the user lacks a right; otherwise nil.
func (c *Cluster) Unreachable(err error) error {
	errType, remedy := temporal.ErrClusterUnreachable, ""
	switch {
	case errors.Is(err, errEnded):
		remedy = "its credentials on the hub have changed or are gone"
	case apierrors.IsUnauthorized(err):
		remedy = "its API server rejects the credentials: renew the kubeconfig that the worker uses for it"
	case apierrors.IsForbidden(err):
		errType, remedy = temporal.ErrForbidden, "its API server forbids the request: grant the worker's user the roles of deploy/rbac"
	case unanswered(err):
		remedy = "its API server does not answer"
	default:
		return nil
	}
	return temporal.Error(errType, fmt.Sprintf("cluster %s: %s: %v", c.Name, remedy, err), err)
}

// unanswered reports whether err comes from the connection and not from the API server.
func unanswered(err error) bool {
	if apierrors.ReasonForError(err) != "" {
		return false
	}
	if _, ok := errors.AsType[net.Error](err); ok {
		return true
	}
	return utilnet.IsConnectionRefused(err) || utilnet.IsConnectionReset(err) || utilnet.IsProbableEOF(err)
}
