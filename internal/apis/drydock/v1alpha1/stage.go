package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Stage names a step that is kept in a status with its times.
type Stage string

// StageRecord says when a stage ran. Once it has succeeded it is never rewritten.
type StageRecord struct {
	Stage     Stage       `json:"stage"`
	StartedAt metav1.Time `json:"startedAt"`
	// FinishedAt is absent while the stage runs.
	// +optional
	FinishedAt *metav1.Time `json:"finishedAt,omitempty"`
	// +optional
	Succeeded bool `json:"succeeded,omitempty"`
	// +optional
	Message string `json:"message,omitempty"`
}
