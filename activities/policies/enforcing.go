package policies

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// enforcing finds out whether policies can be, and are, enforced on clusters: whether Placements can select them, and whether the objects of the rollout are as
// it wrote them.
type enforcing struct {
	hub *kube.Cluster
	Enforced
	// enforced are the clusters on which their current policy was seen to be enforced.
	enforced map[string]bool
	// sources are the watches of the ConfigMaps that a policy reads.
	sources map[int][]*sourceWatch
}

// related are the objects that tell it, beside ManagedClusters.
func (e *enforcing) related() []client.Object {
	var objects []client.Object
	if e.byPlacements() {
		sets := &unstructured.Unstructured{}
		sets.SetGroupVersionKind(policies.ClusterSets)
		objects = append(objects, kube.IfServed(sets))
		for _, namespace := range e.namespaces() {
			bindings := &unstructured.Unstructured{}
			bindings.SetGroupVersionKind(policies.SetBindings)
			bindings.SetNamespace(namespace)
			objects = append(objects, kube.IfServed(bindings))
		}
	}
	for _, ref := range e.Rollout.Policies {
		if names, err := policies.NamesFor(e.Rollout.name(), ref, e.Rollout.Enforcement.By); err == nil {
			binding := policies.Binding(e.Rollout.name(), names, ref.Name, e.Rollout.Enforcement)
			placement := policies.Placement(e.Rollout.name(), names, ref.Name, e.Rollout.Enforcement, nil)
			objects = append(objects, kube.IfServed(binding), kube.IfServed(placement))
			if made := copyOf(names); made != nil {
				objects = append(objects, kube.IfServed(made))
			}
		}
	}
	e.sources = map[int][]*sourceWatch{}
	for item, ref := range e.Rollout.Policies {
		for _, source := range e.Rollout.sourcesOf(item) {
			watch := &sourceWatch{
				source: kube.CacheMetadata(configMap(ref.Namespace, source)),
				made:   kube.CacheMetadata(configMap(e.Rollout.Namespace, policies.CopiedSource(e.Rollout.name(), ref.Namespace, source))),
			}
			e.sources[item] = append(e.sources[item], watch)
			objects = append(objects, watch.source, watch.made)
		}
	}
	return objects
}

func (e *enforcing) byPlacements() bool {
	return e.Rollout.Enforcement.Placements == ranv1.KindPlacement
}

// namespaces are those of the policies and of their placements.
func (e *enforcing) namespaces() []string {
	var found []string
	seen := map[string]bool{}
	for item, ref := range e.Rollout.Policies {
		for _, namespace := range []string{ref.Namespace, e.placementNamespace(item)} {
			if !seen[namespace] {
				seen[namespace] = true
				found = append(found, namespace)
			}
		}
	}
	return found
}

func (e *enforcing) placementNamespace(item int) string {
	return policies.PlacementNamespace(e.Rollout.Namespace, e.Rollout.Policies[item], e.Rollout.Enforcement.By)
}

// complete implements the function of remediation.ComplianceReader.
func (e *enforcing) complete(ctx context.Context, known []policies.KnownCluster, seen []policies.ClusterCompliance) (again time.Time, err error) {
	look := &enforcementLook{enforcing: e, sets: map[string]boundSets{}, enforcement: map[int]enforcement{}, now: time.Now()}
	for i := range seen {
		if seen[i].ClusterDeleted {
			continue
		}
		var before *policies.KnownCluster
		if known != nil {
			before = &known[i]
		}
		if err := look.cluster(ctx, before, &seen[i]); err != nil {
			return time.Time{}, err
		}
	}
	return look.again, nil
}

// enforcementLook is one look at many clusters. It reads each object once.
type enforcementLook struct {
	*enforcing
	// sets are those that are bound to a namespace, and enforcement is how a policy is enforced, by the cache or, once it is in doubt, by the API server.
	sets        map[string]boundSets
	enforcement map[int]enforcement
	now, again  time.Time
}

// boundSets are the cluster sets that are bound to a namespace.
type boundSets struct {
	sets []policies.ClusterSet
	// bound is when the last of the bindings was created.
	bound time.Time
	// certain: they were read from the API server.
	certain bool
}

// enforcement is how the objects of a rollout enforce a policy.
type enforcement struct {
	// bound: the binding is as the rollout wrote it, and the copy, if there is one, exists and reads what its policy reads. selects are the clusters that the placement
	// selects.
	bound   bool
	selects map[string]bool
	certain bool
	// unknown: the hub does not permit to read these objects.
	unknown bool
}

// cluster completes what is seen of one cluster.
func (l *enforcementLook) cluster(ctx context.Context, known *policies.KnownCluster, seen *policies.ClusterCompliance) error {
	if l.byPlacements() {
		if err := l.explainUnbound(ctx, known, seen); err != nil {
			return err
		}
	}
	if known == nil {
		return nil
	}
	if l.byPlacements() && seen.Unselectable == "" {
		for _, certain := range []bool{false, true} { // the cache may lag
			problem, err := l.unselectable(ctx, known, certain)
			if err != nil {
				return err
			}
			seen.Unselectable = problem
			if problem == "" || problem == known.Unselectable {
				break
			}
		}
	}
	var err error
	seen.Displaced, err = l.displaced(ctx, known)
	return err
}

// explainUnbound marks the policies that are not bound to a cluster because Placements in their namespaces cannot select it.
func (l *enforcementLook) explainUnbound(ctx context.Context, known *policies.KnownCluster, seen *policies.ClusterCompliance) error {
	letters := []byte(seen.Status)
	for item, ref := range l.Rollout.Policies {
		if seen.Status.Of(item) != policies.Unbound || known != nil && known.Status.Of(item) == policies.Unbound {
			continue
		}
		problem, err := l.unbound(ctx, seen.Cluster, ref, false, false)
		if err == nil && problem == "" && (known == nil || known.Status != "") { // the cluster would fail, and the cache may lag
			problem, err = l.unbound(ctx, seen.Cluster, ref, known != nil, true)
		}
		switch {
		case err != nil:
			return err
		case problem == "":
			continue
		case known != nil && item == known.Policy:
			seen.Unselectable = problem
		}
		letters[item] = byte(policies.Unselected)
	}
	seen.Status = policies.ComplianceStatus(letters)
	return nil
}

// unbound is why no Placement can bind a policy to a cluster, or may not have done so yet; "": neither.
func (l *enforcementLook) unbound(ctx context.Context, cluster string, ref policies.Ref, certainLabels, certainSets bool) (string, error) {
	labels, err := l.labels(ctx, cluster, certainLabels)
	if err != nil {
		return "", err
	}
	sets, err := l.boundSets(ctx, ref.Namespace, certainSets)
	if err != nil {
		return "", err
	}
	if set := policies.UnboundSet(labels, sets.sets); set != "" {
		return fmt.Sprintf("policy %s is not bound to it while no Placement in namespace %s can pick it: create the ManagedClusterSetBinding there for the set %s",
			ref, ref.Namespace, set), nil
	}
	created := !l.Started.IsZero() && !sets.bound.Before(l.Started.Truncate(time.Second)) // the hub's times are exact to the second
	if settles := sets.bound.Add(policies.Settle); created && l.now.Before(settles) {
		l.lookAgain(settles)
		return fmt.Sprintf("policy %s is not bound to it: waiting until the hub has acted on a new ManagedClusterSetBinding in namespace %s", ref, ref.Namespace), nil
	}
	return "", nil
}

func (l *enforcementLook) lookAgain(at time.Time) {
	if l.again.IsZero() || at.Before(l.again) {
		l.again = at
	}
}

// unselectable is why the placement of the current policy of a cluster cannot select it; "": it can.
func (l *enforcementLook) unselectable(ctx context.Context, known *policies.KnownCluster, certain bool) (string, error) {
	if known.Policy < 0 || known.Policy >= len(l.Rollout.Policies) {
		return "", nil
	}
	labels, err := l.labels(ctx, known.Cluster, certain)
	if err != nil {
		return "", err
	}
	namespace := l.placementNamespace(known.Policy)
	sets, err := l.boundSets(ctx, namespace, certain)
	if err != nil {
		return "", err
	}
	return policies.Unselectable(known.Cluster, labels, namespace, sets.sets), nil
}

// labels are those of the ManagedCluster of a cluster.
func (l *enforcementLook) labels(ctx context.Context, cluster string, certain bool) (map[string]string, error) {
	registered := activitykit.ManagedCluster(cluster)
	err := l.reader(certain).Get(ctx, client.ObjectKeyFromObject(registered), registered)
	return registered.GetLabels(), client.IgnoreNotFound(err)
}

// reader reads from the cache or, to be certain, from the API server.
func (l *enforcementLook) reader(certain bool) client.Reader {
	if certain {
		return l.hub.Client
	}
	return l.hub.Cache
}

// boundSets reads the cluster sets that are bound to a namespace. A hub that does not tell binds all.
func (l *enforcementLook) boundSets(ctx context.Context, namespace string, certain bool) (boundSets, error) {
	if read, found := l.sets[namespace]; found && (read.certain || !certain) {
		return read, nil
	}
	read := boundSets{certain: certain, sets: []policies.ClusterSet{{Name: policies.GlobalSet}}}
	bindings, served, err := l.list(ctx, policies.SetBindings, namespace, certain)
	if err != nil {
		return boundSets{}, err
	}
	if served {
		sets, _, err := l.list(ctx, policies.ClusterSets, "", certain)
		if err != nil {
			return boundSets{}, err
		}
		read.sets = policies.BoundSets(bindings, sets)
	}
	for i := range bindings {
		if created := bindings[i].GetCreationTimestamp().Time; created.After(read.bound) {
			read.bound = created
		}
	}
	l.sets[namespace] = read
	return read, nil
}

// list reads the objects of a kind, if the hub serves them and permits that.
func (l *enforcementLook) list(ctx context.Context, kind schema.GroupVersionKind, namespace string, certain bool) (items []unstructured.Unstructured, served bool, err error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err = l.reader(certain).List(ctx, list, client.InNamespace(namespace))
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
		return nil, false, nil
	}
	return list.Items, err == nil, err
}

// displaced reports whether an object that enforces the current policy of a cluster was deleted, or changed by another user, since it was enforced there.
func (l *enforcementLook) displaced(ctx context.Context, known *policies.KnownCluster) (bool, error) {
	if known.Policy < 0 || known.Policy >= len(l.Rollout.Policies) {
		return false, nil
	}
	for _, certain := range []bool{false, true} { // the cache may lag
		found, err := l.enforcementOf(ctx, known.Policy, certain)
		if err != nil || found.unknown {
			return false, err
		}
		if found.bound && found.selects[known.Cluster] {
			l.enforced[known.Cluster] = true
			return false, nil
		}
		if !known.Placed && !l.enforced[known.Cluster] {
			return false, nil
		}
	}
	return true, nil
}

// enforcementOf reads the objects that enforce a policy.
func (l *enforcementLook) enforcementOf(ctx context.Context, item int, certain bool) (enforcement, error) {
	if read, found := l.enforcement[item]; found && (read.certain || !certain) {
		return read, nil
	}
	in, ref := l.Rollout, l.Rollout.Policies[item]
	names, err := policies.NamesFor(in.name(), ref, in.Enforcement.By)
	if err != nil {
		return enforcement{unknown: true}, nil
	}
	reader, read := l.reader(certain), enforcement{certain: certain, selects: map[string]bool{}}
	written := policies.Binding(in.name(), names, ref.Name, in.Enforcement)
	binding, err := readExisting(ctx, reader, written)
	read.bound = binding != nil && policies.Binds(binding, written)
	if made := copyOf(names); err == nil && made != nil {
		err = reader.Get(ctx, client.ObjectKeyFromObject(made), made)
		read.bound = read.bound && err == nil && made.DeletionTimestamp == nil
		err = client.IgnoreNotFound(err)
	}
	for _, source := range l.sources[item] {
		if err == nil && read.bound {
			read.bound, err = source.current(ctx, l.hub)
		}
	}
	if err == nil {
		var placement *unstructured.Unstructured
		placement, err = readExisting(ctx, reader, policies.Placement(in.name(), names, ref.Name, in.Enforcement, nil))
		if placement != nil && policies.Selects(placement) {
			for _, cluster := range policies.PlacedClusters(placement) {
				read.selects[cluster] = true
			}
		}
	}
	if meta.IsNoMatchError(err) || apierrors.IsForbidden(err) {
		read.unknown, err = true, nil
	}
	l.enforcement[item] = read
	return read, err
}

// copyOf is the copy of a policy, to read its metadata; nil: the policy itself is enforced.
func copyOf(names policies.Names) *metav1.PartialObjectMetadata {
	if names.Copy == "" {
		return nil
	}
	made := &metav1.PartialObjectMetadata{}
	made.SetGroupVersionKind(policies.Policies)
	made.Namespace, made.Name = names.Namespace, names.Copy
	return made
}

// readExisting reads an object; nil: it does not exist, or is being deleted.
func readExisting(ctx context.Context, reader client.Reader, named *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(named.GroupVersionKind())
	err := reader.Get(ctx, client.ObjectKeyFromObject(named), object)
	if apierrors.IsNotFound(err) || err == nil && object.GetDeletionTimestamp() != nil {
		return nil, nil
	}
	return object, err
}
