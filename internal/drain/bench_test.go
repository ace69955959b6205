package drain

import (
	"fmt"
	"testing"

	policyv1 "k8s.io/api/policy/v1"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// A drain decides again after every change of its pods, so deciding must be cheap.
func BenchmarkDecideAbout250PodsAmong1000Budgets(b *testing.B) {
	var budgets []policyv1.PodDisruptionBudget
	for i := range 1000 {
		budget := webBudget(1, 3, 2, 3, named(fmt.Sprintf("budget-%d", i)))
		budget.Namespace = fmt.Sprintf("namespace-%d", i%200)
		budgets = append(budgets, budget)
	}
	snapshot := snapshotOf(manyPods(250), append(budgets, webBudget(1, 3, 2, 3))...)
	for b.Loop() {
		if _, err := Decide(b.Context(), node, snapshot, maintenancev1.DrainSpec{}, now); err != nil {
			b.Fatal(err)
		}
	}
}
