// Package installplans decides which InstallPlans of Operator Lifecycle Manager a rollout approves on a cluster. Every function is pure.
package installplans

import (
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
)

// Kinds of Operator Lifecycle Manager on the clusters.
var (
	Subscriptions = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "Subscription"}
	InstallPlans  = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"}
)

// Manual is the approval of Subscriptions and InstallPlans that wait for an approval.
const Manual = "Manual"

// Fields of the spec of a Subscription that select what is installed.
const (
	FieldChannel     = "channel"
	FieldStartingCSV = "startingCSV"
	FieldApproval    = "installPlanApproval"
)

// fields of the spec of a Subscription that a policy may ask for, in the order in which messages name them.
var fields = []string{"name", FieldChannel, "source", "sourceNamespace", FieldStartingCSV, FieldApproval}

// Requested is a Subscription that a policy requires.
type Requested struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Spec has the fields of the spec that the policy sets, as they are in the policy.
	Spec map[string]string `json:"spec,omitempty"`
}

// String is <namespace>/<name>.
func (r Requested) String() string { return r.Namespace + "/" + r.Name }

// SpecOf returns the fields of the spec of a Subscription that are relevant for its installation.
func SpecOf(subscription *unstructured.Unstructured) map[string]string {
	spec := map[string]string{}
	for _, field := range fields {
		if value, _, _ := unstructured.NestedString(subscription.Object, "spec", field); value != "" {
			spec[field] = value
		}
	}
	return spec
}

// isTemplate reports whether the clusters, or the hub, fill in a text.
func isTemplate(text string) bool { return strings.Contains(text, "{{") }

// Subscription is a Subscription on a cluster.
type Subscription struct {
	Spec map[string]string
	// State is the state in the status, CurrentCSV the version that the Subscription is progressing to, and InstalledCSV the installed one.
	State, CurrentCSV, InstalledCSV string
	// Plan is its InstallPlan; empty: it has none.
	Plan string
}

// ReadSubscription reads a Subscription of a cluster.
func ReadSubscription(object *unstructured.Unstructured) *Subscription {
	text := func(path ...string) string {
		value, _, _ := unstructured.NestedString(object.Object, path...)
		return value
	}
	s := &Subscription{
		Spec: SpecOf(object), State: text("status", "state"), CurrentCSV: text("status", "currentCSV"), InstalledCSV: text("status", "installedCSV"),
		Plan: text("status", "installPlanRef", "name"),
	}
	if s.Plan == "" {
		s.Plan = text("status", "installplan", "name")
	}
	return s
}

// stateAtLatest is the state of a Subscription that has the latest version of its channel installed.
const stateAtLatest = "AtLatestKnown"

// NeedsPlan reports whether a decision about the Subscription needs its InstallPlan.
func (s *Subscription) NeedsPlan() bool {
	return s.Plan != "" && s.State != stateAtLatest && s.Spec[FieldApproval] == Manual
}

// Plan is an InstallPlan on a cluster.
type Plan struct {
	Name string
	UID  types.UID
	// Version is its resource version.
	Version          string
	Manual, Approved bool
	// CSVs are the versions that it installs. Dependencies are those of them that had no Subscription before.
	CSVs, Dependencies []string
	// Phase and Message are those of the status.
	Phase, Message string
}

// ReadPlan reads an InstallPlan of a cluster.
func ReadPlan(object *unstructured.Unstructured) *Plan {
	approval, _, _ := unstructured.NestedString(object.Object, "spec", "approval")
	approved, _, _ := unstructured.NestedBool(object.Object, "spec", "approved")
	csvs, _, _ := unstructured.NestedStringSlice(object.Object, "spec", "clusterServiceVersionNames")
	phase, _, _ := unstructured.NestedString(object.Object, "status", "phase")
	return &Plan{
		Name: object.GetName(), UID: object.GetUID(), Version: object.GetResourceVersion(), Manual: approval == Manual, Approved: approved, CSVs: csvs,
		Dependencies: dependencies(object), Phase: phase, Message: messageOf(object),
	}
}

// dependencies are the versions for which an InstallPlan creates Subscriptions.
func dependencies(plan *unstructured.Unstructured) []string {
	steps, _, _ := unstructured.NestedSlice(plan.Object, "status", "plan")
	var found []string
	for _, step := range steps {
		fields, _ := step.(map[string]any)
		group, _, _ := unstructured.NestedString(fields, "resource", "group")
		kind, _, _ := unstructured.NestedString(fields, "resource", "kind")
		csv, _, _ := unstructured.NestedString(fields, "resolving")
		if group == Subscriptions.Group && kind == Subscriptions.Kind && !slices.Contains(found, csv) {
			found = append(found, csv)
		}
	}
	return found
}

// messageOf is why an InstallPlan failed.
func messageOf(plan *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(plan.Object, "status", "conditions")
	for _, condition := range conditions {
		fields, _ := condition.(map[string]any)
		message, _ := fields["message"].(string)
		if fields["type"] == "Installed" && fields["status"] == "False" && message != "" {
			return message
		}
	}
	message, _, _ := unstructured.NestedString(plan.Object, "status", "message")
	return message
}

// TrimObject removes the manifests of an InstallPlan, and of one in a view. Caches use it.
func TrimObject(object any) (any, error) {
	if found, ok := object.(*unstructured.Unstructured); ok {
		found.SetManagedFields(nil)
		trimSteps(found.Object, "status")
		trimSteps(found.Object, "status", "result", "status")
	}
	return object, nil
}

// trimSteps keeps of the steps of an InstallPlan those that create Subscriptions, without their manifests.
func trimSteps(object map[string]any, status ...string) {
	fields, found, err := unstructured.NestedFieldNoCopy(object, status...)
	values, isObject := fields.(map[string]any)
	if !found || err != nil || !isObject {
		return
	}
	delete(values, "bundleLookups")
	steps, _ := values["plan"].([]any)
	var kept []any
	for _, step := range steps {
		fields, _ := step.(map[string]any)
		resource, _ := fields["resource"].(map[string]any)
		if resource["kind"] == Subscriptions.Kind {
			delete(resource, "manifest")
			kept = append(kept, step)
		}
	}
	if len(steps) > 0 {
		values["plan"] = kept
	}
}
