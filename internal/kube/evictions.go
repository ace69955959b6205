package kube

import (
	"context"

	policyv1 "k8s.io/api/policy/v1"
	"k8s.io/client-go/rest"
)

// Evictions asks the API server to evict pods. Client-go's own retries are off: on a 429 they would sleep inside the call, where
// neither the budget that refused nor a cancellation is seen.
type Evictions struct {
	core rest.Interface
}

// Evict asks once for the eviction of the pod that the eviction names; preconditions go into its DeleteOptions. The error is the API
// server's: 429 with cause DisruptionBudget when a budget refuses, 409 when a UID precondition does not hold, 404 when the pod is gone.
func (e Evictions) Evict(ctx context.Context, eviction *policyv1.Eviction) error {
	return e.core.Post().
		Namespace(eviction.Namespace).
		Resource("pods").
		Name(eviction.Name).
		SubResource("eviction").
		Body(eviction).
		MaxRetries(0).
		Do(ctx).
		Error()
}
