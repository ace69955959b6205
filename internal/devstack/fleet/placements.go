package fleet

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/policies"
)

// Placement is a write of Drydock to a Placement or PlacementRule of the hub, from the audit log. A policy is then enforced on exactly these clusters.
type Placement struct {
	// Name is <rollout>-<policy>-placement with a hash.
	Name     string
	Clusters []string
	At       time.Time
}

// Placements reads the writes to Placements and PlacementRules from an audit log, in the order of their answers. A deleted one has no clusters.
func Placements(events []auditv1.Event) []Placement {
	var placements []Placement
	for _, event := range events {
		if !succeeded(event) || !strings.HasPrefix(event.User.Username, drydockAccounts) {
			continue
		}
		r := request{event}
		placement := Placement{At: event.StageTimestamp.Time}
		switch {
		case r.is("placements patch"), r.is("placementrules patch"):
			var object unstructured.Unstructured
			r.read(&object.Object)
			placement.Clusters = policies.PlacedClusters(&object)
		case r.is("placements delete"), r.is("placementrules delete"):
		default:
			continue
		}
		placement.Name = event.ObjectRef.Name
		placements = append(placements, placement)
	}
	return placements
}
