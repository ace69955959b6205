package rollouts

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/allow"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// plan makes a plan once the hub's cache has the objects of the test.
func plan(t *testing.T, cgu ranv1.ClusterGroupUpgrade) Plan {
	t.Helper()
	var plan Plan
	require.Eventually(t, func() bool {
		var err error
		plan, err = (&Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), PlanInput{Object: cgu})
		return err == nil && plan.Conditions[0].Status == metav1.ConditionTrue
	}, activitytest.EventTimeout, 20*time.Millisecond)
	return plan
}

func TestARolloutIsPlannedFromTheManagedClustersOfTheHub(t *testing.T) {
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	activitytest.ManagedCluster(t, "inside", map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	plan := plan(t, activitytest.NodeRollout(activitytest.SpokeName, "inside"))
	require.True(t, plan.Valid(), plan.Problems())
	require.Equal(t, [][]string{{activitytest.SpokeName, "inside"}}, plan.RemediationPlan)
	require.Equal(t, map[string]string{"inside": "drydock.inside"}, plan.TaskQueues)
}

func TestAClusterWithoutWorkersMakesThePlanInvalid(t *testing.T) {
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	activitytest.ManagedCluster(t, "elsewhere", nil)
	plan := plan(t, activitytest.NodeRollout(activitytest.SpokeName, "elsewhere"))
	require.False(t, plan.Valid())
	require.Empty(t, plan.RemediationPlan)
	require.Equal(t, "ClusterUnreachable", plan.Conditions[1].Reason)
	require.Contains(t, plan.Problems()[0], "no worker has credentials for elsewhere: add it to the worker's clusters file")
}

func TestAnInvalidRemediationIsRefusedByThePlan(t *testing.T) {
	cgu := activitytest.NodeRollout(activitytest.SpokeName)
	cgu.Spec.NodeMaintenance.DrainSpec = &maintenancev1.DrainSpec{PodSelector: "app in (web"}
	_, err := (&Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), PlanInput{Object: cgu})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "spec.nodeMaintenance.drainSpec.podSelector")
}

// A rollout need not come through the CLI.
func TestAPlanSetsDefaultsAndRefusesInvalidFields(t *testing.T) {
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	cgu := activitytest.NodeRollout(activitytest.SpokeName)
	planned := plan(t, cgu)
	require.NotNil(t, planned.Spec)
	require.Equal(t, int32(240), planned.Spec.RemediationStrategy.Timeout)
	require.Equal(t, ranv1.BatchTimeoutContinue, planned.Spec.BatchTimeoutAction)
	require.True(t, *planned.Spec.NodeMaintenance.ControlPlaneFirst)

	cgu.Spec = *planned.Spec
	require.Nil(t, plan(t, cgu).Spec, "the spec has its defaults")

	cgu.Spec.RemediationStrategy.MaxConcurrency = intstr.FromInt32(0)
	cgu.Spec.BatchTimeoutAction = "Explode"
	_, err := (&Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), PlanInput{Object: cgu})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "spec.remediationStrategy.maxConcurrency")
	require.ErrorContains(t, err, "spec.batchTimeoutAction")
}

func TestAWaitEndsWhenTheRolloutWouldHaveAnotherPlan(t *testing.T) {
	a := &Activities{Clusters: activitytest.Clusters}
	cgu := activitytest.NodeRollout("comes-later")
	first, err := a.PlanRollout(t.Context(), PlanInput{Object: cgu})
	require.NoError(t, err)
	require.False(t, first.Valid())
	again, err := a.PlanRollout(t.Context(), PlanInput{Object: cgu})
	require.NoError(t, err)
	require.Equal(t, first.Digest, again.Digest, "the time does not change a plan")

	ended := make(chan error, 1)
	go func() {
		ended <- a.AwaitOtherPlan(t.Context(), AwaitOtherPlanInput{PlanInput: PlanInput{Object: cgu}, Digest: first.Digest})
	}()
	activitytest.ManagedCluster(t, "unrelated", nil)
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	default:
	}
	activitytest.ManagedCluster(t, "comes-later", nil)
	require.NoError(t, <-ended)
	other, err := a.PlanRollout(t.Context(), PlanInput{Object: cgu})
	require.NoError(t, err)
	require.NotEqual(t, first.Digest, other.Digest)
}

func TestChangesOfTheHubAreGatheredBeforeARolloutIsPlannedAgain(t *testing.T) {
	in := AwaitOtherPlanInput{PlanInput: PlanInput{Object: activitytest.NodeRollout(activitytest.SpokeName)}, Digest: "of an outdated plan"}
	var took time.Duration
	for range 2 { // the first wait starts the caches
		started := time.Now()
		require.NoError(t, (&Activities{Clusters: activitytest.Clusters}).AwaitOtherPlan(t.Context(), in))
		took = time.Since(started)
	}
	require.GreaterOrEqual(t, took, time.Second)
}

func TestAWorkerWithoutAHubPlansNoRollout(t *testing.T) {
	alone := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: activitytest.Stack.Cluster(activitytest.SpokeName).Config}), kube.Options{})
	t.Cleanup(alone.Close)
	_, err := (&Activities{Clusters: alone}).PlanRollout(t.Context(), PlanInput{Object: activitytest.NodeRollout(activitytest.SpokeName)})
	require.Equal(t, temporal.ErrNoHub, temporal.ErrorType(err))

	wrong := kube.New(kube.FromConfigs(activitytest.Stack.Cluster(activitytest.SpokeName).Config, nil), kube.Options{})
	t.Cleanup(wrong.Close)
	_, err = (&Activities{Clusters: wrong}).PlanRollout(t.Context(), PlanInput{Object: activitytest.NodeRollout(activitytest.SpokeName)})
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	require.ErrorContains(t, err, "the hub does not serve ManagedClusters")

	queue, err := (&Activities{Clusters: alone}).LocateCluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err, "a node can be maintained without a hub")
	require.Equal(t, temporal.TaskQueue, queue)
}

func TestAClusterIsLocatedWhereItsWorkerRuns(t *testing.T) {
	activitytest.ManagedCluster(t, "within", map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	rollouts := &Activities{Clusters: activitytest.Clusters}
	queue, err := rollouts.LocateCluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	require.Equal(t, temporal.TaskQueue, queue)
	require.Eventually(t, func() bool {
		queue, err := rollouts.LocateCluster(t.Context(), "within")
		return err == nil && queue == "drydock.within"
	}, activitytest.EventTimeout, 20*time.Millisecond)
	_, err = rollouts.LocateCluster(t.Context(), "nowhere")
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
	require.ErrorContains(t, err, "cluster nowhere is not known: add it to the worker's clusters file")
}

func TestAnInvalidMaintenanceIsRefusedWithAllErrors(t *testing.T) {
	rollouts := &Activities{Clusters: activitytest.Clusters}
	good := maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "n1"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "ops.example.com", NodeName: "n1"},
	}
	check := func(object any) error {
		written, err := json.Marshal(object)
		require.NoError(t, err)
		return rollouts.CheckNodeMaintenance(t.Context(), written)
	}
	require.NoError(t, check(good))

	bad := good
	bad.Spec.NodeName = ""
	bad.Spec.DrainSpec = &maintenancev1.DrainSpec{PodSelector: "=="}
	err := check(bad)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "NodeMaintenance ops/n1: spec.nodeName")

	written := `{"metadata": {"namespace": "ops", "name": "n1"}, "spec": {"requestorID": "ops.example.com", "nodeName": "n1", "drainSpecs": {}}}`
	err = rollouts.CheckNodeMaintenance(t.Context(), json.RawMessage(written))
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "NodeMaintenance ops/n1: spec.drainSpecs: unknown field")
}

func TestAJobThatTheClustersFileDoesNotAllowIsRefusedAtTheStart(t *testing.T) {
	rollouts := &Activities{Clusters: kube.New(kube.Source{}.Allowing(allow.List{Jobs: []allow.Job{{Images: []string{"registry.example.com/*"}}}}), kube.Options{})}
	for image, refused := range map[string]bool{"registry.example.com/work:1": false, "elsewhere/work:1": true} {
		action := &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{Namespace: allow.NamespaceJobs}}
		action.Job.Template.Spec.Template.Spec.Containers = []corev1.Container{{Name: "work", Image: image}}
		maintenance := maintenancev1.NodeMaintenance{ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "n1"}}
		maintenance.Spec = maintenancev1.NodeMaintenanceSpec{RequestorID: "ops.example.com", NodeName: "n1", Action: action}
		written, err := json.Marshal(maintenance)
		require.NoError(t, err)
		cgu := activitytest.NodeRollout("c")
		cgu.Spec.NodeMaintenance.Action = action
		_, ofRollout := rollouts.CheckRollout(t.Context(), cgu)
		for prefix, err := range map[string]error{"spec.action": rollouts.CheckNodeMaintenance(t.Context(), written), "spec.nodeMaintenance.action": ofRollout} {
			if !refused {
				require.NoError(t, err)
				continue
			}
			require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
			require.ErrorContains(t, err, prefix+".job.template.spec.template.spec.containers[0].image: Forbidden: image "+image)
		}
	}
}

func TestASelectorSelectsByManagedClusterLabels(t *testing.T) {
	for name, site := range map[string]string{"site-a": "a", "site-b": "b"} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(activitykit.ManagedClusterKind)
		object.SetName(name)
		object.SetLabels(map[string]string{"site": site})
		activitytest.Create(t, activitytest.BareCluster(t), object)
	}
	in := SelectClustersInput{Clusters: []string{"site-a", "site-b", "was-here"}, Selectors: []*metav1.LabelSelector{
		{MatchLabels: map[string]string{"site": "a"}},
		nil,
		{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "site", Operator: metav1.LabelSelectorOpNotIn, Values: []string{"a"}}}},
		{MatchLabels: map[string]string{"site": "c"}},
	}}
	require.EventuallyWithT(t, func(c *assert.CollectT) { // once the hub's cache has both
		selected, err := (&Activities{Clusters: activitytest.Clusters}).SelectClusters(t.Context(), in)
		assert.NoError(c, err)
		assert.Equal(c, [][]string{{"site-a"}, {"site-a", "site-b"}, {"site-b"}, nil}, selected)
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

func TestAnInvalidSelectorIsRefused(t *testing.T) {
	in := SelectClustersInput{Clusters: []string{activitytest.SpokeName}, Selectors: []*metav1.LabelSelector{
		nil, {MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "site", Operator: "Like"}}},
	}}
	_, err := (&Activities{Clusters: activitytest.Clusters}).SelectClusters(t.Context(), in)
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "Like")
}

func TestSelectClustersNeedsAHub(t *testing.T) {
	without := kube.New(kube.FromConfigs(nil, nil), kube.Options{})
	t.Cleanup(without.Close)
	_, err := (&Activities{Clusters: without}).SelectClusters(t.Context(), SelectClustersInput{Clusters: []string{activitytest.SpokeName}})
	require.Equal(t, temporal.ErrNoHub, temporal.ErrorType(err), "%v", err)
	require.ErrorContains(t, err, "has no hub")
}
