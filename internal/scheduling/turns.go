package scheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ScheduleNodes decides for one requestor that goes through nodes in a given order: which of the pending ones may start while those
// running are under maintenance. It is Schedule with one request a node, older ones for the nodes that come earlier; the requests are
// named after their nodes.
func ScheduleNodes(nodes []corev1.Node, config maintenancev1.MaintenanceOperatorConfigSpec, running, pending []string) Decision {
	in := InputOf(nodes, nil, config, time.Time{})
	for _, node := range running {
		in.Asks = append(in.Asks, Ask{Request: Request{Name: node, Node: node}, Granted: true})
	}
	for turn, node := range pending {
		in.Asks = append(in.Asks, Ask{Request: Request{Name: node, Node: node}, Since: time.Unix(int64(turn), 0)})
	}
	return Schedule(in)
}
