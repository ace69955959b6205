package activitykit

import (
	"context"
	"errors"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// TypedError converts an error of an API server to ClusterUnreachable or InvalidSpec. Any other error (conflict, 429,
// 5xx, time-out) stays as it is, and is retried.
func TypedError(cluster *kube.Cluster, err error) error {
	switch {
	case err == nil || temporal.ErrorType(err) != "" || errors.Is(err, context.Canceled):
		return err
	case apierrors.IsInvalid(err):
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %v", cluster.Name, err), err)
	}
	if unreachable := cluster.Unreachable(err); unreachable != nil {
		return unreachable
	}
	return err
}

// Explain is TypedError, and adds the cluster and the action to other errors.
func Explain(cluster *kube.Cluster, doing string, err error) error {
	err = TypedError(cluster, err)
	if err == nil || temporal.ErrorType(err) != "" || errors.Is(err, context.Canceled) {
		return err
	}
	return fmt.Errorf("cluster %s: %s: %w", cluster.Name, doing, err)
}

// ExplainNode is Explain for a request about a node: not found means NodeGone.
func ExplainNode(cluster *kube.Cluster, node, doing string, err error) error {
	if apierrors.IsNotFound(err) {
		return NodeGone(cluster.Name, node)
	}
	return Explain(cluster, doing+" node "+node, err)
}

// NodeGone returns the error for a node that the cluster does not have.
func NodeGone(cluster, node string) error {
	return temporal.Error(temporal.ErrNodeGone, fmt.Sprintf("node %s of cluster %s does not exist", node, cluster), nil)
}
