package scheduling_test

import (
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// A workflow schedules after every change, so a decision may take a few milliseconds.
func BenchmarkSchedule(b *testing.B) {
	for _, size := range []struct{ nodes, requests int }{{1000, 1000}, {5000, 2000}} {
		for _, budgets := range []int{0, 3} {
			b.Run(fmt.Sprintf("%d nodes, %d requests, %d budgets", size.nodes, size.requests, budgets), func(b *testing.B) {
				in := largeInput(size.nodes, size.requests, budgets)
				var decision scheduling.Decision
				b.ReportAllocs()
				for b.Loop() {
					decision = scheduling.Schedule(in)
				}
				text, err := json.Marshal(decision)
				if err != nil {
					b.Fatal(err)
				}
				b.ReportMetric(float64(len(text)), "JSON-bytes")
				b.ReportMetric(float64(len(decision.Granted)), "grants")
			})
		}
	}
}

// largeInput returns a busy cluster of three zones, two pools and ten requestors: 50 nodes are under maintenance, and 1 of 20 is down.
func largeInput(nodes, requests, budgets int) scheduling.Input {
	const inProgress = 50
	in := scheduling.Input{Config: limits(2*inProgress, "10%"), Now: noon}
	in.Config.AgingSeconds = 600
	in.Config.Budgets = []maintenancev1.Budget{
		{Name: "zones", TopologyKey: "topology.kubernetes.io/zone", MaxParallelOperations: new(intstr.FromInt32(inProgress)), MaxParallelZones: new(int32(3))},
		{Name: "gpu", NodeSelector: &maintenancev1.BudgetSelector{MatchLabels: map[string]maintenancev1.LabelValue{"pool": "gpu"}}, MaxUnavailable: new(intstr.FromString("5%"))},
		{Name: "hosts", TopologyKey: "kubernetes.io/hostname", MaxParallelOperations: new(intstr.FromInt32(1))},
	}[:budgets]
	keys := scheduling.LabelKeys(in.Config)
	for i := range nodes {
		n := node(fmt.Sprintf("node-%05d.example.com", i))
		n.Labels = map[string]string{
			"topology.kubernetes.io/zone": fmt.Sprintf("zone-%d", i%3), "pool": []string{"gpu", "cpu"}[i%2], "kubernetes.io/hostname": n.Name,
		}
		n.Spec.Unschedulable = i%20 == 0
		in.Nodes = append(in.Nodes, scheduling.NodeOf(&n, keys))
	}
	for i := range requests {
		in.Requests = append(in.Requests, scheduling.SlotRequest{
			Request: scheduling.Request{
				Namespace: "default", Name: fmt.Sprintf("request-%05d", i), Node: fmt.Sprintf("node-%05d.example.com", i%nodes), Requestor: fmt.Sprintf("r%d.example.com", i%10),
			},
			Since: noon.Add(-time.Duration(i) * time.Second), Granted: i < inProgress,
		})
	}
	return in
}

// longQueue returns a state with requests of as many owners, for nodes of a cluster in which 50 may be under maintenance, and the sets of the owners.
func longQueue(requests, nodes, budgets int) (*scheduling.SlotState, []scheduling.SlotRequests) {
	in := largeInput(nodes, requests, budgets)
	in.Config.MaxParallelOperations = new(intstr.FromInt32(50))
	update := scheduling.NodeUpdate{Watch: noon, First: true, Last: true, Config: &in.Config}
	for _, node := range in.Nodes {
		update.Nodes = append(update.Nodes, scheduling.ObservedNode{Node: node})
	}
	state := &scheduling.SlotState{}
	state.Update(update, noon)
	sets := make([]scheduling.SlotRequests, len(in.Requests))
	for i, request := range in.Requests {
		sets[i] = scheduling.SlotRequests{
			Owner:   scheduling.SlotOwner{WorkflowID: "node/production-eu-central-1/default/" + request.Name, FirstRunID: fmt.Sprintf("0195f2c4-6d2c-7a0e-9d61-%012x", i*0x9e3779b1)},
			Version: 1, Namespace: request.Namespace, Requestor: request.Requestor, Maintenances: "node/production-eu-central-1/default/",
			Slots: []scheduling.Slot{{Number: 1, Name: request.Name, Node: request.Node, Since: request.Since}},
		}
	}
	return state, sets
}

// A scheduler receives the requests one by one, and may decide after each.
func BenchmarkReceive(b *testing.B) {
	for _, requests := range []int{100, 1000, 10_000} {
		b.Run(fmt.Sprintf("%d requests", requests), func(b *testing.B) {
			for b.Loop() {
				state, sets := longQueue(requests, 5000, 0)
				for _, set := range sets {
					state.Receive(set, noon)
				}
			}
			b.ReportMetric(float64(b.Elapsed().Microseconds())/float64(b.N*requests), "µs/request")
		})
	}
}

// A hand-over is the return of one slot, and the grant of the next.
func BenchmarkHandOver(b *testing.B) {
	for _, requests := range []int{100, 1000, 10_000} {
		for _, budgets := range []int{0, 3} {
			b.Run(fmt.Sprintf("%d requests, %d budgets", requests, budgets), func(b *testing.B) {
				state, sets := longQueue(requests, 5000, budgets)
				for _, set := range sets {
					state.Receive(set, noon)
				}
				now := noon
				state.Decide(now, nil)
				b.ReportAllocs()
				for b.Loop() {
					now = now.Add(50 * time.Millisecond)
					held := state.Slots()[0]
					state.Return(scheduling.HeldSlot{Owner: held.Owner, Number: 1}.Return(false), now)
					state.Decide(now, nil)
					set := sets[0]
					set.Owner.FirstRunID, set.Slots = fmt.Sprint(now), []scheduling.Slot{{Number: 1, Name: held.Name, Node: held.Node, Since: now}}
					state.Receive(set, now) // the queue stays as long
				}
			})
		}
	}
}
