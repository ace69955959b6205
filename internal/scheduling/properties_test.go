package scheduling_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"pgregory.net/rapid"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// cluster is the objects of one.
type cluster struct {
	Nodes    []corev1.Node
	Requests []maintenancev1.NodeMaintenance
	Config   maintenancev1.MaintenanceOperatorConfigSpec
}

func (c cluster) schedule() scheduling.Decision { return schedule(c.Nodes, c.Requests, c.Config) }

// drawInput draws a small cluster with requests in every state, some for nodes that do not exist.
func drawInput(t *rapid.T) cluster {
	var in cluster
	for i := range rapid.IntRange(0, 8).Draw(t, "nodes") {
		n := node(fmt.Sprintf("n%d", i))
		n.Spec.Unschedulable = rapid.Bool().Draw(t, "cordoned")
		if rapid.Bool().Draw(t, "not ready") {
			n.Status.Conditions[0].Status = corev1.ConditionFalse
		}
		in.Nodes = append(in.Nodes, n)
	}
	for i := range rapid.IntRange(0, 14).Draw(t, "requests") {
		in.Requests = append(in.Requests, drawRequest(t, fmt.Sprintf("r%d", i)))
	}
	in.Config.MaxParallelOperations = drawLimit(t, "parallel")
	in.Config.MaxUnavailable = drawLimit(t, "unavailable")
	return in
}

func drawRequest(t *rapid.T, name string) maintenancev1.NodeMaintenance {
	return request(name,
		rapid.SampledFrom([]string{"a.example.com", "b.example.com", "c.example.com"}).Draw(t, "requestor"),
		fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "node")),
		time.Duration(rapid.IntRange(0, 3).Draw(t, "age"))*time.Minute,
		rapid.SampledFrom([]maintenancev1.NodeState{
			"", maintenancev1.NodePending, maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeReady, maintenancev1.NodeCompleted,
		}).Draw(t, "state"))
}

func drawLimit(t *rapid.T, name string) *intstr.IntOrString {
	switch rapid.IntRange(0, 2).Draw(t, name+" form") {
	case 0:
		return new(intstr.FromInt32(rapid.Int32Range(0, 6).Draw(t, name)))
	case 1:
		return new(intstr.FromString(fmt.Sprintf("%d%%", rapid.IntRange(0, 100).Draw(t, name))))
	}
	return nil
}

// availableNodes are the nodes that a maintenance would make unavailable.
func availableNodes(in cluster) map[string]bool {
	available := map[string]bool{}
	for _, n := range in.Nodes {
		available[n.Name] = !n.Spec.Unschedulable && n.Status.Conditions[0].Status == corev1.ConditionTrue
	}
	return available
}

func spent(in cluster, decision scheduling.Decision) int {
	available, spent := availableNodes(in), 0
	for _, granted := range decision.Granted {
		if available[granted.Node] {
			spent++
		}
	}
	return spent
}

func TestGrantsStayWithinSlotsAndBudget(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		decision := in.schedule()
		require.LessOrEqual(t, len(decision.Granted), decision.AvailableSlots)
		if decision.CanBecomeUnavailable != nil {
			require.LessOrEqual(t, spent(in, decision), *decision.CanBecomeUnavailable)
		}
	})
}

func TestEveryPendingRequestIsGrantedOrWaitsForOneReason(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		decision := in.schedule()
		var want, got []string
		for _, request := range in.Requests {
			if len(request.Status.Conditions) == 0 || request.Status.Conditions[0].Reason == "Pending" {
				want = append(want, request.Name)
			}
		}
		got = append(got, grantedNames(decision)...)
		for _, waiting := range decision.Waiting {
			require.NotEmpty(t, waiting.Reason)
			require.NotEmpty(t, waiting.Message)
			got = append(got, waiting.Name)
		}
		require.ElementsMatch(t, want, got)
	})
}

func TestANodeIsGrantedOnceAndNeverWhileItIsUnderMaintenance(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		busy := map[string]bool{}
		for _, request := range in.Requests {
			if conditions := request.Status.Conditions; len(conditions) > 0 && (conditions[0].Reason == "Scheduled" || conditions[0].Reason == "Ready") {
				busy[request.Spec.NodeName] = true
			}
		}
		for _, granted := range in.schedule().Granted {
			require.False(t, busy[granted.Node], granted.Node)
			busy[granted.Node] = true
		}
	})
}

func TestNoSlotIsWastedWhileARequestCouldUseIt(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		decision := in.schedule()
		slotsLeft := decision.AvailableSlots > len(decision.Granted)
		budgetLeft := decision.CanBecomeUnavailable == nil || spent(in, decision) < *decision.CanBecomeUnavailable
		for _, waiting := range decision.Waiting {
			switch waiting.Reason {
			case scheduling.NoSlot:
				require.False(t, slotsLeft)
			case scheduling.MaxUnavailable:
				require.False(t, budgetLeft)
				require.True(t, availableNodes(in)[waiting.Node])
			}
		}
	})
}

func TestTheOrderOfTheInputDoesNotMatter(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		shuffled := cluster{
			Nodes:    rapid.Permutation(in.Nodes).Draw(t, "shuffled nodes"),
			Requests: rapid.Permutation(in.Requests).Draw(t, "shuffled requests"),
			Config:   in.Config,
		}
		require.Equal(t, in.schedule(), shuffled.schedule())
	})
}

func TestAnotherRequestNeverTakesAGrantFromAHigherRank(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		in := drawInput(t)
		before := grantedNames(in.schedule())
		// Unrelated: of a requestor of its own, so that nobody else's rank changes.
		newcomer := pending("newcomer", "new.example.com", fmt.Sprintf("n%d", rapid.IntRange(0, 9).Draw(t, "node")), 0)
		in.Requests = append(in.Requests, newcomer)
		decision := in.schedule()
		after := grantedNames(decision)
		if !slices.Contains(after, "newcomer") {
			require.Equal(t, before, after)
			return
		}
		place := slices.Index(after, "newcomer")
		require.True(t, slices.Equal(before[:place], after[:place]))
	})
}
