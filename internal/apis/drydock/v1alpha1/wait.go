package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// Wait is the one current reason why work waits. Every status that can wait has one.
type Wait struct {
	// Reason is a CamelCase word that programs can match.
	Reason string `json:"reason"`
	// Message says to a person what is waited for, and what would end the wait.
	// +optional
	Message string `json:"message,omitempty"`
	// Since is when the wait for this reason began.
	Since metav1.Time `json:"since"`
	// Until is when the wait ends by itself: the deadline. Absent: it does not.
	// +optional
	Until *metav1.Time `json:"until,omitempty"`
	// Blockers are the objects that block it.
	// +optional
	Blockers []Blocker `json:"blockers,omitempty"`
}

// Blocker is an object that blocks work, and why.
type Blocker struct {
	Kind string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	// Reason is a CamelCase word, e.g. DisruptionBudget.
	// +optional
	Reason string `json:"reason,omitempty"`
	// Message says how it blocks, e.g. "budget shop/web allows 0 of 3".
	// +optional
	Message string `json:"message,omitempty"`
	// +optional
	Since *metav1.Time `json:"since,omitempty"`
}

// String names the object: Kind namespace/name.
func (b Blocker) String() string {
	name := b.Name
	if b.Namespace != "" {
		name = b.Namespace + "/" + name
	}
	return b.Kind + " " + name
}
