package policies

import (
	"encoding/base64"
	"fmt"
	"maps"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/safename"
)

const (
	// maxNameLength is the maximum length of <namespace>.<name> of a policy: it is the value of a label.
	maxNameLength = 63
	// minCopyNameLength is the minimum length that must remain for the name of a copy.
	minCopyNameLength = 12
	// policySet is the kind of sets of policies.
	policySet = "PolicySet"
)

// Ref names a policy.
type Ref struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// String is <namespace>/<name>.
func (r Ref) String() string { return r.Namespace + "/" + r.Name }

// Replica is the name of the policy's replica in the namespaces of clusters.
func (r Ref) Replica() string { return r.Namespace + "." + r.Name }

// Names are the names of the objects of a rollout for one policy. All are in Namespace.
type Names struct {
	Namespace string `json:"namespace"`
	// Copy is empty if the policy itself is bound.
	Copy string `json:"copy,omitempty"`
	// Placement is the name of the placement and of the binding.
	Placement string `json:"placement"`
}

// NamesFor returns the names of the objects of a rollout for a policy. They are deterministic, so that a retry finds the objects of the first
// attempt.
func NamesFor(rollout types.NamespacedName, policy Ref, by ranv1.PolicyEnforcement) (Names, error) {
	madeFor := []string{rollout.Namespace, policy.Namespace}
	names := Names{Namespace: policy.Namespace, Placement: safename.Unique(maxNameLength, madeFor, rollout.Name, policy.Name, "placement")}
	if by == ranv1.EnforceOverride {
		return names, nil
	}
	names.Namespace = rollout.Namespace
	copyLength := maxNameLength - len(rollout.Namespace) - len(".")
	if copyLength < minCopyNameLength {
		return Names{}, fmt.Errorf("namespace %s is too long for copies of policies: with the name of a copy it may have %d characters; use a shorter one, or policyEnforcement Override",
			rollout.Namespace, maxNameLength-len("."))
	}
	names.Copy = safename.Unique(copyLength, madeFor, rollout.Name, policy.Name)
	return names, nil
}

// SafeNames are the names by their long forms, as in the status of a rollout.
func (n Names) SafeNames(rollout, policy string) map[string]string {
	safe := map[string]string{rollout + "-" + policy + "-placement": n.Placement}
	if n.Copy != "" {
		safe[rollout+"-"+policy] = n.Copy
	}
	return safe
}

// CopiedSource is the name of the copy of a ConfigMap that the hub templates of policies in a namespace read.
func CopiedSource(rollout types.NamespacedName, policyNamespace, name string) string {
	return safename.Unique(maxNameLength, []string{rollout.Namespace, policyNamespace}, rollout.Name, name)
}

// SourceCopy returns the copy of a ConfigMap for the copies of policies that read it, without owner. It has the data, and no labels or annotations of the source:
// they may mark the object as owned by another program.
func SourceCopy(rollout types.NamespacedName, source *corev1.ConfigMap) *unstructured.Unstructured {
	made := newObject(rollout, types.NamespacedName{Namespace: rollout.Namespace, Name: CopiedSource(rollout, source.Namespace, source.Name)})
	made.SetGroupVersionKind(corev1.SchemeGroupVersion.WithKind("ConfigMap"))
	made.SetAnnotations(map[string]string{AnnotationSource: SourceVersion(source)})
	data, binary := map[string]any{}, map[string]any{}
	for key, value := range source.Data {
		data[key] = value
	}
	for key, value := range source.BinaryData {
		binary[key] = base64.StdEncoding.EncodeToString(value)
	}
	made.Object["data"], made.Object["binaryData"] = data, binary
	return made
}

// SourceVersion identifies the content of a ConfigMap.
func SourceVersion(source metav1.Object) string {
	return string(source.GetUID()) + "/" + source.GetResourceVersion()
}

// Copy returns the enforcing copy of a policy, without owner. Its templates get new names, since the templates of all policies share one namespace on
// a cluster. It has only the annotations of the policy API: others may mark the object as owned by another program. Its hub templates read the copies of the
// ConfigMaps that those of the policy read.
func Copy(rollout types.NamespacedName, policy *unstructured.Unstructured, name string) (*unstructured.Unstructured, error) {
	made := newObject(rollout, types.NamespacedName{Namespace: rollout.Namespace, Name: name})
	made.SetGroupVersionKind(Policies)
	addLabel(made, LabelCopyOf, policy.GetName())
	annotations := map[string]string{}
	for key, value := range policy.GetAnnotations() {
		if strings.HasPrefix(key, Policies.Group+"/") {
			annotations[key] = value
		}
	}
	made.SetAnnotations(annotations)
	spec, found, err := unstructured.NestedMap(policy.Object, "spec")
	if err != nil || !found {
		return nil, fmt.Errorf("policy %s/%s: spec is missing", policy.GetNamespace(), policy.GetName())
	}
	spec["remediationAction"] = "enforce"
	qualifyNamespaces(spec["dependencies"], policy.GetNamespace())
	templates, _, _ := unstructured.NestedSlice(spec, "policy-templates")
	for i, template := range templates {
		fields, _ := template.(map[string]any)
		qualifyNamespaces(fields["extraDependencies"], policy.GetNamespace())
		definition, _, err := unstructured.NestedString(fields, "objectDefinition", "metadata", "name")
		if err != nil || definition == "" {
			return nil, fmt.Errorf("policy %s/%s: spec.policy-templates[%d].objectDefinition.metadata.name is missing", policy.GetNamespace(), policy.GetName(), i)
		}
		safe := safename.Unique(maxNameLength, []string{rollout.Namespace, policy.GetNamespace(), policy.GetName()}, rollout.Name, definition)
		if err := unstructured.SetNestedField(fields, safe, "objectDefinition", "metadata", "name"); err != nil {
			return nil, err
		}
	}
	if templates != nil && policy.GetNamespace() != rollout.Namespace {
		spec["policy-templates"] = redirectHubTemplates(templates, rollout.Namespace, func(name string) string {
			return CopiedSource(rollout, policy.GetNamespace(), name)
		})
	} else if templates != nil {
		spec["policy-templates"] = templates
	}
	made.Object["spec"] = spec
	return made, nil
}

// qualifyNamespaces sets the namespace of dependencies on policies and policy sets that omit it. The default is the namespace of the policy, and the
// copy is in another one. Dependencies of other kinds are objects on the clusters.
func qualifyNamespaces(dependencies any, namespace string) {
	listed, _ := dependencies.([]any)
	for _, dependency := range listed {
		fields, isObject := dependency.(map[string]any)
		if !isObject || fields["kind"] != Policies.Kind && fields["kind"] != policySet {
			continue
		}
		if set, _ := fields["namespace"].(string); set == "" {
			fields["namespace"] = namespace
		}
	}
}

// Binding returns the object that binds a policy, or its copy, to the clusters of the placement of the same name.
func Binding(rollout types.NamespacedName, names Names, policy string, enforcement ranv1.EnforcementStatus) *unstructured.Unstructured {
	made := newObject(rollout, types.NamespacedName{Namespace: names.Namespace, Name: names.Placement})
	made.SetGroupVersionKind(PlacementBindings)
	subject, placement := names.Copy, placementKind(enforcement)
	if enforcement.By == ranv1.EnforceOverride {
		subject = policy
		// The policy is enforced on these clusters only if another binding binds it to them.
		made.Object["subFilter"] = "restricted"
		made.Object["bindingOverrides"] = map[string]any{"remediationAction": "enforce"}
	}
	made.Object["placementRef"] = map[string]any{"apiGroup": placement.Group, "kind": placement.Kind, "name": names.Placement}
	made.Object["subjects"] = []any{map[string]any{"apiGroup": Policies.Group, "kind": Policies.Kind, "name": subject}}
	return made
}

// Placement returns the object that lists the clusters on which a policy is enforced.
func Placement(rollout types.NamespacedName, names Names, policy string, enforcement ranv1.EnforcementStatus, clusters []string) *unstructured.Unstructured {
	made := newObject(rollout, types.NamespacedName{Namespace: names.Namespace, Name: names.Placement})
	addLabel(made, LabelForPolicy, policy)
	made.SetGroupVersionKind(placementKind(enforcement))
	made.Object["spec"] = placementSpec(made.GetKind(), clusters)
	return made
}

func placementSpec(kind string, clusters []string) map[string]any {
	if kind == PlacementRules.Kind {
		return placementRuleOf(clusters)
	}
	return placementOf(clusters)
}

func placementKind(enforcement ranv1.EnforcementStatus) schema.GroupVersionKind {
	if enforcement.Placements == ranv1.KindPlacementRule {
		return PlacementRules
	}
	return Placements
}

// placementRuleOf selects the clusters. Without clusters it sets clusterReplicas to 0: an empty rule would select every cluster.
func placementRuleOf(clusters []string) map[string]any {
	if len(clusters) == 0 {
		return map[string]any{"clusterReplicas": int64(0)}
	}
	listed := make([]any, len(clusters))
	for i, cluster := range clusters {
		listed[i] = map[string]any{"name": cluster}
	}
	return map[string]any{"clusters": listed}
}

// placementOf selects the clusters, and tolerates unreachable ones: otherwise a short outage would remove their policies and apply them again.
func placementOf(clusters []string) map[string]any {
	values := make([]any, len(clusters))
	for i, cluster := range clusters {
		values[i] = cluster
	}
	spec := map[string]any{}
	if len(clusters) == 0 {
		values = []any{""} // an expression must have a value
		spec["numberOfClusters"] = int64(0)
	}
	spec["predicates"] = []any{map[string]any{"requiredClusterSelector": map[string]any{"labelSelector": map[string]any{
		"matchExpressions": []any{map[string]any{"key": "name", "operator": "In", "values": values}},
	}}}}
	spec["tolerations"] = []any{
		map[string]any{"key": Placements.Group + "/unavailable", "operator": "Exists"},
		map[string]any{"key": Placements.Group + "/unreachable", "operator": "Exists"},
	}
	return spec
}

// PlacedClusters are the clusters that a placement lists, as Placement writes it.
func PlacedClusters(placement *unstructured.Unstructured) []string {
	var clusters []string
	if placement.GetKind() == PlacementRules.Kind {
		listed, _, _ := unstructured.NestedSlice(placement.Object, "spec", "clusters")
		for _, one := range listed {
			fields, _ := one.(map[string]any)
			clusters = appendName(clusters, fields["name"])
		}
		return clusters
	}
	predicates, _, _ := unstructured.NestedSlice(placement.Object, "spec", "predicates")
	for _, predicate := range predicates {
		fields, _ := predicate.(map[string]any)
		expressions, _, _ := unstructured.NestedSlice(fields, "requiredClusterSelector", "labelSelector", "matchExpressions")
		for _, expression := range expressions {
			fields, _ := expression.(map[string]any)
			values, _, _ := unstructured.NestedSlice(fields, "values")
			for _, value := range values {
				clusters = appendName(clusters, value)
			}
		}
	}
	return clusters
}

func appendName(names []string, value any) []string {
	if name, _ := value.(string); name != "" {
		return append(names, name)
	}
	return names
}

func newObject(rollout, name types.NamespacedName) *unstructured.Unstructured {
	made := &unstructured.Unstructured{Object: map[string]any{}}
	made.SetNamespace(name.Namespace)
	made.SetName(name.Name)
	made.SetLabels(RolloutLabels(rollout))
	return made
}

// RolloutLabels are the labels of every object of a rollout.
func RolloutLabels(rollout types.NamespacedName) map[string]string {
	return map[string]string{
		LabelManagedBy: ManagedBy, LabelRollout: safename.Join("-", rollout.Name), LabelRolloutNamespace: rollout.Namespace,
	}
}

func addLabel(object *unstructured.Unstructured, key, value string) {
	labels := maps.Clone(object.GetLabels())
	labels[key] = safename.Join("-", value)
	object.SetLabels(labels)
}
