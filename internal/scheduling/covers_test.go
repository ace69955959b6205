package scheduling_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

type spec = maintenancev1.NodeMaintenanceSpec

func filters(expressions ...string) []maintenancev1.PodEvictionFilter {
	var filters []maintenancev1.PodEvictionFilter
	for _, expression := range expressions {
		filters = append(filters, maintenancev1.PodEvictionFilter{ByResourceNameRegex: &expression})
	}
	return filters
}

func TestAMaintenanceCoversAnotherThatDemandsNoMore(t *testing.T) {
	drain := func(d maintenancev1.DrainSpec) spec { return spec{DrainSpec: &d} }
	completion := func(w maintenancev1.WaitForPodCompletionSpec) spec { return spec{WaitForPodCompletion: &w} }
	ready := drydockv1.HealthCheck{Name: "storage", Node: &drydockv1.NodeCheck{}}
	no := new(bool)
	job := &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Template: batchv1.JobTemplateSpec{}}}
	for _, tc := range []struct {
		name          string
		holder, other spec
		// lacks is part of the reason why not; empty: it is covered.
		lacks string
	}{
		{"nothing is demanded but a cordon", spec{}, spec{}, ""},
		{"more is done than demanded", drain(maintenancev1.DrainSpec{Force: true, DeleteEmptyDir: true}), drain(maintenancev1.DrainSpec{}), ""},
		{"a cordon that is not demanded", spec{}, spec{Cordon: no}, ""},
		{"a cordon that is not made", spec{Cordon: no}, spec{}, "does not cordon"},
		{"a node that is kept after a failure", spec{OnFailure: maintenancev1.FailureKeepCordoned}, spec{OnFailure: maintenancev1.FailureKeepCordoned}, ""},
		{"a node that is not kept after a failure", spec{OnFailure: maintenancev1.FailureUncordon}, spec{OnFailure: maintenancev1.FailureKeepCordoned}, "onFailure"},
		{"a node that need not be kept", spec{OnFailure: maintenancev1.FailureKeepCordoned}, spec{}, ""},
		{"another node", spec{NodeName: "n1"}, spec{NodeName: "n2"}, "node n1, not of n2"},
		{"a job of the holder", spec{Action: job}, spec{}, "a Job does its work"},
		{"a job of the other", spec{}, spec{Action: job}, "a Job is to do the work"},
		{"work that may restart the node where locks let it only be drained", spec{Action: &maintenancev1.Action{RebootsNode: no}}, spec{}, "rebootsNode"},
		{"work that does not restart the node where it may", spec{}, spec{Action: &maintenancev1.Action{RebootsNode: no}}, ""},
		{"no drain is demanded", drain(maintenancev1.DrainSpec{}), spec{}, ""},
		{"no drain is done", spec{}, drain(maintenancev1.DrainSpec{}), "does not drain"},
		{"the same pods", drain(maintenancev1.DrainSpec{PodSelector: "app=a"}), drain(maintenancev1.DrainSpec{PodSelector: "app=a"}), ""},
		{"some pods of all", drain(maintenancev1.DrainSpec{}), drain(maintenancev1.DrainSpec{PodSelector: "app=a"}), ""},
		{"all pods of some", drain(maintenancev1.DrainSpec{PodSelector: "app=a"}), drain(maintenancev1.DrainSpec{}), "podSelector"},
		{"one filter of several", drain(maintenancev1.DrainSpec{PodEvictionFilters: filters("gpu", "rdma")}), drain(maintenancev1.DrainSpec{PodEvictionFilters: filters("rdma")}), ""},
		{"another filter", drain(maintenancev1.DrainSpec{PodEvictionFilters: filters("gpu")}), drain(maintenancev1.DrainSpec{PodEvictionFilters: filters("gpu", "rdma")}), "podEvictionFilters"},
		{"no filter where there is one", drain(maintenancev1.DrainSpec{PodEvictionFilters: filters("gpu")}), drain(maintenancev1.DrainSpec{}), "podEvictionFilters"},
		{"a filter where there is none", drain(maintenancev1.DrainSpec{}), drain(maintenancev1.DrainSpec{PodEvictionFilters: filters("gpu")}), ""},
		{"pods without a controller", drain(maintenancev1.DrainSpec{}), drain(maintenancev1.DrainSpec{Force: true}), "force"},
		{"pods with emptyDir volumes", drain(maintenancev1.DrainSpec{}), drain(maintenancev1.DrainSpec{DeleteEmptyDir: true}), "deleteEmptyDir"},
		{"another time limit of the drain", drain(maintenancev1.DrainSpec{TimeoutSeconds: new(int32(1))}), drain(maintenancev1.DrainSpec{TimeoutSeconds: new(int32(0))}), ""},
		{"every pod gone, where some are not waited for", drain(maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(60))}), drain(maintenancev1.DrainSpec{}), "skipWaitForDeleteSeconds"},
		{"pods given up sooner", drain(maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(60))}), drain(maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(30))}), ""},
		{"another order", drain(maintenancev1.DrainSpec{}), drain(maintenancev1.DrainSpec{PodOrder: []maintenancev1.PodOrder{{PodSelector: "app=a"}}}), "podOrder"},
		{"no wait for pods", spec{}, completion(maintenancev1.WaitForPodCompletionSpec{}), "waitForPodCompletion"},
		{"a wait for other pods", completion(maintenancev1.WaitForPodCompletionSpec{PodSelector: "app=a"}), completion(maintenancev1.WaitForPodCompletionSpec{}), "podSelector"},
		{"a wait for pods of a DaemonSet perhaps", completion(maintenancev1.WaitForPodCompletionSpec{}), completion(maintenancev1.WaitForPodCompletionSpec{PodSelector: "app=a"}), "podSelector"},
		{"a wait without limit", completion(maintenancev1.WaitForPodCompletionSpec{}), completion(maintenancev1.WaitForPodCompletionSpec{TimeoutSeconds: 9}), ""},
		{"a shorter wait", completion(maintenancev1.WaitForPodCompletionSpec{TimeoutSeconds: 9}), completion(maintenancev1.WaitForPodCompletionSpec{}), "timeoutSeconds"},
		{"a wait for pods that terminate, where a drain passes over them", spec{WaitForPodCompletion: &maintenancev1.WaitForPodCompletionSpec{}, DrainSpec: &maintenancev1.DrainSpec{SkipWaitForDeleteSeconds: new(int32(60))}}, completion(maintenancev1.WaitForPodCompletionSpec{}), "skipWaitForDeleteSeconds"},
		{"a wait for pods alone, where there is a drain as well", spec{WaitForPodCompletion: &maintenancev1.WaitForPodCompletionSpec{}, DrainSpec: &maintenancev1.DrainSpec{}}, completion(maintenancev1.WaitForPodCompletionSpec{}), ""},
		{"the same check", spec{HealthChecks: []drydockv1.HealthCheck{ready}}, spec{HealthChecks: []drydockv1.HealthCheck{ready}}, ""},
		{"a check that is not made", spec{}, spec{HealthChecks: []drydockv1.HealthCheck{ready}}, "does not check storage"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			coverage := scheduling.Covers(tc.holder, maintenancev1.NodeReady, tc.other)
			require.Equal(t, tc.lacks == "", coverage.Covered, coverage.Reason)
			require.Contains(t, coverage.Reason, tc.lacks)
		})
	}
}

func TestANodeIsSharedUntilItIsOnItsWayBack(t *testing.T) {
	for _, state := range []maintenancev1.NodeState{
		maintenancev1.NodePending, maintenancev1.NodeScheduled, maintenancev1.NodeCordon, maintenancev1.NodeWaitForPodCompletion,
		maintenancev1.NodeDraining, maintenancev1.NodeReady, maintenancev1.NodeRequestorFailed,
	} {
		require.True(t, scheduling.Covers(spec{}, state, spec{}).Covered, state)
	}
	for _, state := range []maintenancev1.NodeState{
		maintenancev1.NodeHealthChecks, maintenancev1.NodeCleaningUp, maintenancev1.NodeCompleted, maintenancev1.NodeFailed,
		maintenancev1.NodeCancelled, maintenancev1.NodeGone,
	} {
		require.False(t, scheduling.Covers(spec{}, state, spec{}).Covered, state)
	}
}
