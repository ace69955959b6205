package nodemaintenance

import (
	"fmt"

	"drydock.dev/drydock/activities/activitykit"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

func nodeDetails(node activitykit.NodeRef, s *maintenancev1.NodeMaintenanceStatus) string {
	var d kit.Details
	d.Head("node", node.Cluster+"/"+node.Node)
	d.Row("state", string(s.State))
	if s.Drain != nil {
		d.Row("drain", fmt.Sprintf("%d of %d pods have left", s.Drain.Evicted, s.Drain.EvictionPods))
	}
	d.Held(s.Held)
	d.Wait(s.Wait)
	d.Failure(s.Failure)
	for _, note := range s.Notes {
		d.Row("note", note)
	}
	return d.Text()
}
