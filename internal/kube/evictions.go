package kube

import (
	"context"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Evictions asks the API server to evict pods. Client-go's own retries are off: on a 429 they would sleep inside the call, where
// neither the budget that refused nor a cancellation is seen.
type Evictions struct {
	core  rest.Interface
	turns *turns
	node  string
}

func newEvictions(config *rest.Config, connections *http.Client) (Evictions, error) {
	// The limit is that of all requests, but it is waited for in turns.
	inTurns := rest.CopyConfig(config)
	inTurns.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	core, err := coreclient.NewForConfigAndClient(inTurns, connections)
	if err != nil {
		return Evictions{}, err
	}
	return Evictions{core: core.RESTClient(), turns: newTurns(config.RateLimiter)}, nil
}

// From returns the evictions from one node. Those from different nodes take turns.
func (e Evictions) From(node string) Evictions {
	e.node = node
	return e
}

// Evict asks once for the eviction of the pod that the eviction names; preconditions go into its DeleteOptions. The error is the API
// server's: 429 with cause DisruptionBudget when a budget refuses, 409 when a UID precondition does not hold, 404 when the pod is gone.
func (e Evictions) Evict(ctx context.Context, eviction *policyv1.Eviction) error {
	answered, err := e.turns.take(ctx, e.node)
	if err != nil {
		return err
	}
	defer answered()
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
