package scheduling_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

var noon = time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)

// node returns a node that is Ready without further changes.
func node(name string, changes ...func(*corev1.Node)) corev1.Node {
	node := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}
	node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	for _, change := range changes {
		change(&node)
	}
	return node
}

func cordoned(node *corev1.Node) { node.Spec.Unschedulable = true }
func notReady(node *corev1.Node) { node.Status.Conditions[0].Status = corev1.ConditionUnknown }
func silent(node *corev1.Node)   { node.Status.Conditions = nil }

// nodes n0 to n<count-1>, of which the last unavailable are cordoned.
func nodes(count, unavailable int) []corev1.Node {
	var list []corev1.Node
	for i := range count {
		n := node("n" + string(rune('0'+i)))
		n.Spec.Unschedulable = i >= count-unavailable
		list = append(list, n)
	}
	return list
}

func request(name, requestor, node string, age time.Duration, state maintenancev1.NodeState) maintenancev1.NodeMaintenance {
	r := maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, CreationTimestamp: metav1.NewTime(noon.Add(-age))},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: requestor, NodeName: node},
	}
	if state != "" {
		r.Status.Conditions = []metav1.Condition{{Type: "Ready", Status: metav1.ConditionFalse, Reason: string(state)}}
	}
	return r
}

func pending(name, requestor, node string, age time.Duration) maintenancev1.NodeMaintenance {
	return request(name, requestor, node, age, maintenancev1.NodePending)
}

func limits(parallel, unavailable any) maintenancev1.MaintenanceOperatorConfigSpec {
	value := func(v any) *intstr.IntOrString {
		switch v := v.(type) {
		case int:
			return new(intstr.FromInt32(int32(v)))
		case string:
			return new(intstr.FromString(v))
		}
		return nil
	}
	return maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: value(parallel), MaxUnavailable: value(unavailable)}
}

func schedule(nodes []corev1.Node, requests []maintenancev1.NodeMaintenance, config maintenancev1.MaintenanceOperatorConfigSpec) scheduling.Decision {
	return scheduling.Schedule(scheduling.InputOf(nodes, requests, config, noon))
}

func TestSchedule(t *testing.T) {
	const a, b = "a.example.com", "b.example.com"
	tests := []struct {
		name                 string
		nodes                []corev1.Node
		requests             []maintenancev1.NodeMaintenance
		config               maintenancev1.MaintenanceOperatorConfigSpec
		slots                int
		canBecomeUnavailable any
		granted              []string
		waiting              map[string]scheduling.Reason
	}{
		{
			name:  "slots limit the starts if the unavailability budget is larger",
			nodes: nodes(10, 0), config: limits(2, 5), slots: 2, canBecomeUnavailable: 5,
			requests: []maintenancev1.NodeMaintenance{
				pending("r0", a, "n0", 5), pending("r1", a, "n1", 4), pending("r2", a, "n2", 3), pending("r3", a, "n3", 2), pending("r4", a, "n4", 1),
			},
			granted: []string{"r0", "r1"},
			waiting: map[string]scheduling.Reason{"r2": scheduling.NoSlot, "r3": scheduling.NoSlot, "r4": scheduling.NoSlot},
		},
		{
			name:  "unavailable nodes use up the unavailability budget",
			nodes: nodes(10, 2), config: limits(5, 3), slots: 5, canBecomeUnavailable: 1,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 3), pending("r1", a, "n1", 2), pending("r2", a, "n2", 1)},
			granted:  []string{"r0"},
			waiting:  map[string]scheduling.Reason{"r1": scheduling.MaxUnavailable, "r2": scheduling.MaxUnavailable},
		},
		{
			name:  "an unavailable target uses no unavailability",
			nodes: nodes(6, 2), config: limits(3, 3), slots: 3, canBecomeUnavailable: 1,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 3), pending("r4", a, "n4", 2), pending("r5", a, "n5", 1)},
			granted:  []string{"r0", "r4", "r5"},
		},
		{
			name:  "a request that does not fit does not block the next one",
			nodes: nodes(3, 1), config: limits(1, 1), slots: 1, canBecomeUnavailable: 0,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 9), pending("r2", a, "n2", 1)},
			granted:  []string{"r2"},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.MaxUnavailable},
		},
		{
			name:  "without a configuration one node at a time, and any number unavailable",
			nodes: nodes(5, 3), slots: 1,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 2), pending("r1", a, "n1", 1)},
			granted:  []string{"r0"},
			waiting:  map[string]scheduling.Reason{"r1": scheduling.NoSlot},
		},
		{
			name:  "zero parallel operations allows none",
			nodes: nodes(2, 0), config: limits(0, nil), slots: 0,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 1)},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.NoSlot},
		},
		{
			name:  "zero unavailable nodes allows only unavailable targets",
			nodes: nodes(3, 1), config: limits(2, 0), slots: 2, canBecomeUnavailable: 0,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 2), pending("r2", a, "n2", 1)},
			granted:  []string{"r2"},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.MaxUnavailable},
		},
		{
			name:  "a percentage of parallel operations rounds up and one of unavailable nodes rounds down",
			nodes: nodes(10, 0), config: limits("25%", "25%"), slots: 3, canBecomeUnavailable: 2,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 3), pending("r1", a, "n1", 2), pending("r2", a, "n2", 1)},
			granted:  []string{"r0", "r1"},
			waiting:  map[string]scheduling.Reason{"r2": scheduling.MaxUnavailable},
		},
		{
			name:  "a node that is unavailable and under maintenance counts once",
			nodes: nodes(4, 1), config: limits(2, 2), slots: 1, canBecomeUnavailable: 1,
			requests: []maintenancev1.NodeMaintenance{
				request("w3", a, "n3", 9, maintenancev1.NodeDraining), pending("r0", a, "n0", 1),
			},
			granted: []string{"r0"},
		},
		{
			name:  "nodes without a true Ready condition are unavailable",
			nodes: []corev1.Node{node("up"), node("lost", notReady), node("new", silent), node("off", cordoned)}, config: limits(4, 4),
			slots: 4, canBecomeUnavailable: 1,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "lost", 1), pending("r1", a, "new", 1), pending("r2", a, "off", 1), pending("r3", a, "up", 1)},
			granted:  []string{"r0", "r1", "r2", "r3"},
		},
		{
			name:  "with more nodes under maintenance than allowed there are 0 free slots",
			nodes: nodes(4, 0), config: limits(1, 1), slots: 0, canBecomeUnavailable: 0,
			requests: []maintenancev1.NodeMaintenance{
				request("w0", a, "n0", 9, maintenancev1.NodeReady), request("w1", b, "n1", 9, maintenancev1.NodeScheduled), pending("r2", a, "n2", 1),
			},
			waiting: map[string]scheduling.Reason{"r2": scheduling.NoSlot},
		},
		{
			name:  "a request whose node is under maintenance waits for it",
			nodes: nodes(3, 0), config: limits(3, nil), slots: 2,
			requests: []maintenancev1.NodeMaintenance{
				request("w0", a, "n0", 9, maintenancev1.NodeCordon), pending("r0", b, "n0", 5), pending("r1", b, "n1", 1),
			},
			granted: []string{"r1"},
			waiting: map[string]scheduling.Reason{"r0": scheduling.NodeBusy},
		},
		{
			name:  "a busy requestor goes before an idle one",
			nodes: nodes(4, 0), config: limits(2, nil), slots: 1,
			requests: []maintenancev1.NodeMaintenance{
				request("w0", a, "n0", 9, maintenancev1.NodeReady), pending("r1", b, "n1", 8), pending("r2", a, "n2", 1), pending("r3", a, "n3", 1),
			},
			granted: []string{"r2"},
			waiting: map[string]scheduling.Reason{"r1": scheduling.NoSlot, "r3": scheduling.NoSlot},
		},
		{
			name:  "a requestor with fewer pending requests goes before one with more",
			nodes: nodes(3, 0), config: limits(1, nil), slots: 1,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 9), pending("r1", a, "n1", 9), pending("r2", b, "n2", 1)},
			granted:  []string{"r2"},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.NoSlot, "r1": scheduling.NoSlot},
		},
		{
			name:  "an older request goes before a younger one",
			nodes: nodes(3, 0), config: limits(2, nil), slots: 2,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 1), pending("r1", a, "n1", 5), pending("r2", a, "n2", 9)},
			granted:  []string{"r2", "r1"},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.NoSlot},
		},
		{
			name:  "only the higher ranked of two requests for a node is considered",
			nodes: nodes(2, 0), config: limits(2, nil), slots: 2,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 9), pending("r1", b, "n0", 5), pending("r2", b, "n1", 5)},
			granted:  []string{"r0", "r2"},
			waiting:  map[string]scheduling.Reason{"r1": scheduling.LowerRank},
		},
		{
			name:  "a request for a missing node uses no slot",
			nodes: nodes(1, 0), slots: 1,
			requests: []maintenancev1.NodeMaintenance{pending("r9", a, "n9", 9), pending("r0", a, "n0", 1)},
			granted:  []string{"r0"},
			waiting:  map[string]scheduling.Reason{"r9": scheduling.NodeNotFound},
		},
		{
			name:  "a missing node keeps its slot, because it may return before its maintenance ends",
			nodes: nodes(1, 0), slots: 0,
			requests: []maintenancev1.NodeMaintenance{
				request("w9", a, "n9", 9, maintenancev1.NodeDraining), pending("r9", b, "n9", 1), pending("r0", b, "n0", 1),
			},
			waiting: map[string]scheduling.Reason{"r0": scheduling.NoSlot, "r9": scheduling.NodeBusy},
		},
		{
			name:  "a request without a condition is pending, and an ended one holds no slot",
			nodes: nodes(2, 0), slots: 1,
			requests: []maintenancev1.NodeMaintenance{request("w1", b, "n1", 9, maintenancev1.NodeFailed), request("r0", a, "n0", 1, "")},
			granted:  []string{"r0"},
		},
		{
			name:  "an unknown state holds its slot, because the node may be disrupted",
			nodes: nodes(2, 0), slots: 0,
			requests: []maintenancev1.NodeMaintenance{request("w1", b, "n1", 9, "Rebooting"), pending("r0", a, "n0", 1)},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.NoSlot},
		},
		{
			name:  "a pending request that is being deleted does not wait",
			nodes: nodes(1, 0), slots: 1,
			requests: []maintenancev1.NodeMaintenance{deleted(pending("r0", a, "n0", 9)), pending("r1", a, "n0", 1)},
			granted:  []string{"r1"},
		},
		{
			name:  "an invalid limit allows nothing",
			nodes: nodes(1, 0), config: limits("many", nil), slots: 0,
			requests: []maintenancev1.NodeMaintenance{pending("r0", a, "n0", 1)},
			waiting:  map[string]scheduling.Reason{"r0": scheduling.NoSlot},
		},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			decision := schedule(test.nodes, test.requests, test.config)
			require.Equal(t, test.slots, decision.AvailableSlots)
			if test.canBecomeUnavailable == nil {
				require.Nil(t, decision.CanBecomeUnavailable)
			} else {
				require.Equal(t, test.canBecomeUnavailable, *decision.CanBecomeUnavailable)
			}
			require.Equal(t, test.granted, grantedNames(decision))
			require.Equal(t, test.waiting, waitingReasons(decision))
		})
	}
}

func deleted(request maintenancev1.NodeMaintenance) maintenancev1.NodeMaintenance {
	request.DeletionTimestamp = new(metav1.NewTime(noon))
	return request
}

func grantedNames(decision scheduling.Decision) []string {
	var names []string
	for _, request := range decision.Granted {
		names = append(names, request.Name)
	}
	return names
}

func waitingReasons(decision scheduling.Decision) map[string]scheduling.Reason {
	var reasons map[string]scheduling.Reason
	for _, waiting := range decision.Waiting {
		if reasons == nil {
			reasons = map[string]scheduling.Reason{}
		}
		reasons[waiting.Name] = waiting.Reason
	}
	return reasons
}

func TestMessagesNameTheHoldersOfSlots(t *testing.T) {
	decision := schedule(nodes(4, 1), []maintenancev1.NodeMaintenance{
		request("w0", "a.example.com", "n0", 9, maintenancev1.NodeReady), pending("r0", "b.example.com", "n0", 5), pending("r1", "b.example.com", "n1", 1),
	}, limits(2, 1))
	require.Equal(t, "node n0 is under maintenance for a.example.com (default/w0)", decision.Waiting[0].Message)
	require.Equal(t, "node n0 is under maintenance for a.example.com (default/w0)", schedule(nodes(1, 0), []maintenancev1.NodeMaintenance{
		request("w1", "a.example.com", "n0", 9, maintenancev1.NodeReady), request("w0", "a.example.com", "n0", 9, maintenancev1.NodeReady),
		request("w2", "a.example.com", "n0", 9, maintenancev1.NodeReady), pending("r0", "b.example.com", "n0", 5),
	}, limits(2, 1)).Waiting[0].Message, "the first request by name")
	require.Equal(t, "maxUnavailable allows 1 of 4 nodes to be unavailable (n0 for a.example.com, n3)", decision.Waiting[1].Message)
}

// A CRD of another operator may accept them.
func TestAnInvalidLimitAllowsNothingAndIsReported(t *testing.T) {
	const must = ", so nothing may start: it must be a number of at least 0 or a percentage from 0% to 100%"
	one := []maintenancev1.NodeMaintenance{pending("r0", "a.example.com", "n0", 1)}
	for _, test := range []struct {
		parallel, unavailable any
		message               string
	}{
		{-1, nil, "maxParallelOperations is -1" + must},
		{"-10%", nil, `maxParallelOperations is "-10%"` + must},
		{"", nil, `maxParallelOperations is ""` + must},
		{2, -3, "maxUnavailable is -3" + must},
		{2, "few", `maxUnavailable is "few"` + must},
		{0, nil, "maxParallelOperations allows 0 of 10 nodes under maintenance at once: no maintenance starts until it is raised"},
		{2, "0%", "maxUnavailable (0%) allows 0 of 10 nodes to be unavailable: no maintenance starts until it is raised"},
	} {
		decision := schedule(nodes(10, 0), one, limits(test.parallel, test.unavailable))
		require.Len(t, decision.Waiting, 1, test.message)
		require.Equal(t, test.message, decision.Waiting[0].Message)
	}
}

func TestADecisionHasTheDocumentedJSON(t *testing.T) {
	decision := schedule(nodes(2, 0), []maintenancev1.NodeMaintenance{
		pending("r0", "a.example.com", "n0", 2), pending("r1", "a.example.com", "n1", 1),
	}, limits(nil, nil))
	text, err := json.Marshal(decision)
	require.NoError(t, err)
	require.JSONEq(t, `{
		"availableSlots": 1,
		"canBecomeUnavailable": null,
		"granted": [{"namespace": "default", "name": "r0", "node": "n0", "requestor": "a.example.com"}],
		"waiting": [{"namespace": "default", "name": "r1", "node": "n1", "requestor": "a.example.com", "reason": "NoSlot",
			"message": "maxParallelOperations allows 1 of 2 nodes under maintenance at once (n0 for a.example.com)"}]
	}`, string(text))
}
