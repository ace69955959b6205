// Package manifestworks decides which manifest works a rollout creates on a hub, and when a cluster complies with one. Every function is pure.
package manifestworks

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/safename"
)

// Kinds of the hub.
var (
	Works = schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1", Kind: "ManifestWork"}
	// Templates are the manifest work templates of a rollout, in its namespace.
	Templates = schema.GroupVersionKind{Group: "work.open-cluster-management.io", Version: "v1alpha1", Kind: "ManifestWorkReplicaSet"}
)

// Ours selects the manifest works of rollouts.
const Ours = policies.LabelManagedBy + "=" + policies.ManagedBy

// AnnotationExpectedValues on a template is a list of {manifestIndex, name, value}: the feedback values that a cluster must report.
const AnnotationExpectedValues = "openshift-cluster-group-upgrades/expectedValues"

// ExpectedValue is a feedback value that a cluster must report for one manifest.
type ExpectedValue struct {
	ManifestIndex int64  `json:"manifestIndex"`
	Name          string `json:"name"`
	Value         string `json:"value"`
}

// ExpectedValues reads AnnotationExpectedValues; none without it.
func ExpectedValues(annotations map[string]string) ([]ExpectedValue, error) {
	text := annotations[AnnotationExpectedValues]
	if text == "" {
		return nil, nil
	}
	var expected []ExpectedValue
	if err := json.Unmarshal([]byte(text), &expected); err != nil {
		return nil, fmt.Errorf("annotation %s: must be a list of {manifestIndex, name, value}: %w", AnnotationExpectedValues, err)
	}
	for i, value := range expected {
		if value.Name == "" {
			return nil, fmt.Errorf("annotation %s[%d].name: is missing", AnnotationExpectedValues, i)
		}
		if value.ManifestIndex < 0 {
			return nil, fmt.Errorf("annotation %s[%d].manifestIndex: is %d: the first manifest is 0", AnnotationExpectedValues, i, value.ManifestIndex)
		}
	}
	return expected, nil
}

// WorkName is the name of the work of a template. Each cluster has its work in its namespace on the hub.
func WorkName(rollout types.NamespacedName, template string) string {
	return safename.Unique(63, []string{rollout.Namespace}, rollout.Name, template)
}

// Work returns the manifest work of a template for a cluster, without owner.
func Work(rollout types.NamespacedName, template *unstructured.Unstructured, cluster string) (*unstructured.Unstructured, error) {
	spec, found, err := unstructured.NestedMap(template.Object, "spec", "manifestWorkTemplate")
	if err != nil || !found {
		return nil, fmt.Errorf("spec.manifestWorkTemplate is missing")
	}
	work := &unstructured.Unstructured{Object: map[string]any{"spec": spec}}
	work.SetGroupVersionKind(Works)
	work.SetNamespace(cluster)
	work.SetName(WorkName(rollout, template.GetName()))
	work.SetLabels(policies.RolloutLabels(rollout))
	if expected, set := template.GetAnnotations()[AnnotationExpectedValues]; set {
		work.SetAnnotations(map[string]string{AnnotationExpectedValues: expected})
	}
	return work, nil
}

// Pin identifies the generation of a template and its expected values, which are an annotation and do not change the generation.
func Pin(template *unstructured.Unstructured) string {
	pin := policies.Pin(template)
	if expected, set := template.GetAnnotations()[AnnotationExpectedValues]; set {
		sum := sha256.Sum256([]byte(expected))
		pin += "/" + hex.EncodeToString(sum[:8])
	}
	return pin
}

// ComplianceOf returns the compliance with a work; nil: it does not exist. A cluster is Compliant when all manifests are applied and available, and
// it reports the expected values.
func ComplianceOf(work *unstructured.Unstructured) policies.Compliance {
	if work == nil || work.GetDeletionTimestamp() != nil {
		return policies.Unknown
	}
	conditions, _, _ := unstructured.NestedSlice(work.Object, "status", "conditions")
	if !allTrue(conditions, work.GetGeneration(), "Applied", "Available") {
		return policies.Pending
	}
	expected, err := ExpectedValues(work.GetAnnotations())
	if err != nil {
		return policies.NonCompliant
	}
	for _, value := range expected {
		if !hasFeedback(work, value) {
			return policies.NonCompliant
		}
	}
	return policies.Compliant
}

// allTrue reports whether conditions of all these types are True for the generation.
func allTrue(conditions []any, generation int64, wanted ...string) bool {
	for _, conditionType := range wanted {
		found := false
		for _, condition := range conditions {
			fields, _ := condition.(map[string]any)
			observed, isSet, _ := unstructured.NestedInt64(fields, "observedGeneration")
			found = found || fields["type"] == conditionType && fields["status"] == "True" && (!isSet || observed >= generation)
		}
		if !found {
			return false
		}
	}
	return true
}

// hasFeedback reports whether the cluster reports the expected value of an applied manifest.
func hasFeedback(work *unstructured.Unstructured, expected ExpectedValue) bool {
	manifests, _, _ := unstructured.NestedSlice(work.Object, "status", "resourceStatus", "manifests")
	for _, manifest := range manifests {
		fields, _ := manifest.(map[string]any)
		ordinal, _, _ := unstructured.NestedInt64(fields, "resourceMeta", "ordinal")
		conditions, _, _ := unstructured.NestedSlice(fields, "conditions")
		if ordinal != expected.ManifestIndex || !allTrue(conditions, 0, "Applied", "Available", "StatusFeedbackSynced") {
			continue
		}
		values, _, _ := unstructured.NestedSlice(fields, "statusFeedback", "values")
		for _, value := range values {
			if fields, _ := value.(map[string]any); fields["name"] == expected.Name && valueOf(fields) == expected.Value {
				return true
			}
		}
	}
	return false
}

// valueOf is a feedback value as text.
func valueOf(value map[string]any) string {
	fields, _, _ := unstructured.NestedMap(value, "fieldValue")
	switch fields["type"] {
	case "String":
		text, _ := fields["string"].(string)
		return text
	case "Boolean":
		truth, _ := fields["boolean"].(bool)
		return strconv.FormatBool(truth)
	case "Integer":
		number, _, _ := unstructured.NestedInt64(fields, "integer")
		return strconv.FormatInt(number, 10)
	case "JsonRaw":
		text, _ := fields["jsonRaw"].(string)
		return text
	}
	return ""
}

// TrimObject removes the manifests of a work. Caches use it.
func TrimObject(object any) (any, error) {
	if work, ok := object.(*unstructured.Unstructured); ok {
		unstructured.RemoveNestedField(work.Object, "spec")
		work.SetManagedFields(nil)
	}
	return object, nil
}
