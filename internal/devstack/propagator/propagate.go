package propagator

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

const (
	rootLabel      = "policy.open-cluster-management.io/root-policy"
	clusterLabel   = "policy.open-cluster-management.io/cluster-name"
	namespaceLabel = "policy.open-cluster-management.io/cluster-namespace"
	compliant      = "Compliant"
	other          = "NonCompliant"
	pending        = "Pending"
	// writesAtOnce is how many replicas are written at the same time.
	writesAtOnce = 32
)

// replica is the replica of a policy in the namespace of a cluster.
type replica struct {
	root     client.ObjectKey
	enforces bool
	// templates are resolved for the cluster; content is what they require. failure is why they could not be resolved: the cluster never complies.
	templates []any
	content   string
	failure   string
	// needs are the dependencies of the policy.
	needs []dependency
	// status is the last written status. evaluated: it was written after the last change of the replica.
	status    string
	evaluated bool
}

// propagate writes the replicas that policies, bindings and placements require, and their statuses.
func (p *Propagator) propagate(ctx context.Context) error {
	roots, err := p.roots(ctx)
	if err != nil {
		return err
	}
	wanted, err := p.wanted(ctx, roots)
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.known = map[client.ObjectKey]bool{}
	for root := range roots {
		p.known[root] = true
	}
	known := make(map[client.ObjectKey]replica, len(p.replicas))
	for key, r := range p.replicas {
		known[key] = r
	}
	p.mu.Unlock()
	var writes errgroup.Group
	writes.SetLimit(writesAtOnce)
	for key, r := range known {
		if _, required := wanted[key]; !required {
			writes.Go(func() error { return p.remove(ctx, key, r) })
		}
	}
	for key, r := range wanted {
		if before, exists := known[key]; !exists || before.enforces != r.enforces || before.content != r.content || before.failure != r.failure || !slices.Equal(before.needs, r.needs) {
			writes.Go(func() error { return p.write(ctx, key, r, roots[r.root]) })
		}
	}
	if err := writes.Wait(); err != nil {
		return err
	}
	return p.evaluate(ctx)
}

// roots are the policies that users and rollouts write.
func (p *Propagator) roots(ctx context.Context) (map[client.ObjectKey]*unstructured.Unstructured, error) {
	list, err := p.list(ctx, policyKind)
	if err != nil {
		return nil, err
	}
	roots := map[client.ObjectKey]*unstructured.Unstructured{}
	for i := range list {
		if _, replicated := list[i].GetLabels()[rootLabel]; !replicated {
			roots[client.ObjectKeyFromObject(&list[i])] = &list[i]
		}
	}
	return roots, nil
}

func (p *Propagator) list(ctx context.Context, kind schema.GroupVersionKind) ([]unstructured.Unstructured, error) {
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(kind.GroupVersion().WithKind(kind.Kind + "List"))
	err := p.objects.List(ctx, list, client.UnsafeDisableDeepCopy) // nothing changes them: a hub has thousands
	return list.Items, err
}

// wanted returns the required replicas. Bindings without a filter come first, because restricted ones may override them.
func (p *Propagator) wanted(ctx context.Context, roots map[client.ObjectKey]*unstructured.Unstructured) (map[client.ObjectKey]replica, error) {
	bindings, err := p.list(ctx, bindingKind)
	if err != nil {
		return nil, err
	}
	placed, err := p.placed(ctx)
	if err != nil {
		return nil, err
	}
	wanted, specs := map[client.ObjectKey]replica{}, map[client.ObjectKey]*policySpec{}
	for key, root := range roots {
		specs[key] = specOf(root)
	}
	for _, restricted := range []bool{false, true} {
		for i := range bindings {
			filter, _, _ := unstructured.NestedString(bindings[i].Object, "subFilter")
			if (filter == "restricted") == restricted {
				p.bind(ctx, wanted, &bindings[i], placed, specs, restricted)
			}
		}
	}
	return wanted, nil
}

// policySpec is what a policy requires.
type policySpec struct {
	templates []any
	content   string
	// varies: it differs from cluster to cluster.
	varies, enforces bool
	needs            []dependency
}

// specOf reads a policy; nil: it takes no effect.
func specOf(root *unstructured.Unstructured) *policySpec {
	if disabled, _, _ := unstructured.NestedBool(root.Object, "spec", "disabled"); disabled || root.GetDeletionTimestamp() != nil {
		return nil
	}
	templates, _, _ := unstructured.NestedSlice(root.Object, "spec", "policy-templates")
	action, _, _ := unstructured.NestedString(root.Object, "spec", "remediationAction")
	return &policySpec{
		templates: templates, content: contentOf(templates), varies: hasHubTemplates(templates), enforces: strings.EqualFold(action, "enforce"), needs: dependenciesOf(root),
	}
}

func (p *Propagator) bind(ctx context.Context, wanted map[client.ObjectKey]replica, binding *unstructured.Unstructured, placed map[string][]string, specs map[client.ObjectKey]*policySpec, restricted bool) {
	override, _, _ := unstructured.NestedString(binding.Object, "bindingOverrides", "remediationAction")
	subjects, _, _ := unstructured.NestedSlice(binding.Object, "subjects")
	kind, _, _ := unstructured.NestedString(binding.Object, "placementRef", "kind")
	placement, _, _ := unstructured.NestedString(binding.Object, "placementRef", "name")
	for _, subject := range subjects {
		name, _ := subject.(map[string]any)["name"].(string)
		key := client.ObjectKey{Namespace: binding.GetNamespace(), Name: name}
		spec := specs[key]
		if spec == nil {
			continue
		}
		for _, cluster := range placed[kind+"/"+binding.GetNamespace()+"/"+placement] {
			at := client.ObjectKey{Namespace: cluster, Name: key.Namespace + "." + key.Name}
			before, bound := wanted[at]
			if restricted && !bound {
				continue
			}
			r := replica{
				root: key, templates: spec.templates, content: spec.content, needs: spec.needs,
				enforces: before.enforces || spec.enforces || strings.EqualFold(override, "enforce"),
			}
			if spec.varies {
				r.templates, r.failure = p.resolve(ctx, key.Namespace, cluster, spec.templates)
				r.content = contentOf(r.templates)
			}
			wanted[at] = r
		}
	}
}

// contentOf returns the templates of a policy without their names.
func contentOf(templates []any) string {
	var contents []any
	for _, template := range templates {
		objects, _, _ := unstructured.NestedSlice(template.(map[string]any), "objectDefinition", "spec", "object-templates")
		contents = append(contents, objects)
	}
	text, _ := json.Marshal(contents)
	return string(text)
}

// write creates or updates a replica.
func (p *Propagator) write(ctx context.Context, key client.ObjectKey, r replica, root *unstructured.Unstructured) error {
	if err := p.ensureNamespace(ctx, key.Namespace); err != nil {
		return err
	}
	object := &unstructured.Unstructured{Object: map[string]any{"spec": runtime.DeepCopyJSONValue(root.Object["spec"])}}
	object.SetGroupVersionKind(policyKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	labels := map[string]string{}
	if copies, set, _ := unstructured.NestedBool(root.Object, "spec", "copyPolicyMetadata"); copies || !set {
		maps.Copy(labels, root.GetLabels())
		object.SetAnnotations(root.GetAnnotations())
	}
	labels[rootLabel], labels[clusterLabel], labels[namespaceLabel] = key.Name, key.Namespace, key.Namespace
	object.SetLabels(labels)
	spec := object.Object["spec"].(map[string]any)
	spec["policy-templates"] = r.templates
	if r.enforces {
		spec["remediationAction"] = "enforce"
	}
	err := p.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership, client.FieldOwner("propagator"))
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	before := p.replicas[key]
	r.status, r.evaluated = before.status, false
	p.replicas[key] = r
	p.recordEnforcement(key, before.enforces, r.enforces)
	return nil
}

func (p *Propagator) remove(ctx context.Context, key client.ObjectKey, r replica) error {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(policyKind)
	object.SetNamespace(key.Namespace)
	object.SetName(key.Name)
	if err := client.IgnoreNotFound(p.client.Delete(ctx, object)); err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	delete(p.replicas, key)
	p.recordEnforcement(key, r.enforces, false)
	return nil
}

func (p *Propagator) recordEnforcement(key client.ObjectKey, before, now bool) {
	if before != now {
		p.enforced = append(p.enforced, Enforcement{Cluster: key.Namespace, Policy: key.Name, Began: now, At: time.Now()})
	}
}

func (p *Propagator) ensureNamespace(ctx context.Context, name string) error {
	p.mu.Lock()
	exists := p.namespaces[name]
	p.mu.Unlock()
	if exists {
		return nil
	}
	namespace := &unstructured.Unstructured{}
	namespace.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "Namespace"})
	namespace.SetName(name)
	if err := p.client.Create(ctx, namespace); err != nil && !apierrors.IsAlreadyExists(err) {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.namespaces[name] = true
	return nil
}
