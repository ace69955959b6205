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
	if s.Wait != nil {
		d.ToDo(nodeCommand(node, s.Wait.Reason))
	}
	d.Failure(s.Failure)
	for _, note := range s.Notes {
		d.Row("note", note)
	}
	return d.Text()
}

// nodeCommand is the command with which a requestor ends a wait; "": none does.
func nodeCommand(node activitykit.NodeRef, reason string) string {
	verb := ""
	switch reason {
	case ReasonAwaitingRequestor, ReasonStale:
		verb = "done"
	case reasonRequestorFailed:
		verb = "recover"
	default:
		return ""
	}
	return fmt.Sprintf("drydock node %s %s --cluster %s", verb, node.Node, node.Cluster)
}
