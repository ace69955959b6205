package fleet

import (
	"strings"
	"time"

	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

// Placement is a write of Drydock to a PlacementRule of the hub, from the audit log. A policy is then enforced on exactly these clusters.
type Placement struct {
	// Rule is <rollout>-<policy>-placement with a hash.
	Rule     string
	Clusters []string
	At       time.Time
}

// Placements reads the writes to PlacementRules from an audit log, in the order of their answers. A deleted rule has no clusters.
func Placements(events []auditv1.Event) []Placement {
	var placements []Placement
	for _, event := range events {
		if !succeeded(event) || !strings.HasPrefix(event.User.Username, drydockAccounts) {
			continue
		}
		r := request{event}
		if !r.is("placementrules patch") && !r.is("placementrules delete") {
			continue
		}
		var rule struct {
			Spec struct{ Clusters []struct{ Name string } }
		}
		if r.is("placementrules patch") {
			r.read(&rule)
		}
		placement := Placement{Rule: event.ObjectRef.Name, At: event.StageTimestamp.Time}
		for _, cluster := range rule.Spec.Clusters {
			placement.Clusters = append(placement.Clusters, cluster.Name)
		}
		placements = append(placements, placement)
	}
	return placements
}
