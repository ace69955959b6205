package rollouts

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// save saves a rollout of namespace default on the hub. succeeded is the status of its condition Succeeded; "" while it runs.
func save(t *testing.T, name string, succeeded metav1.ConditionStatus, blockers ...string) {
	t.Helper()
	in := finalStatus("default", name, ranv1.ReasonCompleted)
	in.Object.Spec.BlockingCRs = blockedBy("default", blockers...)
	in.Object.Status.Conditions[0].Status = succeeded
	if succeeded == "" {
		in.Object.Status.Conditions = nil
	}
	require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).SaveRollout(t.Context(), in))
}

func blockedBy(namespace string, names ...string) []ranv1.BlockingCR {
	var blockers []ranv1.BlockingCR
	for _, name := range names {
		blockers = append(blockers, ranv1.BlockingCR{Namespace: namespace, Name: name})
	}
	return blockers
}

// awaitBlockers waits for the blockers of a rollout, and sends the result.
func awaitBlockers(ctx context.Context, name string, blockers []ranv1.BlockingCR) <-chan error {
	ended := make(chan error, 1)
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: ranv1.ClusterGroupUpgradeSpec{BlockingCRs: blockers}}
	go func() {
		_, err := (&Activities{Clusters: activitytest.Clusters}).AwaitBlockers(ctx, object)
		ended <- err
	}()
	return ended
}

func TestABlockedRolloutContinuesWhenItsLastBlockerSucceeds(t *testing.T) {
	save(t, "first", metav1.ConditionTrue)
	save(t, "second", "")
	ended := awaitBlockers(t.Context(), "blocked", blockedBy("default", "first", "second", "third"))
	save(t, "third", metav1.ConditionTrue)
	save(t, "second", metav1.ConditionFalse)
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	save(t, "second", metav1.ConditionTrue)
	succeeded := time.Now()
	require.NoError(t, <-ended)
	require.Less(t, time.Since(succeeded), activitytest.EventTimeout, "an event ends the wait, not a periodic read")
}

func TestTheClustersThatAreCompleteInTheBlockersAreReturned(t *testing.T) {
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "filtering", Annotations: map[string]string{
		ranv1.AnnotationBlockingMode: ranv1.BlockingPartial, ranv1.AnnotationBlockingFiltering: "true",
	}}}
	object.Spec.BlockingCRs = blockedBy("default", "half")
	in := finalStatus("default", "half", ranv1.ReasonTimedOut)
	in.Object.Status.Conditions[0].Status = metav1.ConditionFalse
	in.Object.Status.RemediationPlan = [][]string{{"c1", "c2"}}
	in.Object.Status.Clusters = []ranv1.ClusterStatus{{Name: "c1", Batch: 1, State: ranv1.ClusterTimedOut}, {Name: "c2", Batch: 1, State: ranv1.ClusterComplete}}
	activities := &Activities{Clusters: activitytest.Clusters}
	require.NoError(t, activities.SaveRollout(t.Context(), in))
	unblocked, err := activities.AwaitBlockers(t.Context(), object)
	require.NoError(t, err)
	require.Equal(t, []string{"c2"}, unblocked.Complete)
}

// Another operator may run the blocker: only its object on the hub shows its status.
func TestTheObjectOfABlockerCounts(t *testing.T) {
	save(t, "operated", metav1.ConditionTrue)
	blocker := activitytest.Create(t, activitytest.BareCluster(t), &ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "operated"},
		Spec:       ranv1.ClusterGroupUpgradeSpec{Clusters: []string{"c1"}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)}},
	})
	ended := awaitBlockers(t.Context(), "blocked", blockedBy("default", "operated"))
	blocker.Status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: metav1.ConditionFalse, Reason: ranv1.ReasonTimedOut, LastTransitionTime: metav1.Now()}}
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Update(t.Context(), blocker))
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	blocker.Status.Conditions[0].Status, blocker.Status.Conditions[0].Reason = metav1.ConditionTrue, ranv1.ReasonCompleted
	require.NoError(t, activitytest.BareCluster(t).Client.Status().Update(t.Context(), blocker))
	require.NoError(t, <-ended)
}

// blockedRollout is a rollout that waits for its blockers.
type blockedRollout struct {
	t       *testing.T
	reports *activitytest.Signals
	ended   chan error
}

// block waits in the background for the blockers of a rollout.
func block(t *testing.T, name string, blockers []ranv1.BlockingCR) *blockedRollout {
	b := &blockedRollout{t: t, reports: &activitytest.Signals{}, ended: make(chan error, 1)}
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	activities := &Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Temporal: b.reports}}
	environment.RegisterActivity(activities.AwaitBlockers)
	object := ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: ranv1.ClusterGroupUpgradeSpec{BlockingCRs: blockers}}
	go func() {
		_, err := environment.ExecuteActivity(activities.AwaitBlockers, object)
		b.ended <- err
	}()
	return b
}

// requireMessage waits until the rollout reports a wait with, or without, a text.
func (b *blockedRollout) requireMessage(text string, with bool) {
	b.t.Helper()
	require.EventuallyWithT(b.t, func(c *assert.CollectT) {
		last, _ := b.reports.Last()
		if assert.NotNil(c, last.Wait) {
			assert.Equal(c, with, strings.Contains(last.Wait.Message, text), last.Wait.Message)
		}
	}, activitytest.EventTimeout, 10*time.Millisecond)
}

// Rollout egg waits for chicken, which is edited so that it waits for rooster, and that for egg.
func TestACycleThatArisesLaterIsNamedUntilItIsBroken(t *testing.T) {
	const cycle = "these rollouts wait for each other: default/egg -> default/chicken -> default/rooster -> default/egg"
	save(t, "chicken", "")
	save(t, "rooster", "", "egg")
	egg := block(t, "egg", blockedBy("default", "chicken"))
	egg.requireMessage(cycle, false)
	save(t, "chicken", "", "rooster")
	egg.requireMessage(cycle, true)
	save(t, "rooster", "") // not one of the spec: it is watched as soon as it is known
	egg.requireMessage(cycle, false)
	save(t, "chicken", metav1.ConditionTrue, "rooster")
	require.NoError(t, <-egg.ended)
}

// The blocker is in another namespace, and another operator runs it.
func TestABlockerThatIsDeletedIsAwaitedUntilItIsBackAndSucceeds(t *testing.T) {
	hub := activitytest.BareCluster(t)
	namespace := devstacktest.Namespace(t, activitytest.Stack.Cluster(activitytest.HubName))
	create := func(succeeded metav1.ConditionStatus) *ranv1.ClusterGroupUpgrade {
		blocker := &ranv1.ClusterGroupUpgrade{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "base"},
			Spec:       ranv1.ClusterGroupUpgradeSpec{Clusters: []string{"c1"}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)}},
		}
		require.NoError(t, hub.Client.Create(t.Context(), blocker))
		if succeeded != "" {
			blocker.Status.Conditions = []metav1.Condition{{Type: ranv1.ConditionSucceeded, Status: succeeded, Reason: ranv1.ReasonCompleted, LastTransitionTime: metav1.Now()}}
			require.NoError(t, hub.Client.Status().Update(t.Context(), blocker))
		}
		return blocker
	}
	first := create("")
	blocked := block(t, "apps", blockedBy(namespace, "base"))
	blocked.requireMessage("Blocking CRs that are not completed: [base]; waiting for "+namespace+"/base", true)
	require.NoError(t, hub.Client.Delete(t.Context(), first))
	blocked.requireMessage("Missing blocking CRs: [base]; waiting for "+namespace+"/base", true)
	failed := create(metav1.ConditionFalse)
	blocked.requireMessage("Blocking CRs that are not completed", true)
	require.NoError(t, hub.Client.Delete(t.Context(), failed))
	blocked.requireMessage("Missing blocking CRs", true)
	create(metav1.ConditionTrue)
	require.NoError(t, <-blocked.ended)
}

func TestASavedRolloutIsLoadedWithItsPlan(t *testing.T) {
	in := finalStatus("default", "again", ranv1.ReasonFailed)
	in.Object.Spec = activitytest.NodeRollout(activitytest.SpokeName, "gone").Spec
	in.Object.Status.RemediationPlan = [][]string{{activitytest.SpokeName}, {"gone"}}
	in.Object.Status.Clusters = []ranv1.ClusterStatus{{Name: activitytest.SpokeName, Batch: 1, State: ranv1.ClusterFailed}, {Name: "gone", Batch: 2, State: ranv1.ClusterComplete}}
	rollouts := &Activities{Clusters: activitytest.Clusters, Workflows: activitytest.Rollouts{in.RunID: in.Object}}
	forged := in
	forged.Object.Spec.Clusters = []string{"another"}
	forged.Object.Status.RemediationPlan = [][]string{{"another"}}
	require.NoError(t, rollouts.SaveRollout(t.Context(), forged))
	recalled, err := rollouts.LoadRollout(t.Context(), LoadRolloutInput{Namespace: "default", Name: "again"})
	require.NoError(t, err)
	require.Equal(t, in.Object.Spec.Clusters, recalled.Object.Spec.Clusters, "the run in Temporal counts, not the copy on the hub")
	require.Equal(t, in.Object.Status.RemediationPlan, rollout.Expand(recalled.Object.Status).RemediationPlan)
	require.Equal(t, ranv1.ClusterPending, recalled.Object.Status.Clusters[0].State)

	_, err = rollouts.LoadRollout(t.Context(), LoadRolloutInput{Namespace: "default", Name: "never"})
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "rollout default/never is not saved on the hub")
}

// What Temporal no longer vouches for is not run.
func TestARolloutWhoseRunIsGoneIsNotRetried(t *testing.T) {
	for _, run := range []string{"", "forgotten"} {
		in := finalStatus("default", "lost", ranv1.ReasonFailed)
		in.RunID = run
		rollouts := &Activities{Clusters: activitytest.Clusters, Workflows: activitytest.Rollouts{"another": in.Object}}
		require.NoError(t, rollouts.SaveRollout(t.Context(), in))
		_, err := rollouts.LoadRollout(t.Context(), LoadRolloutInput{Namespace: "default", Name: "lost"})
		require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err), "%v", err)
		require.ErrorContains(t, err, "start it again with its manifest")
	}
}

// Only SaveRollout vouches for the end of a blocker. In doubt, the blocked rollout is refused.
func TestASavedBlockerThatDrydockDidNotWriteIsRefused(t *testing.T) {
	for name, tt := range map[string]struct {
		change func(*corev1.ConfigMap)
		says   string
	}{
		"another owner": {func(saved *corev1.ConfigMap) { saved.Annotations[kube.AnnotationOwner] = "cgu/default/another/run" }, "does not name workflow cgu/default/doubtful"},
		"no owner":      {func(saved *corev1.ConfigMap) { delete(saved.Annotations, kube.AnnotationOwner) }, "does not name workflow"},
		"no label":      {func(saved *corev1.ConfigMap) { saved.Labels = nil }, "is not Drydock's"},
		"a changed status": {func(saved *corev1.ConfigMap) {
			saved.Data[rollout.SavedKey] = strings.Replace(saved.Data[rollout.SavedKey], `status: "False"`, `status: "True"`, 1)
		}, "its content was changed"},
		"an invalid spec": {func(saved *corev1.ConfigMap) {
			saved.Data[rollout.SavedKey] = strings.Replace(saved.Data[rollout.SavedKey], "maxConcurrency: 1", "maxConcurrency: -1", 1)
			activitykit.SetDigest(saved, []byte(saved.Data[rollout.SavedKey]))
		}, "spec.remediationStrategy.maxConcurrency"},
	} {
		t.Run(name, func(t *testing.T) {
			in := finalStatus("default", "doubtful", ranv1.ReasonFailed)
			require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).SaveRollout(t.Context(), in))
			saved := activitytest.GetSaved(t, "rollout.default.doubtful")
			hub := activitytest.BareCluster(t)
			t.Cleanup(func() { require.NoError(t, hub.Client.Delete(context.Background(), saved)) })
			before := saved.DeepCopy()
			tt.change(saved)
			require.NotEqual(t, before, saved)
			require.NoError(t, hub.Client.Update(t.Context(), saved))
			err := <-awaitBlockers(t.Context(), "blocked", blockedBy("default", "doubtful"))
			require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, tt.says)
			_, err = (&Activities{Clusters: activitytest.Clusters, Workflows: activitytest.Rollouts{in.RunID: in.Object}}).
				LoadRollout(t.Context(), LoadRolloutInput{Namespace: "default", Name: "doubtful"})
			require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
		})
	}
}

func TestAPlanWithACycleIsNotValid(t *testing.T) {
	save(t, "ouroboros", "", "tail")
	plan, err := (&Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), PlanInput{Object: ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "tail"},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			ClusterSelector: []string{"no=such"}, BlockingCRs: blockedBy("default", "ouroboros"),
			RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)},
		},
	}})
	require.NoError(t, err)
	require.False(t, plan.Valid())
	require.Contains(t, plan.Problems()[0], "default/tail -> default/ouroboros -> default/tail")
}
