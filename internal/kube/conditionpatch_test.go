package kube

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestAConditionOfAnotherProgramIsReplacedAndNeverRemoved(t *testing.T) {
	const owner, other = "node/c1/default/m/run", "node/c1/default/other/run"
	now := metav1.Now()
	of := func(reason, message string) *corev1.NodeCondition {
		return &corev1.NodeCondition{Type: ConditionMaintenancePlanned, Status: corev1.ConditionTrue, Reason: reason, Message: message, LastTransitionTime: now}
	}
	planned := NodeCondition(ConditionMaintenancePlanned, corev1.ConditionTrue, "planned")
	ours := *of(conditionReason, "planned ("+owner+")")
	ours.LastHeartbeatTime = now
	for _, c := range []struct {
		name   string
		old    *corev1.NodeCondition
		wanted corev1.NodeCondition
		patch  []any
	}{
		{name: "our condition is removed", old: of(conditionReason, "planned ("+owner+")"), wanted: NoNodeCondition(ConditionMaintenancePlanned), patch: []any{deletion(ConditionMaintenancePlanned)}},
		{name: "of a plan with two owners, only ours is removed", old: of(conditionReason, "planned ("+owner+") ("+other+")"), wanted: NoNodeCondition(ConditionMaintenancePlanned), patch: []any{*of(conditionReason, "planned ("+other+")")}},
		{name: "another owner's plan stays", old: of(conditionReason, "planned ("+other+")"), wanted: NoNodeCondition(ConditionMaintenancePlanned)},
		{name: "another program's condition stays", old: of("ByHand", "planned"), wanted: NoNodeCondition(ConditionMaintenancePlanned)},
		{name: "another program's condition with our name stays", old: of("ByHand", "planned ("+owner+")"), wanted: NoNodeCondition(ConditionMaintenancePlanned)},
		{name: "a missing condition needs no removal", wanted: NoNodeCondition(ConditionMaintenancePlanned)},
		{name: "another program's condition is replaced when we set it", old: of("ByHand", "planned"), wanted: planned, patch: []any{ours}},
	} {
		t.Run(c.name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}}}
			if c.old != nil {
				node.Status.Conditions = append(node.Status.Conditions, *c.old)
			}
			require.Equal(t, c.patch, conditionPatch(node, owner, now, []corev1.NodeCondition{c.wanted}))
		})
	}
}
