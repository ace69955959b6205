// Package policies holds the activities that remediate clusters with policies.
package policies

import (
	"context"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/installplans"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// Activities enforces policies with objects on the hub. It does not touch the clusters themselves.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// Rollout is a rollout that enforces policies.
type Rollout struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the mark of the rollout's workflow.
	Owner       string                  `json:"owner"`
	Enforcement ranv1.EnforcementStatus `json:"enforcement"`
	// Policies are in the order in which they are enforced.
	Policies []policies.Ref `json:"policies"`
	// Pins has for each policy the prepared generation, and Sources the ConfigMaps that its copy needs a copy of; empty before that.
	Pins    []string   `json:"pins,omitempty"`
	Sources [][]string `json:"sources,omitempty"`
}

func (r Rollout) name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// Prepared is a policy that can be enforced. It is enforced on no cluster yet.
type Prepared struct {
	policies.Ref
	// Soak is how long a cluster must stay Compliant with it.
	Soak time.Duration `json:"soak,omitempty"`
	// SafeNames are the names of its objects, as in the status.
	SafeNames map[string]string `json:"safeNames"`
	// Subscriptions that it requires on the clusters.
	Subscriptions []installplans.Requested `json:"subscriptions,omitempty"`
	// Pin identifies its generation, and Specified is when its spec was last changed.
	Pin       string    `json:"pin,omitempty"`
	Specified time.Time `json:"specified,omitzero"`
	// Sources are the ConfigMaps that its copy needs a copy of.
	Sources []string `json:"sources,omitempty"`
}

// PreparePolicies creates the objects that enforce the policies of a rollout, without clusters. It adopts objects of an earlier run of the rollout.
// Errors: NotFound if a policy does not exist; InvalidSpec if a policy cannot be enforced, or an object of that name has another owner.
func (p *Activities) PreparePolicies(ctx context.Context, in Rollout) ([]Prepared, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return preparePolicies(ctx, hub, in)
}

// preparePolicies prepares policies in parallel, so that an attempt ends in time also on a slow hub.
func preparePolicies(ctx context.Context, hub *kube.Cluster, in Rollout) ([]Prepared, error) {
	prepared := make([]Prepared, len(in.Policies))
	preparations, preparing := errgroup.WithContext(ctx)
	preparations.SetLimit(activitykit.MaxParallelRequests)
	for i, ref := range in.Policies {
		preparations.Go(func() (err error) {
			prepared[i], err = prepare(preparing, hub, in, ref)
			return err
		})
	}
	if err := preparations.Wait(); err != nil {
		return nil, err
	}
	return prepared, nil
}

// prepare creates the placement first and the binding last: nothing is enforced before a cluster is placed.
func prepare(ctx context.Context, hub *kube.Cluster, in Rollout, ref policies.Ref) (Prepared, error) {
	invalid := func(err error) (Prepared, error) {
		return Prepared{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("policy %s: %v", ref, err), err)
	}
	policy, err := readPolicy(ctx, hub, ref)
	if err != nil {
		return Prepared{}, err
	}
	soak, err := policies.Soak(policy.GetAnnotations())
	if err != nil {
		return invalid(err)
	}
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement.By)
	if err != nil {
		return invalid(err)
	}
	read, err := rollout.ReadPolicy(policy)
	if err != nil {
		return invalid(err)
	}
	sources := read.HubReads.Copies(in.Namespace, ref.Namespace, in.Enforcement.By)
	for _, source := range sources {
		if _, err := copySource(ctx, hub, in, ref.Namespace, source); err != nil {
			return Prepared{}, err
		}
	}
	objects := []*unstructured.Unstructured{policies.Placement(in.name(), names, ref.Name, in.Enforcement, nil)}
	if names.Copy != "" {
		made, err := policies.Copy(in.name(), policy, names.Copy)
		if err != nil {
			return invalid(err)
		}
		objects = append(objects, made)
	}
	for _, object := range append(objects, policies.Binding(in.name(), names, ref.Name, in.Enforcement)) {
		if err := remediation.CreateOrAdopt(ctx, hub, object, in.Owner); err != nil {
			return Prepared{}, err
		}
	}
	return Prepared{
		Ref: ref, Soak: soak, SafeNames: names.SafeNames(in.Name, ref.Name), Pin: policies.Pin(policy), Specified: policies.Specified(policy), Subscriptions: subscriptionsOf(read),
		Sources: sources,
	}, nil
}

// subscriptionsOf returns the Subscriptions that a policy requires. The policy API names objects completely, so that one without a namespace is none.
func subscriptionsOf(read rollout.Policy) []installplans.Requested {
	var required []installplans.Requested
	for _, subscription := range read.Subscriptions {
		if subscription.Namespace != "" && subscription.Name != "" {
			required = append(required, installplans.Requested{Namespace: subscription.Namespace, Name: subscription.Name, Spec: subscription.Spec})
		}
	}
	return required
}

func readPolicy(ctx context.Context, hub *kube.Cluster, ref policies.Ref) (*unstructured.Unstructured, error) {
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policies.Policies)
	err := hub.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, policy)
	if apierrors.IsNotFound(err) {
		return nil, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("policy %s does not exist on the hub", ref), err)
	}
	return policy, activitykit.Explain(hub, "read policy "+ref.String(), err)
}
