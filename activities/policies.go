package activities

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// Policies enforces policies by objects on the hub. The clusters themselves are not touched.
type Policies struct {
	Clusters *kube.Clusters
	Waits    Waits
}

// PolicyRollout is a rollout that enforces policies.
type PolicyRollout struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the mark of the rollout's workflow.
	Owner       string                  `json:"owner"`
	Enforcement ranv1.PolicyEnforcement `json:"enforcement"`
	// Policies in the order of their turns.
	Policies []policies.Ref `json:"policies"`
	// Pins say for each what it was when it was prepared; none do where that is not known.
	Pins []string `json:"pins,omitempty"`
}

func (r PolicyRollout) name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// PreparedPolicy is a policy that is ready to be enforced, on no cluster yet.
type PreparedPolicy struct {
	policies.Ref
	// Soak is how long a cluster must stay Compliant with it.
	Soak time.Duration `json:"soak,omitempty"`
	// SafeNames are the names of what was made for it, as the status lists them.
	SafeNames map[string]string `json:"safeNames"`
	// Pin is what it was.
	Pin string `json:"pin,omitempty"`
}

// PreparePolicies makes what a rollout needs to enforce its policies, and binds it to no cluster. What an earlier run of the rollout has left is taken over.
// Errors: NotFound when a policy is not there any more; InvalidSpec when one cannot be enforced, or when a name is taken by an object of
// somebody else.
func (p *Policies) PreparePolicies(ctx context.Context, in PolicyRollout) ([]PreparedPolicy, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return preparePolicies(ctx, hub, in)
}

// preparePolicies works on many side by side: an attempt must be over in time on a hub that is slow to answer.
func preparePolicies(ctx context.Context, hub *kube.Cluster, in PolicyRollout) ([]PreparedPolicy, error) {
	prepared := make([]PreparedPolicy, len(in.Policies))
	preparations, preparing := errgroup.WithContext(ctx)
	preparations.SetLimit(requestsAtOnce)
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

// prepare makes the placement first and the binding last: until a cluster is placed, nothing is enforced anywhere.
func prepare(ctx context.Context, hub *kube.Cluster, in PolicyRollout, ref policies.Ref) (PreparedPolicy, error) {
	invalid := func(err error) (PreparedPolicy, error) {
		return PreparedPolicy{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("policy %s: %v", ref, err), err)
	}
	policy, err := readPolicy(ctx, hub, ref)
	if err != nil {
		return PreparedPolicy{}, err
	}
	soak, err := policies.Soak(policy.GetAnnotations())
	if err != nil {
		return invalid(err)
	}
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement)
	if err != nil {
		return invalid(err)
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
		if err := takeOver(ctx, hub, object, in.Owner); err != nil {
			return PreparedPolicy{}, err
		}
	}
	return PreparedPolicy{Ref: ref, Soak: soak, SafeNames: names.SafeNames(in.Name, ref.Name), Pin: policies.Pin(policy)}, nil
}

func readPolicy(ctx context.Context, hub *kube.Cluster, ref policies.Ref) (*unstructured.Unstructured, error) {
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policies.Policies)
	err := hub.Client.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, policy)
	if apierrors.IsNotFound(err) {
		return nil, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("policy %s is not on the hub any more", ref), err)
	}
	return policy, explain(hub, "read policy "+ref.String(), err)
}

// takeOver makes an object, or makes that of an earlier run of the same workflow what it should be. That of anybody else is left alone.
func takeOver(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string) error {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(object.GroupVersionKind())
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), existing)
	ours, _ := kube.OwnerWorkflow(owner)
	holder, _ := kube.OwnerWorkflow(kube.Owner(existing))
	switch {
	case apierrors.IsNotFound(err):
	case err != nil:
		return explain(hub, "read "+nameOf(object), err)
	case holder != ours:
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s exists and is not of this rollout (it belongs to %s): delete it, or give the rollout another name",
			nameOf(object), cmp.Or(holder, "nobody known")), nil)
	case existing.DeletionTimestamp != nil:
		return beingDeleted{fmt.Sprintf("%s is still being deleted: one of its finalizers %v holds it", nameOf(object), existing.Finalizers)}
	}
	return applyOurs(ctx, hub, object, owner)
}

// beingDeleted is that an object cannot be made before the one of that name is gone.
type beingDeleted struct{ message string }

func (b beingDeleted) Error() string { return b.message }

// applyOurs makes an object, or changes it, with our mark.
func applyOurs(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured, owner string) error {
	annotations := object.GetAnnotations()
	if annotations == nil {
		annotations = map[string]string{}
	}
	annotations[kube.AnnotationOwner] = owner
	object.SetAnnotations(annotations)
	return explain(hub, "apply "+nameOf(object), hub.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership))
}

func nameOf(object client.Object) string {
	return object.GetObjectKind().GroupVersionKind().Kind + " " + client.ObjectKeyFromObject(object).String()
}

// PlaceClustersInput says on which clusters which policies are to be enforced.
type PlaceClustersInput struct {
	Rollout PolicyRollout `json:"rollout"`
	// Placements in the order in which they are to be changed; those of the other policies stay as they are.
	Placements []PlacedClusters `json:"placements"`
	// Closes is as in TakeNodeInput: the earliest of the clusters that are added.
	Closes *time.Time `json:"closes,omitempty"`
}

// added are the clusters on which something new begins.
func (in PlaceClustersInput) added() []string {
	var added []string
	for _, placed := range in.Placements {
		added = append(added, placed.Added...)
	}
	return added
}

// PlacedClusters are all clusters on which a policy is to be enforced.
type PlacedClusters struct {
	// Policy is its number among those of the rollout.
	Policy   int      `json:"policy"`
	Clusters []string `json:"clusters"`
	// Added are those among them on which it was not enforced before.
	Added []string `json:"added,omitempty"`
}

// PlaceClusters enforces policies on these clusters and on no other. What PreparePolicies has made for those that gain clusters and somebody has deleted is
// made again first, or no cluster would ever comply; it returns the names of that, and of the policies among them that are not any more what they were when they
// were prepared. Errors: Held when one of those that are added is; NotFound and InvalidSpec when something cannot be made again.
func (p *Policies) PlaceClusters(ctx context.Context, in PlaceClustersInput) ([]string, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	if err := p.Waits.mayBeginOn(ctx, in.added(), in.Closes); err != nil {
		return nil, err
	}
	found, err := findEnforcing(ctx, hub, in)
	if err != nil {
		return nil, err
	}
	for _, placed := range in.Placements {
		ref := in.Rollout.Policies[placed.Policy]
		names, err := policies.NamesFor(in.Rollout.name(), ref, in.Rollout.Enforcement)
		if err != nil {
			return nil, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
		}
		placement := policies.Placement(in.Rollout.name(), names, ref.Name, in.Rollout.Enforcement, placed.Clusters)
		if err := applyOurs(ctx, hub, placement, in.Rollout.Owner); err != nil {
			return nil, err
		}
	}
	return found, nil
}

// findEnforcing looks after the policies that gain clusters, and returns the names of what was made again, and of those that have changed.
func findEnforcing(ctx context.Context, hub *kube.Cluster, in PlaceClustersInput) ([]string, error) {
	found := make([][]string, len(in.Placements))
	looks, looking := errgroup.WithContext(ctx)
	looks.SetLimit(requestsAtOnce)
	for i, placed := range in.Placements {
		if len(placed.Added) > 0 {
			looks.Go(func() error {
				again, err := makeMissing(looking, hub, in.Rollout, placed.Policy)
				if err != nil {
					return err
				}
				changed, err := changedPolicy(looking, hub, in.Rollout, placed.Policy)
				found[i] = append(again, changed...)
				return err
			})
		}
	}
	err := looks.Wait()
	return slices.Concat(found...), err
}

// makeMissing makes anew what enforces a policy and is not there, or is being deleted, and returns the names of that.
func makeMissing(ctx context.Context, hub *kube.Cluster, in PolicyRollout, number int) ([]string, error) {
	ref := in.Policies[number]
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement)
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	var missing []string
	for _, object := range enforcing(in, ref, names) {
		gone, err := isGone(ctx, hub, object)
		if err != nil {
			return nil, err
		}
		if !gone {
			continue
		}
		missing = append(missing, nameOf(object))
		if object.GetKind() == policies.Policies.Kind {
			if object, err = copyAgain(ctx, hub, in, number, names.Copy); err != nil {
				return nil, err
			}
		}
		if err := takeOver(ctx, hub, object, in.Owner); err != nil {
			return nil, err
		}
	}
	return missing, nil
}

// isGone reports whether an object is not there, or is being deleted.
func isGone(ctx context.Context, hub *kube.Cluster, object *unstructured.Unstructured) (bool, error) {
	existing := &metav1.PartialObjectMetadata{}
	existing.SetGroupVersionKind(object.GroupVersionKind())
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(object), existing)
	if apierrors.IsNotFound(err) {
		return true, nil
	}
	return existing.DeletionTimestamp != nil, explain(hub, "read "+nameOf(object), err)
}

// copyAgain returns the copy of a policy as it was prepared: clusters must not get different things from one rollout.
func copyAgain(ctx context.Context, hub *kube.Cluster, in PolicyRollout, number int, name string) (*unstructured.Unstructured, error) {
	ref := in.Policies[number]
	policy, err := readPolicy(ctx, hub, ref)
	if err != nil {
		return nil, err
	}
	if in.isAnother(number, policy) {
		return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("policy %s has been changed since the rollout began, and the copy of what it was, %s/%s, has been deleted: start another rollout with it",
			ref, in.Namespace, name), nil)
	}
	made, err := policies.Copy(in.name(), policy, name)
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("policy %s: %v", ref, err), err)
	}
	return made, nil
}

// changedPolicy returns the name of a policy that is not any more what it was when it was prepared.
func changedPolicy(ctx context.Context, hub *kube.Cluster, in PolicyRollout, number int) ([]string, error) {
	if number >= len(in.Pins) {
		return nil, nil
	}
	policy := &metav1.PartialObjectMetadata{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.Namespace, policy.Name = in.Policies[number].Namespace, in.Policies[number].Name
	name := nameOf(policy)
	err := hub.Client.Get(ctx, client.ObjectKeyFromObject(policy), policy)
	switch {
	case apierrors.IsNotFound(err), err == nil && in.isAnother(number, policy):
		return []string{name}, nil
	}
	return nil, explain(hub, "read "+name, err)
}

// isAnother reports whether a policy is not what it was when it was prepared.
func (r PolicyRollout) isAnother(number int, policy metav1.Object) bool {
	return number < len(r.Pins) && policies.Pin(policy) != r.Pins[number]
}

// enforcing names what enforces a policy on the clusters of its placement: the binding, and the copy where there is one.
func enforcing(in PolicyRollout, ref policies.Ref, names policies.Names) []*unstructured.Unstructured {
	objects := []*unstructured.Unstructured{policies.Binding(in.name(), names, ref.Name, in.Enforcement)}
	if names.Copy != "" {
		made := &unstructured.Unstructured{}
		made.SetGroupVersionKind(policies.Policies)
		made.SetNamespace(names.Namespace)
		made.SetName(names.Copy)
		objects = append(objects, made)
	}
	return objects
}

// WithdrawPolicies removes everything that PreparePolicies has made. What bears another mark is left alone. It returns the names of the policies that are not any
// more what they were when they were prepared.
func (p *Policies) WithdrawPolicies(ctx context.Context, in PolicyRollout) ([]string, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return withdrawPolicies(ctx, hub, in)
}

func withdrawPolicies(ctx context.Context, hub *kube.Cluster, in PolicyRollout) ([]string, error) {
	return changedPolicies(in, func(number int) ([]string, error) {
		if err := withdrawPolicy(ctx, hub, in, in.Policies[number]); err != nil {
			return nil, err
		}
		return changedPolicy(ctx, hub, in, number)
	})
}

// ChangedPolicies returns the names of the policies of a rollout that are not any more what they were when they were prepared.
func (p *Policies) ChangedPolicies(ctx context.Context, in PolicyRollout) ([]string, error) {
	hub, err := p.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	return changedPolicies(in, func(number int) ([]string, error) { return changedPolicy(ctx, hub, in, number) })
}

// changedPolicies looks at many side by side. One that cannot be looked at keeps no other from it.
func changedPolicies(in PolicyRollout, look func(number int) ([]string, error)) ([]string, error) {
	changed := make([][]string, len(in.Policies))
	var looks errgroup.Group
	looks.SetLimit(requestsAtOnce)
	for number := range in.Policies {
		looks.Go(func() (err error) {
			changed[number], err = look(number)
			return err
		})
	}
	err := looks.Wait()
	return slices.Concat(changed...), err
}

// withdrawPolicy removes what was made for a policy: the binding first, and from then on nothing is enforced.
func withdrawPolicy(ctx context.Context, hub *kube.Cluster, in PolicyRollout, ref policies.Ref) error {
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement)
	if err != nil {
		return nil // then nothing was made
	}
	for _, object := range append(enforcing(in, ref, names), policies.Placement(in.name(), names, ref.Name, in.Enforcement, nil)) {
		object.SetAnnotations(map[string]string{kube.AnnotationOwner: in.Owner})
		if err := deleteOurs(ctx, hub, nameOf(object), object); err != nil {
			return err
		}
	}
	return nil
}
