package manifestworks

import (
	"encoding/json"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// textLimit is the maximum length, in bytes, of a message or a feedback value in the status of a work.
const textLimit = 512

// StatusOf is the status of the manifests of a work, shortened as the original operator does: a manifest that is applied, available and has its feedback
// keeps its first condition, any other one has no feedback. It has at most limit bytes as JSON: the last manifests are left out, those without feedback
// that are as they should be first. nil: there is none.
func StatusOf(work *unstructured.Unstructured, limit int) *ranv1.ManifestResourceStatus {
	reported, _, _ := unstructured.NestedMap(work.Object, "status", "resourceStatus")
	var status ranv1.ManifestResourceStatus
	if runtime.DefaultUnstructuredConverter.FromUnstructured(reported, &status) != nil {
		return nil
	}
	for i := range status.Manifests {
		manifest := &status.Manifests[i]
		manifest.Conditions, manifest.StatusFeedback.Values = published(manifest.Conditions), publishedValues(manifest.StatusFeedback.Values)
		if manifestReady(manifest) {
			manifest.Conditions = manifest.Conditions[:1]
		} else {
			manifest.StatusFeedback.Values = nil
		}
	}
	for len(status.Manifests) > 0 && StatusSize(&status) > limit {
		last := len(status.Manifests) - 1
		for i := range slices.Backward(status.Manifests) {
			if m := &status.Manifests[i]; len(m.Conditions) == 1 && m.Conditions[0].Status == metav1.ConditionTrue && len(m.StatusFeedback.Values) == 0 {
				last = i
				break
			}
		}
		status.Manifests = slices.Delete(status.Manifests, last, last+1)
	}
	if len(status.Manifests) == 0 {
		return nil
	}
	return &status
}

// StatusSize is the number of bytes of a status as JSON.
func StatusSize(status *ranv1.ManifestResourceStatus) int {
	if status == nil {
		return 0
	}
	//workflowcheck:ignore the same status has the same JSON
	encoded, _ := json.Marshal(status) // it has no type that JSON lacks
	return len(encoded)
}

// published are the conditions that the CRD of a ClusterGroupUpgrade accepts: one that it refuses would keep the whole status from being written.
func published(conditions []metav1.Condition) []metav1.Condition {
	kept := []metav1.Condition{} // the field is required
	for _, condition := range conditions {
		if condition.Type == "" || condition.Status == "" || condition.Reason == "" || condition.LastTransitionTime.IsZero() || meta.FindStatusCondition(kept, condition.Type) != nil {
			continue
		}
		condition.Message = cut(condition.Message)
		kept = append(kept, condition)
	}
	return kept
}

// publishedValues are the feedback values that the CRD of a ClusterGroupUpgrade accepts.
func publishedValues(values []ranv1.FeedbackValue) []ranv1.FeedbackValue {
	var kept []ranv1.FeedbackValue
	for _, value := range values {
		twice := slices.ContainsFunc(kept, func(other ranv1.FeedbackValue) bool { return other.Name == value.Name })
		if !slices.Contains([]string{"Integer", "String", "Boolean", "JsonRaw"}, value.FieldValue.Type) || twice {
			continue
		}
		for _, text := range []*string{value.FieldValue.String, value.FieldValue.JsonRaw} {
			if text != nil {
				*text = cut(*text)
			}
		}
		kept = append(kept, value)
	}
	return kept
}

func cut(text string) string {
	if len(text) <= textLimit {
		return text
	}
	return strings.ToValidUTF8(text[:textLimit-3], "") + "..."
}

// manifestReady reports whether a manifest is applied, available and has its feedback.
func manifestReady(manifest *ranv1.ManifestCondition) bool {
	return !slices.ContainsFunc([]string{"Applied", "Available", "StatusFeedbackSynced"}, func(kind string) bool {
		return !meta.IsStatusConditionTrue(manifest.Conditions, kind)
	})
}
