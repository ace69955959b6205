package rollout

import (
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/api/validation"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// ClusterChange is a change of the labels and annotations of a ManagedCluster: a value sets a key, nil removes it. It is idempotent.
type ClusterChange struct {
	Labels      map[string]*string `json:"labels,omitempty"`
	Annotations map[string]*string `json:"annotations,omitempty"`
}

// Empty reports whether the change does nothing.
func (c ClusterChange) Empty() bool { return len(c.Labels)+len(c.Annotations) == 0 }

// ChangeBefore is the change of beforeEnable. As in TALM, a key that is both added and removed is removed.
func ChangeBefore(actions *ranv1.Actions) ClusterChange {
	if actions.BeforeEnable == nil {
		return ClusterChange{}
	}
	a := actions.BeforeEnable
	return ClusterChange{
		Labels:      changes(a.AddClusterLabels, a.DeleteClusterLabels, a.RemoveClusterLabels),
		Annotations: changes(a.AddClusterAnnotations, nil, a.RemoveClusterAnnotations),
	}
}

// ChangeAfter is the change of afterCompletion. A key that is both added and removed is removed.
func ChangeAfter(actions *ranv1.Actions) ClusterChange {
	if actions.AfterCompletion == nil {
		return ClusterChange{}
	}
	a := actions.AfterCompletion
	return ClusterChange{
		Labels:      changes(a.AddClusterLabels, a.DeleteClusterLabels, a.RemoveClusterLabels),
		Annotations: changes(a.AddClusterAnnotations, nil, a.RemoveClusterAnnotations),
	}
}

func changes(added, deleted map[string]string, removed []string) map[string]*string {
	changes := map[string]*string{}
	//workflowcheck:ignore the order does not affect a map
	for key, value := range added {
		changes[key] = &value
	}
	for _, key := range removed {
		changes[key] = nil
	}
	//workflowcheck:ignore the order does not affect a map
	for key := range deleted {
		changes[key] = nil
	}
	return changes
}

// ClustersToChange are the clusters for beforeEnable: the pending ones, or all if the rollout has nothing to remediate. Clusters that were left out are none.
func ClustersToChange(remediation Remediation, clusters []ranv1.ClusterStatus) []string {
	var names []string
	for i := range clusters {
		state, left := clusters[i].State, clusters[i].Reason == ReasonNotCompleteInBlockers
		if state == ranv1.ClusterPending || state == ranv1.ClusterSkipped && remediation == Nothing && !left {
			names = append(names, clusters[i].Name)
		}
	}
	return names
}

// CheckActions returns the invalid labels and annotations of the actions at path.
func CheckActions(actions *ranv1.Actions, path *field.Path) field.ErrorList {
	var invalid field.ErrorList
	if a := actions.BeforeEnable; a != nil {
		path := path.Child("beforeEnable")
		invalid = append(invalid, checkLabels(a.AddClusterLabels, a.RemoveClusterLabels, a.DeleteClusterLabels, path)...)
		invalid = append(invalid, checkAnnotations(a.AddClusterAnnotations, a.RemoveClusterAnnotations, path)...)
	}
	if a := actions.AfterCompletion; a != nil {
		path := path.Child("afterCompletion")
		invalid = append(invalid, checkLabels(a.AddClusterLabels, a.RemoveClusterLabels, a.DeleteClusterLabels, path)...)
		invalid = append(invalid, checkAnnotations(a.AddClusterAnnotations, a.RemoveClusterAnnotations, path)...)
	}
	return invalid
}

func checkLabels(added map[string]string, removed []string, deleted map[string]string, path *field.Path) field.ErrorList {
	invalid := metav1validation.ValidateLabels(added, path.Child("addClusterLabels"))
	for i, key := range removed {
		invalid = append(invalid, metav1validation.ValidateLabelName(key, path.Child("removeClusterLabels").Index(i))...)
	}
	// The values are ignored.
	for _, key := range slices.Sorted(maps.Keys(deleted)) {
		invalid = append(invalid, metav1validation.ValidateLabelName(key, path.Child("deleteClusterLabels"))...)
	}
	return invalid
}

func checkAnnotations(added map[string]string, removed []string, path *field.Path) field.ErrorList {
	invalid := validation.ValidateAnnotations(added, path.Child("addClusterAnnotations"))
	for i, key := range removed {
		invalid = append(invalid, validation.ValidateAnnotations(map[string]string{key: ""}, path.Child("removeClusterAnnotations").Index(i))...)
	}
	return invalid
}
