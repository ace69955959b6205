package locks

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
)

// AnnotationPermits on the ClusterWorkloadLock of an application holds the record of permits, as JSON.
const AnnotationPermits = "drydock.dev/permits"

// AnnotationPermitEnded on a NodeWorkloadLock is written when its node loses an unused permit, or has it for other requests from now on. It only
// changes the lock's resourceVersion; see LockDecision.EndsPermit.
const AnnotationPermitEnded = "drydock.dev/permit-ended"

// Permits is the record of the nodes whose locks the controller of an application has released or is about to. It is stored on one object, the
// application's ClusterWorkloadLock, so that resourceVersion conflicts put all its writers in one order: a lock becomes inactive only after its
// permit was recorded, and there are never more permits than nodes that may be inactive.
//
// It also records whether a deleted lock had been released, and times that a restarted controller could not observe.
type Permits struct {
	// Cluster are the ClusterMaintenanceRequests that the cluster's lock was released for.
	Cluster []Served `json:"cluster,omitempty"`
	// HealthySince is when the checks with a stable time started to pass, while the cluster's lock is held for them.
	HealthySince map[string]metav1.Time `json:"healthySince,omitempty"`
	// Missing has, by node, the application where it is requested and not ready, if the policy has a deadline for that.
	Missing map[string]Missing `json:"missing,omitempty"`
	// Nodes that are inactive, or are about to be.
	Nodes map[string]Permit `json:"nodes,omitempty"`
	// Follows is the resourceVersion of the lock that this record was written over. It makes every record unique: writing even the same permits again
	// proves that there was no other write in between.
	Follows string `json:"follows,omitempty"`
}

// Permit is one node's permission to be inactive.
type Permit struct {
	// Requests are the NodeMaintenanceRequests that the node's lock is released for.
	Requests []Served `json:"requests,omitempty"`
	// AwaitedSince is when the maintenance was over and the application's pod not ready.
	AwaitedSince *metav1.Time `json:"awaitedSince,omitempty"`
}

// Missing is an application that is not ready on a node that is requested.
type Missing struct {
	// Requests are the NodeMaintenanceRequests for the node; once all are deleted, the time no longer counts.
	Requests []Served `json:"requests,omitempty"`
	// Since is when it was first observed.
	Since metav1.Time `json:"since"`
}

// Served is a request that a lock was released for.
type Served struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// ReadPermits returns the record on the lock. An unreadable record is an error, because the inactive nodes are unknown then.
func ReadPermits(lock *lcmv1.ClusterWorkloadLock) (Permits, error) {
	text, ok := lock.Annotations[AnnotationPermits]
	if !ok {
		return Permits{}, nil
	}
	var permits Permits
	if err := json.Unmarshal([]byte(text), &permits); err != nil {
		return Permits{}, fmt.Errorf("read annotation %s of ClusterWorkloadLock %s: %w; remove the annotation when no node of %s is under maintenance",
			AnnotationPermits, lock.Name, err, lock.Spec.ControllerName)
	}
	return permits, nil
}

// Annotation returns the value of AnnotationPermits to write over the lock with that resourceVersion.
func (t Permits) Annotation(follows string) (string, error) {
	t.Follows = follows
	text, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("write annotation %s: %w", AnnotationPermits, err)
	}
	return string(text), nil
}

// same reports whether two records are equal, apart from Follows.
func (t Permits) same(other Permits) bool {
	sameTime := func(a, b metav1.Time) bool { return a.Equal(&b) }
	if len(t.Nodes) != len(other.Nodes) || !slices.Equal(t.Cluster, other.Cluster) ||
		!maps.EqualFunc(t.HealthySince, other.HealthySince, sameTime) || !maps.EqualFunc(t.Missing, other.Missing, Missing.same) {
		return false
	}
	for node, permit := range t.Nodes {
		if found, ok := other.Nodes[node]; !ok || !slices.Equal(permit.Requests, found.Requests) || !permit.AwaitedSince.Equal(found.AwaitedSince) {
			return false
		}
	}
	return true
}

func (m Missing) same(other Missing) bool {
	return m.Since.Equal(&other.Since) && slices.Equal(m.Requests, other.Requests)
}
