package onboarding

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// runs are the workflows of a Temporal server, by ID.
type runs map[string]*workflowservice.DescribeWorkflowExecutionResponse

func (runs) GetWorkflow(context.Context, string, string) temporalclient.WorkflowRun { return nil }

func (r runs) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	if described, known := r[id]; known {
		return described, nil
	}
	return nil, serviceerror.NewNotFound(id)
}

func activities() *Activities { return &Activities{Clusters: activitytest.Clusters, Temporal: runs{}} }

// policyReplica creates the replica of a policy in a cluster's namespace.
func policyReplica(t *testing.T, cluster, root, wave string) {
	t.Helper()
	object := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"disabled": false, "policy-templates": []any{}, "remediationAction": "inform"}}}
	object.SetGroupVersionKind(policies.Policies)
	object.SetNamespace(cluster)
	object.SetName(root)
	object.SetLabels(map[string]string{policies.LabelRoot: root})
	object.SetAnnotations(map[string]string{"ran.openshift.io/ztp-deploy-wave": wave})
	activitytest.Create(t, activitytest.BareCluster(t), object)
}

func TestANewClusterIsFoundOnceAvailableWithItsOrderedPolicies(t *testing.T) {
	namespace := &corev1.Namespace{}
	namespace.Name = "fresh-1"
	require.NoError(t, activitytest.BareCluster(t).Client.Create(t.Context(), namespace))
	activitytest.ManagedCluster(t, "fresh-1", nil)
	policyReplica(t, "fresh-1", "ztp.last", "10")
	policyReplica(t, "fresh-1", "ztp.first", "1")

	ctx, cancel := context.WithTimeout(t.Context(), activitytest.EventTimeout)
	defer cancel()
	answer := make(chan NewClusters, 1)
	go func() {
		found, err := activities().AwaitNewClusters(ctx, AwaitNewClustersInput{})
		assert.NoError(t, err)
		answer <- found
	}()
	activitytest.SetAvailable(t, "fresh-1", "False")
	activitytest.SetAvailable(t, "fresh-1", "True")
	require.Equal(t, []NewCluster{{Name: "fresh-1", Policies: []string{"first", "last"}}}, (<-answer).Found)

	policyReplica(t, "fresh-1", "ztp.odd", "third")
	found, err := activities().AwaitNewClusters(ctx, AwaitNewClustersInput{})
	require.NoError(t, err)
	require.Contains(t, found.Found[0].Problem, `policy ztp.odd: annotation ran.openshift.io/ztp-deploy-wave: "third" is not a whole number`)
}

// The ends of rollouts interrupt the watch: one read after the other would never find the next clusters on a slow hub.
func TestNewClustersAreReadInParallel(t *testing.T) {
	names := []string{"pair-1", "pair-2", "pair-3"}
	for _, name := range names {
		activitytest.ManagedCluster(t, name, nil)
		activitytest.SetAvailable(t, name, "True")
	}
	ctx, cancel := context.WithTimeout(t.Context(), activitytest.EventTimeout)
	defer cancel()
	found, err := newClusters(ctx, activitytest.HubThatPairsRequests(t, "/managedclusters/"), names)
	require.NoError(t, err)
	require.Len(t, found, len(names))
	for i, cluster := range found {
		require.Equal(t, names[i], cluster.Name)
	}
}

func TestAFailedClusterIsSettledWhenDoneDetachedOrDeleted(t *testing.T) {
	activitytest.ManagedCluster(t, "fresh-2", nil)
	activitytest.SetAvailable(t, "fresh-2", "True")
	ctx, cancel := context.WithTimeout(t.Context(), activitytest.EventTimeout)
	defer cancel()
	found, err := activities().AwaitNewClusters(ctx, AwaitNewClustersInput{})
	require.NoError(t, err)
	require.Equal(t, []NewCluster{{Name: "fresh-2", Policies: []string{}}}, found.Found)
	found, err = activities().AwaitNewClusters(ctx, AwaitNewClustersInput{Failed: []string{"fresh-2", "was-here"}})
	require.NoError(t, err)
	require.Equal(t, NewClusters{Settled: []string{"was-here"}}, found)

	answer := make(chan NewClusters, 1)
	go func() {
		found, err := activities().AwaitNewClusters(ctx, AwaitNewClustersInput{Failed: []string{"fresh-2"}})
		assert.NoError(t, err)
		answer <- found
	}()
	activitytest.SetAvailable(t, "fresh-2", "Unknown")
	require.Equal(t, []string{"fresh-2"}, (<-answer).Settled)
	activitytest.SetAvailable(t, "fresh-2", "True")
	found, err = activities().AwaitNewClusters(ctx, AwaitNewClustersInput{})
	require.NoError(t, err)
	require.Equal(t, []NewCluster{{Name: "fresh-2", Policies: []string{}}}, found.Found, "a cluster without policies only gets labels")
}

// shown is the object of the onboarding of a cluster.
func shown(t *testing.T, cluster string) *ranv1.ClusterGroupUpgrade {
	t.Helper()
	object := &ranv1.ClusterGroupUpgrade{}
	require.NoError(t, activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKey{Namespace: "ztp-install", Name: cluster}, object))
	return object
}

func TestTheObjectOfARolloutThatIsOverIsReplaced(t *testing.T) {
	hub := activitytest.BareCluster(t).Client
	activitytest.ManagedCluster(t, "fresh-4", nil)
	create := func() (*temporal.Object, error) {
		return activities().CreateObject(t.Context(), NewCluster{Name: "fresh-4", Policies: []string{"first", "last"}})
	}
	created, err := create()
	require.NoError(t, err)
	first := shown(t, "fresh-4")
	t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(hub.Delete(context.Background(), first))) })
	require.Equal(t, &temporal.Object{APIVersion: "ran.openshift.io/v1alpha1", Kind: "ClusterGroupUpgrade", Namespace: "ztp-install", Name: "fresh-4", UID: first.UID}, created)
	require.Equal(t, []string{"first", "last"}, first.Spec.ManagedPolicies)
	require.Equal(t, "ManagedCluster", first.OwnerReferences[0].Kind)
	again, err := create()
	require.NoError(t, err)
	require.Equal(t, created, again, "its reply was lost")

	end, err := activities().ReadEnd(t.Context(), *created)
	require.NoError(t, err)
	require.Equal(t, Cancelled(), end, "it has no end yet")
	first.Status.Conditions = []metav1.Condition{{Type: "Succeeded", Status: "False", Reason: "TimedOut", Message: "too long", LastTransitionTime: metav1.Now()}}
	require.NoError(t, hub.Status().Update(t.Context(), first))
	end, err = activities().ReadEnd(t.Context(), *created)
	require.NoError(t, err)
	require.Equal(t, RolloutEnd{Reason: "TimedOut", Message: "too long"}, end)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var err error
		again, err = create()
		assert.NoError(c, err)
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.NotEqual(t, created.UID, again.UID)

	foreign := shown(t, "fresh-4")
	foreign.OwnerReferences = nil
	require.NoError(t, hub.Update(t.Context(), foreign))
	_, err = create()
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err))
	require.ErrorContains(t, err, "ClusterGroupUpgrade ztp-install/fresh-4 exists, and is not of the onboarding of the cluster: delete it")
	running := activities()
	running.Temporal = runs{"cgu/ztp-install/fresh-4": {WorkflowExecutionInfo: &workflowpb.WorkflowExecutionInfo{Status: enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}}}
	none, err := running.CreateObject(t.Context(), NewCluster{Name: "fresh-4"})
	require.NoError(t, err)
	require.Nil(t, none, "its rollout runs already, without an object")
	_, err = activities().CreateObject(t.Context(), NewCluster{Name: "was-here"})
	require.Equal(t, temporal.ErrNotFound, temporal.ErrorType(err))
}

func TestAFailedClusterIsSettledWhenItsObjectIsDeleted(t *testing.T) {
	activitytest.ManagedCluster(t, "fresh-5", nil)
	activitytest.SetAvailable(t, "fresh-5", "True")
	ctx, cancel := context.WithTimeout(t.Context(), activitytest.EventTimeout)
	defer cancel()
	found, err := activities().AwaitNewClusters(ctx, AwaitNewClustersInput{})
	require.NoError(t, err)
	_, err = activities().CreateObject(ctx, NewCluster{Name: "fresh-5"})
	require.NoError(t, err)
	answer := make(chan NewClusters, 1)
	go func() {
		found, err := activities().AwaitNewClusters(ctx, AwaitNewClustersInput{Failed: []string{"fresh-5"}, Objects: []string{"fresh-5"}})
		assert.NoError(t, err)
		answer <- found
	}()
	require.NoError(t, activitytest.BareCluster(t).Client.Delete(ctx, shown(t, "fresh-5")))
	require.Equal(t, []string{"fresh-5"}, (<-answer).Settled)
	found, err = activities().AwaitNewClusters(ctx, AwaitNewClustersInput{Failed: []string{"fresh-5", "was-here"}})
	require.NoError(t, err)
	require.Equal(t, []string{"was-here"}, found.Settled, "a cluster whose rollout had no object stays failed")
}

func TestPrecachedImagesAreReadFromTheHub(t *testing.T) {
	activitytest.ManagedCluster(t, activitytest.SpokeName, nil)
	activitytest.Create(t, activitytest.BareCluster(t), &ranv1.PreCachingConfig{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "telco"},
		Spec:       ranv1.PreCachingConfigSpec{AdditionalImages: []string{"registry.example.com/shop/web:2.1"}},
	})
	cgu := activitytest.NodeRollout(activitytest.SpokeName)
	cgu.Namespace, cgu.Spec.PreCaching, cgu.Spec.PreCachingConfigRef, cgu.Spec.Backup = "default", true, &ranv1.ObjectRef{Name: "telco"}, true
	var plan rollouts.Plan
	require.Eventually(t, func() bool {
		var err error
		plan, err = (&rollouts.Activities{Clusters: activitytest.Clusters, Defaults: rollouts.Defaults{PrecacheImage: "pull:1", BackupImage: "backup:1"}}).PlanRollout(t.Context(), rollouts.PlanInput{Object: cgu})
		return err == nil && plan.Valid()
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.Equal(t, "pull:1", plan.PreCacheImage)
	require.Equal(t, "backup:1", plan.BackupImage)
	require.Equal(t, []string{"registry.example.com/shop/web:2.1"}, plan.Precaching.AdditionalImages)

	elsewhere := &ranv1.PreCachingConfig{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "elsewhere"}}
	elsewhere.Spec.AdditionalImages, elsewhere.Spec.Overrides.PreCacheImage = []string{"a"}, "elsewhere.example.com/pull:1"
	activitytest.Create(t, activitytest.BareCluster(t), elsewhere)
	other := cgu
	other.Spec.PreCachingConfigRef = &ranv1.ObjectRef{Name: "elsewhere"}
	require.Eventually(t, func() bool {
		var err error
		plan, err = (&rollouts.Activities{Clusters: activitytest.Clusters, Defaults: rollouts.Defaults{PrecacheImage: "pull:1", BackupImage: "backup:1"}}).PlanRollout(t.Context(), rollouts.PlanInput{Object: other})
		return err == nil && len(plan.Problems()) == 1 &&
			strings.Contains(plan.Problems()[0], "PreCachingConfig default/elsewhere: spec.overrides.preCacheImage: Forbidden: image elsewhere.example.com/pull:1")
	}, activitytest.EventTimeout, 20*time.Millisecond, "%q", &plan)
	require.Empty(t, plan.RemediationPlan)

	plan, err := (&rollouts.Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), rollouts.PlanInput{Object: cgu})
	require.NoError(t, err)
	require.Len(t, plan.Problems(), 2, "%q", plan.Problems())
	require.Contains(t, plan.Problems()[0], "start the workers with --backup-image")
	require.Contains(t, plan.Problems()[1], "no image for the Jobs that pull: start the workers with --precache-image")
	require.Empty(t, plan.RemediationPlan)
}
