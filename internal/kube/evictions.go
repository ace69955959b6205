package kube

import (
	"context"
	"net/http"

	policyv1 "k8s.io/api/policy/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/flowcontrol"
)

// Evictions requests the eviction of pods. client-go's retries are off: on a 429 they would sleep inside the call, unaware of changed budgets and
// cancellations.
type Evictions struct {
	core  rest.Interface
	queue *evictionQueue
	node  string
}

func newEvictions(config *rest.Config, connections *http.Client) (Evictions, error) {
	// The rate limit is shared with all requests, but evictions wait for it in the queue.
	unlimited := rest.CopyConfig(config)
	unlimited.RateLimiter = flowcontrol.NewFakeAlwaysRateLimiter()
	core, err := coreclient.NewForConfigAndClient(unlimited, connections)
	if err != nil {
		return Evictions{}, err
	}
	return Evictions{core: core.RESTClient(), queue: newEvictionQueue(config.RateLimiter)}, nil
}

// From returns the evictions from one node. All nodes share a queue.
func (e Evictions) From(node string) Evictions {
	e.node = node
	return e
}

// Evict requests one eviction; preconditions go into its DeleteOptions. It returns the API server's error: 429 with cause DisruptionBudget when a
// budget refuses, 409 when a UID precondition fails, 404 when the pod is gone.
func (e Evictions) Evict(ctx context.Context, eviction *policyv1.Eviction) error {
	answered, err := e.queue.acquire(ctx, e.node)
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
