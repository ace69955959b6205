package rollout

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/precache"
)

// Inventory has the objects on the hub that a plan depends on. The order of its lists does not matter.
type Inventory struct {
	Clusters []Cluster
	Policies []Policy
	// Rollouts are the known blockers of the rollout and, recursively, their blockers.
	Rollouts map[types.NamespacedName]*ranv1.ClusterGroupUpgrade
	// ManifestWorkTemplates are the ManifestWorkReplicaSets that exist.
	ManifestWorkTemplates []Template
	// Hub is what the hub can do; nil: not needed, or not known, as in a file without the CRD of PlacementBindings.
	Hub *HubAPIs
	// BoundSets are the sets of clusters that Placements may select from, by the namespaces of the Placements; nil: not needed, or unknown.
	BoundSets map[string][]policies.ClusterSet
	// Settles is when the compliance of a cluster may begin to count without a change on the hub; zero: it does not.
	Settles time.Time
	// PreCachingConfig that the rollout refers to; nil if it does not exist. PreCachingOverrides is the ConfigMap of that name in its namespace.
	PreCachingConfig    *ranv1.PreCachingConfigSpec
	PreCachingOverrides map[string]string
	// Release is the release that was looked up for the rollout; nil: none was.
	Release *precache.LookedUp
}

// Cluster is a ManagedCluster as selection uses it.
type Cluster struct {
	Name   string
	Labels map[string]string
	// Offline: the ManagedCluster is not Available.
	Offline bool
}

// Template is a manifest work template as a plan uses it.
type Template struct {
	types.NamespacedName
	// Invalid is the problem of its annotations; empty: none.
	Invalid string
}

// Policy is a root policy as a plan uses it.
type Policy struct {
	Namespace, Name string
	// Enforces: its remediation action is already enforce.
	Enforces bool
	// ReadsStatus: its templates read the status of objects. Such a policy guards the order of the others.
	ReadsStatus bool
	// Invalid is the problem of its templates or annotations; empty: none.
	Invalid string
	// HubReads is what its hub templates read from its namespace.
	HubReads policies.HubReads
	// MissingSources are the ConfigMaps that its hub templates read, and that a copy of it needs but cannot get, with the reason.
	MissingSources []string
	// DependsOn are the policies that a cluster must comply with before this one is evaluated.
	DependsOn []types.NamespacedName
	// Releases of the platform that its templates request.
	Releases []Release
	// Subscriptions and Catalogs that its templates contain.
	Subscriptions []Subscription
	Catalogs      []Catalog
	// Templated are the kinds of objects in raw text with templates. What these objects set is not known.
	Templated []string
	// Compliant has an entry for each cluster that the policy is bound to: whether the cluster is Compliant.
	Compliant map[string]bool
	// Specified is when its spec was last changed; zero: unknown.
	Specified time.Time
}

// Subscription is a Subscription of Operator Lifecycle Manager in a policy, as the status of a rollout lists it.
type Subscription struct {
	Kind       string `json:"kind"`
	Name       string `json:"name"`
	APIVersion string `json:"apiVersion"`
	Namespace  string `json:"namespace"`
	// Spec has the fields that select what is installed. It is not in the status.
	Spec map[string]string `json:"-"`
}

// Catalog is a CatalogSource of Operator Lifecycle Manager in a policy, with the image of its index.
type Catalog struct{ Namespace, Name, Image string }

// String is <namespace>/<name>.
func (p Policy) String() string { return p.Namespace + "/" + p.Name }

// BoundTo reports whether the policy is bound to the cluster.
func (p Policy) BoundTo(cluster string) bool {
	_, bound := p.Compliant[cluster]
	return bound
}

// ReadPolicy reads a root policy. It returns an error when a field has another type than the API gives it.
func ReadPolicy(object *unstructured.Unstructured) (Policy, error) {
	policy := Policy{Namespace: object.GetNamespace(), Name: object.GetName(), Compliant: map[string]bool{}, Specified: policies.Specified(object)}
	for _, read := range []func(map[string]any) error{policy.readTemplates, policy.readDependencies, policy.readCompliance} {
		if err := read(object.Object); err != nil {
			return Policy{}, fmt.Errorf("policy %s: %w", policy, err)
		}
	}
	if _, err := policies.Soak(object.GetAnnotations()); err != nil && policy.Invalid == "" {
		policy.Invalid = err.Error()
	}
	return policy, nil
}

// readCompliance reads status.status: an entry for each cluster that the policy is bound to. An entry without a value is not compliant. A cluster
// with several entries must be Compliant in all of them.
func (p *Policy) readCompliance(object map[string]any) error {
	entries, err := fieldOf[[]any](object, "status", "status")
	if err != nil {
		return err
	}
	for i, entry := range entries {
		fields, ok := entry.(map[string]any)
		if !ok {
			return fmt.Errorf("status.status[%d]: must be an object", i)
		}
		cluster, err := fieldOf[string](fields, "clustername")
		if err != nil {
			return fmt.Errorf("status.status[%d].%w", i, err)
		}
		compliant, err := fieldOf[string](fields, "compliant")
		if err != nil {
			return fmt.Errorf("status.status[%d].%w", i, err)
		}
		before, bound := p.Compliant[cluster]
		p.Compliant[cluster] = compliant == "Compliant" && (before || !bound)
	}
	return nil
}

// readDependencies reads spec.dependencies, and the extraDependencies of the templates.
func (p *Policy) readDependencies(object map[string]any) error {
	if err := p.dependOn(object, "spec.dependencies", "spec", "dependencies"); err != nil {
		return err
	}
	templates, _ := fieldOf[[]any](object, "spec", "policy-templates") // readTemplates reports errors
	for i, template := range templates {
		fields, _ := template.(map[string]any)
		if err := p.dependOn(fields, fmt.Sprintf("spec.policy-templates[%d].extraDependencies", i), "extraDependencies"); err != nil {
			return err
		}
	}
	return nil
}

// dependOn adds the policies in a list of dependencies. The default namespace is that of the policy.
func (p *Policy) dependOn(object map[string]any, at string, path ...string) error {
	dependencies, err := fieldOf[[]any](object, path...)
	if err != nil {
		return err
	}
	for i, dependency := range dependencies {
		fields, ok := dependency.(map[string]any)
		if !ok {
			return fmt.Errorf("%s[%d]: must be an object", at, i)
		}
		name, err := fieldOf[string](fields, "name")
		if err != nil {
			return fmt.Errorf("%s[%d].%w", at, i, err)
		}
		namespace, err := fieldOf[string](fields, "namespace")
		if err != nil {
			return fmt.Errorf("%s[%d].%w", at, i, err)
		}
		if kind, _, _ := unstructured.NestedString(fields, "kind"); kind == policies.Policies.Kind {
			p.DependsOn = append(p.DependsOn, types.NamespacedName{Namespace: cmp.Or(namespace, p.Namespace), Name: name})
		}
	}
	return nil
}

// fieldOf returns the field at a path; the zero value if it is missing or null. It returns an error if the field has another type.
func fieldOf[T string | []any | map[string]any](object map[string]any, path ...string) (value T, err error) {
	parent, name := path[:len(path)-1], path[len(path)-1]
	if len(parent) > 0 {
		if object, err = fieldOf[map[string]any](object, parent...); err != nil {
			return value, err
		}
	}
	value, is := object[name].(T)
	if is || object[name] == nil {
		return value, nil
	}
	wanted := "an object"
	switch any(value).(type) {
	case string:
		wanted = "text"
	case []any:
		wanted = "a list"
	}
	return value, fmt.Errorf("%s: must be %s", strings.Join(path, "."), wanted)
}
