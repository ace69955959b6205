package clusterupgrade

import (
	"fmt"
	"strconv"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/workflows/kit"
)

func clusterDetails(s *ranv1.ClusterUpgradeStatus) string {
	var d kit.Details
	d.Head("cluster", s.Cluster)
	d.Row("state", string(s.State))
	d.Row("step", string(s.Step))
	d.Row("nodes", nodesText(s.Nodes))
	for _, application := range s.LockProgress {
		d.Row("locks", application.String())
	}
	if s.Paused {
		d.Row("paused", "no new node starts")
	}
	d.Held(s.Held)
	d.Wait(s.Wait)
	d.Failure(s.Failure)
	for _, note := range s.Notes {
		d.Row("note", note)
	}
	d.WriteString("\n")
	d.Head("node", "state", "waiting", "evicted")
	for _, n := range s.Nodes {
		if n.StartedAt == nil || n.State == maintenancev1.NodeCompleted {
			continue // only counted
		}
		waiting := ""
		if n.Wait != nil {
			waiting = n.Wait.Reason + ": " + n.Wait.Message
		}
		d.Line(n.Name, string(n.State), waiting, strconv.Itoa(int(n.Evicted)))
	}
	return d.Text()
}

func nodesText(nodes []ranv1.ClusterNodeStatus) string {
	completed := 0
	for _, n := range nodes {
		if n.State == maintenancev1.NodeCompleted {
			completed++
		}
	}
	return fmt.Sprintf("%d of %d completed", completed, len(nodes))
}
