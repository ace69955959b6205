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

// AnnotationTurns on an application's ClusterWorkloadLock holds its Turns, as JSON.
const AnnotationTurns = "drydock.dev/turns"

// AnnotationTurnEnded on a NodeWorkloadLock is written when its node loses a turn that it has not used, or has it for others from now on, for no other
// sake than that the lock has been written; see LockDecision.EndsTurn.
const AnnotationTurnEnded = "drydock.dev/turn-ended"

// Turns is the book in which the controller of an application writes for whom its locks let go. It is kept on one object, the
// application's ClusterWorkloadLock, so that writing it under that object's resourceVersion puts all its writers in one order: a node's
// lock goes inactive only after its turn was recorded, and there are never more turns than nodes that may be inactive.
//
// It also tells whether a lock that was deleted had let go, and what time alone can tell: whoever goes on after a restart does not begin anew.
type Turns struct {
	// Cluster are the ClusterMaintenanceRequests that the cluster's lock has let go for.
	Cluster []Served `json:"cluster,omitempty"`
	// HealthySince is since when the checks that must hold for a while were found to, as long as the cluster's lock is held for them.
	HealthySince map[string]metav1.Time `json:"healthySince,omitempty"`
	// Missing is the application on nodes that are asked for and where it is not ready, by node, where the policy has a deadline for that.
	Missing map[string]Missing `json:"missing,omitempty"`
	// Nodes that are inactive, or about to be.
	Nodes map[string]Turn `json:"nodes,omitempty"`
	// Follows is the resourceVersion of the lock that this entry was written over. It makes every entry different from the one before:
	// writing even the same turns again proves that nobody has written others meanwhile.
	Follows string `json:"follows,omitempty"`
}

// Turn is one node's permission to be inactive.
type Turn struct {
	// Requests are the NodeMaintenanceRequests that the node's lock lets go for.
	Requests []Served `json:"requests,omitempty"`
	// AwaitedSince is when the maintenance was found over and the application's pod not ready.
	AwaitedSince *metav1.Time `json:"awaitedSince,omitempty"`
}

// Missing is an application that is not ready where it is asked to let go.
type Missing struct {
	// Requests are the NodeMaintenanceRequests for the node; once none of them stands, the time counts for nobody.
	Requests []Served `json:"requests,omitempty"`
	// Since is when it was first found so.
	Since metav1.Time `json:"since"`
}

// Served is a request that a lock has let go for.
type Served struct {
	Name string    `json:"name"`
	UID  types.UID `json:"uid"`
}

// ReadTurns returns what is recorded on the lock. An unreadable record is an error: whoever is inactive by it is unknown.
func ReadTurns(lock *lcmv1.ClusterWorkloadLock) (Turns, error) {
	text, ok := lock.Annotations[AnnotationTurns]
	if !ok {
		return Turns{}, nil
	}
	var turns Turns
	if err := json.Unmarshal([]byte(text), &turns); err != nil {
		return Turns{}, fmt.Errorf("read annotation %s of ClusterWorkloadLock %s: %w; remove the annotation when no node of %s is under maintenance",
			AnnotationTurns, lock.Name, err, lock.Spec.ControllerName)
	}
	return turns, nil
}

// Annotation is the value of AnnotationTurns when it is written over the lock with that resourceVersion.
func (t Turns) Annotation(follows string) (string, error) {
	t.Follows = follows
	text, err := json.Marshal(t)
	if err != nil {
		return "", fmt.Errorf("write annotation %s: %w", AnnotationTurns, err)
	}
	return string(text), nil
}

// same reports whether two books say the same; when they were written does not matter.
func (t Turns) same(other Turns) bool {
	sameTime := func(a, b metav1.Time) bool { return a.Equal(&b) }
	if len(t.Nodes) != len(other.Nodes) || !slices.Equal(t.Cluster, other.Cluster) ||
		!maps.EqualFunc(t.HealthySince, other.HealthySince, sameTime) || !maps.EqualFunc(t.Missing, other.Missing, Missing.same) {
		return false
	}
	for node, turn := range t.Nodes {
		if found, ok := other.Nodes[node]; !ok || !slices.Equal(turn.Requests, found.Requests) || !turn.AwaitedSince.Equal(found.AwaitedSince) {
			return false
		}
	}
	return true
}

func (m Missing) same(other Missing) bool {
	return m.Since.Equal(&other.Since) && slices.Equal(m.Requests, other.Requests)
}
