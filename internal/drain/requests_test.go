package drain

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"
)

// For any answers of the API server and any changes of the budget, a pod has at most one eviction request at a time, none once it leaves, and none
// before its order. No more pods of a budget are requested than it allows, no pod waits for another pod's refusal, and each waiting pod has a next
// check.
func TestEveryPodHasAtMostOneRequestAndNoneIsForgotten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		requests, at := newRequests(1, nil), now
		allowed, version := 0, 0
		decisions := map[types.UID]*Decision{}
		inFlight, accepted := map[types.UID]bool{}, map[types.UID]bool{}

		current := func() (remaining []Decision) {
			for _, decision := range decisions {
				decision.Reason = ""
				if decision.budget.key != "" {
					decision.budget.allowed, decision.budget.version = allowed, fmt.Sprint(version)
					if allowed == 0 {
						decision.Reason = ReasonDisruptionBudget
					}
				}
				remaining = append(remaining, *decision)
			}
			return remaining
		}
		answers := []error{
			nil, budgetRefusal("no"), apierrors.NewTooManyRequests("slow down", 3), apierrors.NewInternalError(fmt.Errorf("etcd")),
			apierrors.NewNotFound(corev1.Resource("pods"), "p"), apierrors.NewConflict(corev1.Resource("pods"), "p", nil),
		}
		pick := func(t *rapid.T, from map[types.UID]bool) types.UID {
			var candidates []types.UID
			for uid := range decisions {
				if from[uid] {
					candidates = append(candidates, uid)
				}
			}
			if len(candidates) == 0 {
				t.Skip("none")
			}
			return candidates[rapid.IntRange(0, len(candidates)-1).Draw(t, "which")]
		}
		t.Repeat(map[string]func(*rapid.T){
			"a pod appears": func(t *rapid.T) {
				pod := webPod(fmt.Sprintf("pod-%d", len(decisions)))
				decision := &Decision{Namespace: pod.Namespace, Name: pod.Name, Action: Evict, pod: &pod}
				if rapid.Bool().Draw(t, "guarded") {
					decision.budget = guard{key: "shop/web", counted: true}
				}
				decision.held = rapid.SampledFrom([]Reason{"", ReasonPodOrder}).Draw(t, "held")
				decisions[pod.UID] = decision
			},
			"the order reaches the pods": func(t *rapid.T) {
				for _, decision := range decisions {
					decision.held = ""
				}
			},
			"time passes":        func(t *rapid.T) { at = at.Add(time.Duration(rapid.IntRange(1, 9000).Draw(t, "ms")) * time.Millisecond) },
			"the budget changes": func(t *rapid.T) { allowed, version = rapid.IntRange(0, 3).Draw(t, "allowed"), version+1 },
			"an answer arrives": func(t *rapid.T) {
				uid := pick(t, inFlight)
				result := rapid.SampledFrom(answers).Draw(t, "answer")
				requests.answered(uid, result, at)
				delete(inFlight, uid)
				accepted[uid] = result == nil
			},
			"a pod begins to terminate": func(t *rapid.T) {
				decisions[pick(t, accepted)].pod.DeletionTimestamp = &metav1.Time{Time: at}
			},
			"": func(t *rapid.T) {
				due, next := requests.due(current(), at)
				ofBudget := 0
				for _, decision := range due {
					uid := decision.pod.UID
					require.False(t, inFlight[uid], "the eviction of %s is in flight", decision.key())
					require.False(t, accepted[uid], "%s is leaving", decision.key())
					require.True(t, decision.pod.DeletionTimestamp.IsZero())
					require.Empty(t, decision.held, "the order has not reached %s", decision.key())
					if known, requested := requests.byPod[uid]; decision.budget.key != "" && (!requested || known.refusal.byBudget) {
						ofBudget++
					}
				}
				require.LessOrEqual(t, ofBudget, max(1, allowed))
				for _, decision := range due {
					requests.sent(decision, at)
					inFlight[decision.pod.UID] = true
				}
				for uid, decision := range decisions {
					known, requested := requests.byPod[uid]
					require.True(t, requested || decision.held != "" || decision.budget.key != "", "the eviction of %s must be requested at its first pass", decision.key())
					waits := !inFlight[uid] && !accepted[uid] && decision.held == ""
					parked := decision.budget.key != "" && (!requested || known.refusal != nil && known.refusal.byBudget)
					if waits && !(parked && requests.busy(decision.budget.key)) {
						require.False(t, next.IsZero(), "%s has a next check", decision.key())
					}
				}
				require.False(t, next.After(at.Add(longestPause)))
			},
		})
	})
}
