package scheduling

import (
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// ScheduleNodes decides for one requestor that goes through nodes in a given order: which of the pending ones may start while those
// running are under maintenance. It is Schedule with one request a node, older ones for the nodes that come earlier; the requests are
// named after their nodes.
func ScheduleNodes(nodes []corev1.Node, config maintenancev1.MaintenanceOperatorConfigSpec, running, pending []string) Decision {
	in := Input{Nodes: nodes, Config: config}
	for _, node := range running {
		request := requestFor(node, 0)
		request.Status.Conditions = []metav1.Condition{{Type: maintenancev1.ConditionReady, Reason: string(maintenancev1.NodeScheduled)}}
		in.Requests = append(in.Requests, request)
	}
	for turn, node := range pending {
		in.Requests = append(in.Requests, requestFor(node, turn))
	}
	return Schedule(in)
}

func requestFor(node string, turn int) maintenancev1.NodeMaintenance {
	return maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Name: node, CreationTimestamp: metav1.NewTime(time.Unix(int64(turn), 0))},
		Spec:       maintenancev1.NodeMaintenanceSpec{NodeName: node},
	}
}
