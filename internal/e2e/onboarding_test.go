package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/onboarding"
)

var managedClusters = schema.GroupVersionKind{Group: "cluster.open-cluster-management.io", Version: "v1", Kind: "ManagedCluster"}

// createManagedClusters creates ManagedClusters that become Available, and deletes them after the test.
func createManagedClusters(t *testing.T, names ...string) {
	t.Helper()
	hub := hubClient(t)
	var group errgroup.Group
	for _, name := range names {
		t.Cleanup(func() {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(managedClusters)
			object.SetName(name)
			require.NoError(t, client.IgnoreNotFound(hub.Delete(context.Background(), object)))
		})
		group.Go(func() error {
			object := &unstructured.Unstructured{}
			object.SetGroupVersionKind(managedClusters)
			object.SetName(name)
			if err := hub.Create(t.Context(), object); err != nil {
				return err
			}
			return hub.Status().Patch(t.Context(), object, isAvailable)
		})
	}
	require.NoError(t, group.Wait())
}

// isAvailable is the status of a ManagedCluster whose agent answers.
var isAvailable = client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`))

func hubClient(t *testing.T) client.Client {
	t.Helper()
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	return hub
}

// awaitOnboarded waits until that many of the clusters are labelled as done, and none as running.
func awaitOnboarded(t *testing.T, prefix string, count int) {
	t.Helper()
	kind := &metav1.PartialObjectMetadata{}
	kind.SetGroupVersionKind(managedClusters)
	done := 0
	labelled := func(ctx context.Context, reader client.Reader) (bool, error) {
		list := &metav1.PartialObjectMetadataList{}
		list.SetGroupVersionKind(managedClusters.GroupVersion().WithKind("ManagedClusterList"))
		err := reader.List(ctx, list)
		done = 0
		for _, cluster := range list.Items {
			_, onboarded := cluster.Labels["ztp-done"]
			_, running := cluster.Labels["ztp-running"]
			if strings.HasPrefix(cluster.Name, prefix) && onboarded && !running {
				done++
			}
		}
		return done == count, err
	}
	for before := -1; ; before = done { // many clusters take longer on a busy machine, and its API servers may not answer for a while
		err := theFleet.Await(t.Context(), theFleet.Hub, fmt.Sprintf("%d clusters are onboarded", count), []client.Object{kind}, labelled)
		if err == nil {
			return
		}
		require.Greater(t, done, before, "no cluster was onboarded meanwhile: %v", err)
		t.Logf("%d clusters are onboarded; %v", done, err)
	}
}

// onboard starts the onboarding. stop stops it and waits for its end.
func onboard(t *testing.T) (stop func()) {
	t.Helper()
	succeeds(t, "onboarding", "start")
	return func() {
		succeeds(t, "onboarding", "stop")
		require.Eventually(t, func() bool { return onboardingStatus(t).Message != "" }, stateLimit, 200*time.Millisecond, "the onboarding has ended")
	}
}

// onboardingStatus returns the status of the onboarding, empty while the query fails.
func onboardingStatus(t *testing.T) (status onboarding.Status) {
	t.Helper()
	var answer struct {
		Status onboarding.Status `json:"status"`
	}
	if json.Unmarshal([]byte(drydock(t, "onboarding", "status", "-o", "json").out), &answer) != nil {
		return onboarding.Status{}
	}
	return answer.Status
}

func TestHundredsOfNewClustersAreOnboardedOnceEach(t *testing.T) {
	alone(t)
	many := size(200, 40)
	defer onboard(t)()
	require.Equal(t, 1, drydock(t, "onboarding", "start").code, "the onboarding is already running")
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("mast-%03d", i))
	}
	before, err := onboardingRuns(t)
	require.NoError(t, err)
	hasRun := func(count int) func() bool {
		return func() bool {
			now, err := onboardingRuns(t)
			return err == nil && now == before+count
		}
	}
	began := time.Now()
	createManagedClusters(t, names...)
	awaitOnboarded(t, "mast-", many)
	t.Logf("%d clusters were onboarded within %s of their creation", many, time.Since(began).Round(100*time.Millisecond))
	status, code := awaitEnd(t, "ztp-install/mast-007")
	require.Zero(t, code)
	require.EqualValues(t, 1, status.Counts.Skipped)

	require.Eventually(t, func() bool { return onboardingStatus(t).Onboarded == many }, stateLimit, 200*time.Millisecond)
	require.Eventually(t, hasRun(many), stateLimit, 200*time.Millisecond, "each cluster has one run")
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(managedClusters)
	object.SetName("mast-007")
	require.NoError(t, hubClient(t).Patch(t.Context(), object, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"labels":{"ztp-done":null}}}`))))
	require.Eventually(t, func() bool { return onboardingStatus(t).Onboarded == many+1 }, stateLimit, 200*time.Millisecond, "a cluster without its label is onboarded again")
	awaitOnboarded(t, "mast-", many)

	require.NoError(t, theFleet.Worker.Kill())
	createManagedClusters(t, "mast-new")
	require.NoError(t, theFleet.Worker.Start(t.Context()))
	awaitOnboarded(t, "mast-", many+1)
	require.Eventually(t, func() bool {
		status := onboardingStatus(t)
		return status.Onboarded > many && len(status.Clusters) == 0
	}, stateLimit, 200*time.Millisecond)
	require.Eventually(t, hasRun(many+2), stateLimit, 200*time.Millisecond, "the new cluster and the cluster without its label have one more run each")
}

// onboardingRuns is how many runs the rollouts of these clusters have had. The controller starts the rollout of an object, too: if that is over before the
// onboarding starts it, the later run finds that, and ends cancelled. The visibility store of Temporal is updated with a delay.
func onboardingRuns(t *testing.T) (int, error) {
	t.Helper()
	query := fmt.Sprintf("WorkflowId STARTS_WITH '%s' AND ExecutionStatus != 'Canceled'", temporal.ClusterGroupUpgradeID("ztp-install", "mast-"))
	count, err := temporalClient(t).CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{Query: query})
	return int(count.GetCount()), err
}

func TestAFailedOnboardingIsRetriedOnRequest(t *testing.T) {
	alone(t)
	defer onboard(t)()
	createOnHub(t, `
apiVersion: v1
kind: Namespace
metadata: {name: site-1}
---
apiVersion: policy.open-cluster-management.io/v1
kind: Policy
metadata:
  namespace: site-1
  name: ztp.tuned
  labels: {policy.open-cluster-management.io/root-policy: ztp.tuned}
  annotations: {ran.openshift.io/ztp-deploy-wave: soon}
spec: {disabled: false, remediationAction: inform, policy-templates: []}`)
	createManagedClusters(t, "site-1")
	require.Eventually(t, func() bool {
		status := onboardingStatus(t)
		return status.Count(onboarding.Failed) == 1
	}, stateLimit, 200*time.Millisecond)
	require.Contains(t, succeeds(t, "onboarding", "status"), `InvalidSpec: policy ztp.tuned: annotation ran.openshift.io/ztp-deploy-wave: "soon" is not a whole number`)
	require.Contains(t, drydock(t, "onboarding", "retry", "site-2").err, "clusters: not among those that failed: site-2")

	policy := &metav1.PartialObjectMetadata{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.SetNamespace("site-1")
	policy.SetName("ztp.tuned")
	require.NoError(t, hubClient(t).Delete(t.Context(), policy))
	require.Contains(t, succeeds(t, "onboarding", "retry", "site-1"), "1 cluster is retried")
	awaitOnboarded(t, "site-", 1)
}

// The policies are bound before the clusters are Available. The object of plant-b is deleted while the cluster does not comply.
func TestNewClustersGetTheirPoliciesInTheOrderOfTheirWaves(t *testing.T) {
	alone(t)
	defer onboard(t)()
	clusters := []string{"plant-a", "plant-b"}
	for _, cluster := range clusters {
		register(t, cluster, nil)
	}
	var repaired atomic.Bool
	simulated, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(cluster, _ string) time.Duration {
		if cluster == "plant-b" && !repaired.Load() {
			return -1
		}
		return 200 * time.Millisecond
	}})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	createOnHub(t, informPolicy("apps", `ran.openshift.io/ztp-deploy-wave: "10"`, clusters...))
	createOnHub(t, informPolicy("base", `ran.openshift.io/ztp-deploy-wave: "2"`, clusters...))
	createOnHub(t, informPolicy("other", "", clusters...))
	awaitNonCompliant(t, len(clusters), "apps", "base", "other")
	for _, cluster := range clusters {
		managed := &unstructured.Unstructured{}
		managed.SetGroupVersionKind(managedClusters)
		managed.SetName(cluster)
		require.NoError(t, hubClient(t).Status().Patch(t.Context(), managed, isAvailable))
	}
	objects := map[string]*kubeRequestor{}
	for _, cluster := range clusters {
		object := unstructuredObject("ran.openshift.io/v1alpha1", "ClusterGroupUpgrade", cluster, nil)
		object.SetNamespace("ztp-install")
		objects[cluster] = &kubeRequestor{t: t, client: hubClient(t), object: object}
	}
	shown := objects["plant-a"].awaitCondition("Succeeded", "True Completed")
	require.Equal(t, map[string]any{"plant-a": "complete"}, shownClusters(shown))
	require.Equal(t, "plant-a", shown.GetOwnerReferences()[0].Name)
	awaitOnboarded(t, "plant-", 1)

	objects["plant-b"].awaitCondition("Progressing", "True InProgress")
	objects["plant-b"].delete()
	repaired.Store(true)
	objects["plant-b"].awaitCondition("Succeeded", "True Completed")
	awaitOnboarded(t, "plant-", len(clusters))
	for _, cluster := range clusters {
		var order []string
		for _, enforcement := range simulated.Enforcements() {
			if enforcement.Cluster == cluster && enforcement.Began && !slices.Contains(order, enforcement.Policy) {
				order = append(order, enforcement.Policy)
			}
		}
		require.Equal(t, []string{"default.base", "default.apps"}, order, cluster)
	}
	requireNothingEnforced(t, simulated)
}
