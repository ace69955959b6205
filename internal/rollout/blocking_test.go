package rollout_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"pgregory.net/rapid"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

type rollouts map[types.NamespacedName]*ranv1.ClusterGroupUpgrade

func named(name string) types.NamespacedName {
	return types.NamespacedName{Namespace: "ops", Name: name}
}

// blockedBy is a rollout of namespace ops that others block. over is the status of its condition Succeeded; "" while it runs.
func blockedBy(name string, over metav1.ConditionStatus, blockers ...string) *ranv1.ClusterGroupUpgrade {
	cgu := &ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: name}}
	for _, blocker := range blockers {
		cgu.Spec.BlockingCRs = append(cgu.Spec.BlockingCRs, ranv1.BlockingCR{Namespace: "ops", Name: blocker})
	}
	if over != "" {
		cgu.Status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: over}}
	}
	return cgu
}

// partial lets a rollout start when its blockers have ended, with any result.
func partial(cgu *ranv1.ClusterGroupUpgrade) *ranv1.ClusterGroupUpgrade {
	cgu.Annotations = map[string]string{"ran.openshift.io/blocking-cgu-completion-mode": "partial"}
	return cgu
}

func begun(cgu *ranv1.ClusterGroupUpgrade) *ranv1.ClusterGroupUpgrade {
	cgu.Status.Status.StartedAt = &metav1.Time{}
	return cgu
}

func known(list ...*ranv1.ClusterGroupUpgrade) rollouts {
	all := rollouts{}
	for _, cgu := range list {
		all[named(cgu.Name)] = cgu
	}
	return all
}

func TestARolloutIsBlockedUntilAllItsBlockersHaveSucceeded(t *testing.T) {
	tests := []struct {
		name    string
		cgu     *ranv1.ClusterGroupUpgrade
		known   rollouts
		reason  string
		message string
	}{
		{"nothing blocks it", blockedBy("a", ""), nil, "", ""},
		{"all have succeeded", blockedBy("a", "", "b", "c"), known(blockedBy("b", "True"), blockedBy("c", "True")), "", ""},
		{"one is running", blockedBy("a", "", "b", "c"), known(blockedBy("b", "True"), blockedBy("c", "")), "IncompleteBlockingCR", "Blocking CRs that are not completed: [c]; waiting for ops/c"},
		{"one has failed", blockedBy("a", "", "b"), known(blockedBy("b", "False")), "IncompleteBlockingCR", "Blocking CRs that are not completed: [b]; waiting for ops/b"},
		{"one has failed, and that is enough", partial(blockedBy("a", "", "b", "c")), known(blockedBy("b", "False"), blockedBy("c", "True")), "", ""},
		{"one is running, which is not enough", partial(blockedBy("a", "", "b", "c")), known(blockedBy("b", "False"), blockedBy("c", "")), "IncompleteBlockingCR", "Blocking CRs that are not completed: [c]; waiting for ops/c"},
		{"one is missing, which is not enough", partial(blockedBy("a", "", "b")), nil, "MissingBlockingCR", "Missing blocking CRs: [b]; waiting for ops/b"},
		{"missing rollouts are reported first", blockedBy("a", "", "b", "c", "d"), known(blockedBy("b", "")), "MissingBlockingCR", "Missing blocking CRs: [c d]; waiting for ops/c, ops/d, ops/b"},
		{
			"a cycle of others is broken by one that has started", blockedBy("a", "", "b"), known(begun(blockedBy("b", "", "c")), blockedBy("c", "", "b")), "IncompleteBlockingCR",
			"Blocking CRs that are not completed: [b]; waiting for ops/b",
		},
		{
			"a cycle of others is reported", blockedBy("a", "", "x", "b"), known(blockedBy("x", ""), blockedBy("b", "", "x", "c"), blockedBy("c", "", "d"), blockedBy("d", "", "x", "c")), "IncompleteBlockingCR",
			"Blocking CRs that are not completed: [x b]; waiting for ops/x, ops/b; that never ends: these rollouts wait for each other: ops/c -> ops/d -> ops/c" +
				"; take one out of the blockingCRs of another",
		},
		{"a cycle of others is broken by one that has ended", blockedBy("a", "", "b"), known(blockedBy("b", "", "c"), blockedBy("c", "False", "b")), "IncompleteBlockingCR", "Blocking CRs that are not completed: [b]; waiting for ops/b"},
		{"others wait for the same rollout, without a cycle", blockedBy("a", "", "b", "c"), known(blockedBy("b", "", "d"), blockedBy("c", "", "d"), blockedBy("d", "")), "IncompleteBlockingCR", "Blocking CRs that are not completed: [b c]; waiting for ops/b, ops/c"},
		{"a duplicate is reported once", blockedBy("a", "", "b", "b"), nil, "MissingBlockingCR", "Missing blocking CRs: [b]; waiting for ops/b"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			wait := rollout.Blocked(test.cgu, test.known).Wait()
			if test.reason == "" {
				require.Nil(t, wait)
				return
			}
			require.Equal(t, test.reason, wait.Reason)
			require.Equal(t, test.message, wait.Message)
			require.NotEmpty(t, wait.Blockers)
		})
	}
}

func TestRolloutsThatWaitForEachOtherAreNamedInOrder(t *testing.T) {
	tests := []struct {
		name  string
		cgu   *ranv1.ClusterGroupUpgrade
		known rollouts
		want  []types.NamespacedName
	}{
		{"a rollout waits for itself", blockedBy("a", "", "a"), nil, []types.NamespacedName{named("a"), named("a")}},
		{"a cycle through other rollouts", blockedBy("a", "", "x", "b"), known(blockedBy("x", ""), blockedBy("b", "", "c"), blockedBy("c", "", "x", "a")), []types.NamespacedName{named("a"), named("b"), named("c"), named("a")}},
		{"an ended rollout waits for none", blockedBy("a", "", "b"), known(blockedBy("b", "False", "a")), nil},
		{"a cycle of others does not make the rollout invalid", blockedBy("a", "", "b"), known(blockedBy("b", "", "c"), blockedBy("c", "", "b")), nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			blocking := rollout.Blocked(test.cgu, test.known)
			require.Equal(t, test.want, blocking.Cycle)
			if test.want != nil {
				require.Contains(t, blocking.CycleMessage(), "ops/a -> ")
				require.Contains(t, blocking.Wait().Message, "that never ends: these rollouts wait for each other: ops/a -> ", "a cycle may arise while a rollout waits")
			}
		})
	}
}

// However rollouts block each other: if each rollout in a cycle is refused, all others can succeed, one after the other.
func TestWithoutACycleEveryRolloutStarts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		names := []string{"a", "b", "c", "d", "e"}
		all := rollouts{}
		for _, name := range names {
			all[named(name)] = blockedBy(name, "", rapid.SliceOfNDistinct(rapid.SampledFrom(names), 0, 2, rapid.ID).Draw(t, "blockers of "+name)...)
		}
		for _, name := range names {
			if rollout.Blocked(all[named(name)], all).Cycle != nil {
				all[named(name)].Spec.BlockingCRs = nil // the user removes them, as the message says
			}
		}
		for range names {
			for _, name := range names {
				if rollout.Blocked(all[named(name)], all).Wait() == nil {
					all[named(name)] = blockedBy(name, "True")
				}
			}
		}
		stuck := slices.DeleteFunc(slices.Clone(names), func(name string) bool { return rollout.Succeeded(all[named(name)]) })
		require.Empty(t, stuck, fmt.Sprint(all))
	})
}
