// Package remediation has the code that the activities of policies and of manifest works share: owned objects on the hub, and the compliance of
// clusters.
package remediation

import (
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// PlacementResult is the observed placement. Clusters that it does not name have their desired item and no other.
type PlacementResult struct {
	// Waiting are held clusters that do not have their item.
	Waiting []string `json:"waiting,omitempty"`
	// Removing are clusters that still have another item, whose removal has begun. They get theirs after that.
	Removing []string `json:"removing,omitempty"`
	// Refused is what the hub refuses for some clusters only.
	Refused []RefusedPlacement `json:"refused,omitempty"`
	// Recreated are the names of objects that were deleted, and created again.
	Recreated []string `json:"recreated,omitempty"`
	// Restored are the names of objects that another user had changed, and that are as before.
	Restored []string `json:"restored,omitempty"`
	// Changed are the indexes of policies that were changed since they were prepared.
	Changed []int `json:"changed,omitempty"`
	// Left has the status of the manifest works that were taken from clusters that had not finished them, by cluster.
	Left map[string]*ranv1.ManifestResourceStatus `json:"left,omitempty"`
}

// RefusedPlacement: the hub refuses to place the desired item on clusters, or to remove another one.
type RefusedPlacement struct {
	Clusters []string `json:"clusters"`
	// Reason is a CamelCase word. Message explains it.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Final: no further attempt can succeed.
	Final bool `json:"final,omitempty"`
}

// ReasonNotPlaced is the reason of an item that the hub refuses at the moment.
const ReasonNotPlaced = "NotPlaced"

// IsRefused reports whether the hub refuses this object, for example by an admission webhook. It may accept others.
func IsRefused(err error) bool { return apierrors.IsForbidden(err) || apierrors.IsBadRequest(err) }
