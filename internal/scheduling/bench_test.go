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
