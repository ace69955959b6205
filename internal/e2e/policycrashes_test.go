package e2e

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/propagator"
)

const (
	maxConcurrency = 10
	// workerCrashes is how often the worker is killed during a rollout, at most once in a batch.
	workerCrashes = 3
	// changesPerBatch is the number of changes of the replicas that enforce two policies on the clusters of a batch: each is NonCompliant, then
	// Compliant.
	changesPerBatch = 2 * 2 * maxConcurrency
)

// enforcing returns a rollout of the policies base and apps.
func enforcing(name string, concurrency, timeoutMinutes int, clusters ...string) string {
	return fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {namespace: default, name: %s}
spec:
  clusters: [%s]
  managedPolicies: [base, apps]
  remediationStrategy: {maxConcurrency: %d, timeout: %d}`, name, strings.Join(clusters, ", "), concurrency, timeoutMinutes)
}

// twoPolicies simulates a hub with the policies base and apps and clusters that only the hub knows. Each cluster complies after its own delay, but
// never if its name begins with stuck.
func twoPolicies(t *testing.T, clusters ...string) *propagator.Propagator {
	t.Helper()
	return twoPoliciesTaking(t, complianceTime, clusters...)
}

// complianceTime is how long a cluster takes to comply with an enforced policy.
func complianceTime(cluster, policy string) time.Duration {
	if strings.HasPrefix(cluster, "stuck") {
		return -1
	}
	return time.Duration(100+40*((len(policy)+int(cluster[len(cluster)-1]))%10)) * time.Millisecond
}

func twoPoliciesTaking(t *testing.T, takes func(cluster, policy string) time.Duration, clusters ...string) *propagator.Propagator {
	t.Helper()
	hub, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: takes})
	require.NoError(t, err)
	t.Cleanup(hub.Stop)
	var registered []string
	for _, cluster := range clusters {
		registered = append(registered, managedCluster(cluster))
	}
	createOnHub(t, strings.Join(registered, "\n---\n"))
	createOnHub(t, informPolicy("base", "", clusters...))
	createOnHub(t, informPolicy("apps", "", clusters...))
	awaitNonCompliant(t, len(clusters), "base", "apps")
	return hub
}

// The same rollout runs twice. During the second run the worker is killed several times, and another rollout times out.
func TestPoliciesAreEnforcedOnceWhenTheWorkerIsKilledAtAnyTime(t *testing.T) {
	alone(t)
	random, sites := newRandom(t), size(100, 40)
	var clusters []string
	for i := range sites {
		clusters = append(clusters, fmt.Sprintf("site-%03d", i+1))
	}
	stuck := []string{"stuck-1", "stuck-2"}
	hub := twoPolicies(t, slices.Concat(clusters, stuck)...)
	withTimeout := func(minutes int) string { return enforcing("stuck", len(stuck), minutes, stuck...) }
	startRollout(t, withTimeout(60))
	startRollout(t, enforcing("undisturbed", maxConcurrency, 20, clusters...))
	undisturbed, code := awaitEnd(t, "undisturbed")
	require.Zero(t, code, "%v", undisturbed.Conditions)
	requireEnforcedOnceEach(t, hub.Enforcements(), "undisturbed", maxConcurrency, clusters, "base", "apps")

	awaitNotEnforced(t, hub, clusters...)
	before := len(hub.Enforcements())
	for _, cluster := range clusters {
		for _, policy := range []string{"base", "apps"} {
			hub.Drift(cluster, "default", policy)
		}
	}
	awaitNonCompliant(t, len(clusters)+len(stuck), "base", "apps")
	r := applyRollout(t, enforcing("disturbed", maxConcurrency, 20, clusters...))
	killWorker(t, clusters, randomMoments(random, sites/maxConcurrency))
	shortenTimeout(t, withTimeout)
	disturbed, code := awaitEnd(t, "disturbed")

	require.Zero(t, code, "%v", disturbed.Conditions)
	require.Equal(t, withoutTimes(undisturbed), withoutTimes(disturbed))
	require.Len(t, shownClusters(r.awaitCondition("Succeeded", "True Completed")), sites)
	requireEnforcedOnceEach(t, hub.Enforcements()[before:], "disturbed", maxConcurrency, clusters, "base", "apps")
	status, code := awaitEnd(t, "stuck")
	require.Equal(t, 1, code)
	requireSucceededFalse(t, status, ranv1.ReasonTimedOut)
	requireEnforcedOnceEach(t, hub.Enforcements(), "stuck", len(stuck), stuck, "base")
	requireNothingEnforced(t, hub)
	for _, rollout := range []string{"undisturbed", "disturbed", "stuck"} {
		requireNoHubObjects(t, rollout)
	}
}

// randomMoments are counts of changes at which the worker is killed, each in another batch.
func randomMoments(random *rand.Rand, count int) []int {
	batches := random.Perm(count)[:workerCrashes]
	slices.Sort(batches)
	var moments []int
	for _, batch := range batches {
		moments = append(moments, batch*changesPerBatch+1+random.IntN(changesPerBatch))
	}
	return moments
}

// killWorker kills and restarts the worker at each of those counts of changes of the replicas that are enforced on clusters.
func killWorker(t *testing.T, clusters []string, moments []int) {
	t.Helper()
	t.Logf("the worker is killed at the changes %v", moments)
	hub, err := client.NewWithWatch(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	ofClusters := client.HasLabels{"policy.open-cluster-management.io/root-policy"}
	replicas, changes := policiesOnHub(), map[string]bool{}
	note := func(replica *unstructured.Unstructured) {
		if action, _, _ := unstructured.NestedString(replica.Object, "spec", "remediationAction"); action != "enforce" || !slices.Contains(clusters, replica.GetNamespace()) {
			return
		}
		compliant, _, _ := unstructured.NestedString(replica.Object, "status", "compliant")
		changes[client.ObjectKeyFromObject(replica).String()+" "+compliant] = true
	}
	require.NoError(t, hub.List(ctx, replicas, ofClusters))
	for i := range replicas.Items {
		note(&replicas.Items[i])
	}
	for event := range changesSince(ctx, t, replicas.GetResourceVersion(), func(ctx context.Context, options metav1.ListOptions) (watch.Interface, error) {
		return hub.Watch(ctx, policiesOnHub(), ofClusters, &client.ListOptions{Raw: &options})
	}) {
		replica, ok := event.Object.(*unstructured.Unstructured)
		require.True(t, ok, "%v", event.Object)
		note(replica)
		if len(changes) < moments[0] {
			continue
		}
		require.NoError(t, theFleet.Worker.Kill())
		require.NoError(t, theFleet.Worker.Start(t.Context()))
		if moments = moments[1:]; len(moments) == 0 {
			return
		}
	}
	t.Fatalf("the rollout ended before the changes %v: %d changes", moments, len(changes))
}

func policiesOnHub() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("policy.open-cluster-management.io/v1")
	list.SetKind("PolicyList")
	return list
}

// requireEnforcedOnceEach requires that a rollout has enforced each policy once on each cluster, on at most concurrency clusters at the same time,
// and enforces none at the end. It reads the audit log of the hub, which lacks a write whose answer was lost, and the enforcements of the propagator.
func requireEnforcedOnceEach(t *testing.T, enforcements []propagator.Enforcement, rollout string, concurrency int, clusters []string, policies ...string) {
	t.Helper()
	wanted, placed, enforced := map[string]int{}, map[string]int{}, map[string]int{}
	for _, policy := range policies {
		for _, cluster := range clusters {
			wanted[policy+" on "+cluster] = 1
		}
	}
	of := func(name string) string { return strings.Split(strings.TrimPrefix(name, rollout+"-"), "-")[0] }
	at := map[string][]string{}
	for _, placement := range fleet.Placements(devstacktest.AuditEvents(t, theFleet.Hub)) {
		if !strings.HasPrefix(placement.Name, rollout+"-") {
			continue
		}
		for _, cluster := range placement.Clusters {
			if !slices.Contains(at[placement.Name], cluster) {
				placed[of(placement.Name)+" on "+cluster]++
			}
		}
		at[placement.Name] = placement.Clusters
		together := map[string]bool{}
		for _, clusters := range at {
			for _, cluster := range clusters {
				together[cluster] = true
			}
		}
		require.LessOrEqual(t, len(together), concurrency, "%v", at)
	}
	require.NotEmpty(t, placed)
	for what, times := range placed {
		require.Equal(t, wanted[what], times, what)
	}
	for rule, clusters := range at {
		require.Empty(t, clusters, rule)
	}
	for _, enforcement := range enforcements {
		if enforcement.Began && slices.Contains(clusters, enforcement.Cluster) {
			enforced[strings.TrimPrefix(enforcement.Policy, "default.")+" on "+enforcement.Cluster]++
		}
	}
	require.Equal(t, wanted, enforced)
}

// withoutTimes returns a status without times and without the names of the objects of the rollout.
func withoutTimes(status ranv1.ClusterGroupUpgradeStatus) ranv1.ClusterGroupUpgradeStatus {
	status = *status.DeepCopy()
	status.SafeResourceNames, status.Status = nil, ranv1.RunStatus{CurrentBatch: status.Status.CurrentBatch}
	for i := range status.Conditions {
		status.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	for i := range status.Clusters {
		cluster := &status.Clusters[i]
		cluster.Since, cluster.StartedAt, cluster.CompletedAt = nil, nil, nil
	}
	return status
}

// The API server of the hub is killed during the first batch, and stops during the second. The clusters comply while it is down.
func TestAPolicyRolloutResumesAfterARestartOfTheHubAPIServer(t *testing.T) {
	alone(t)
	clusters := []string{"gate-1", "gate-2", "gate-3", "gate-4"}
	var released sync.Map // clusters that may comply
	hub := twoPoliciesTaking(t, func(cluster, policy string) time.Duration {
		if _, may := released.Load(cluster); !may && (cluster == "gate-1" || cluster == "gate-3") {
			return -1
		}
		return complianceTime(cluster, policy)
	}, clusters...)
	startRollout(t, enforcing("restarts", 2, 60, clusters...))
	for _, fault := range []struct {
		cluster string
		end     func() error
	}{{"gate-1", theFleet.Hub.APIServer.Kill}, {"gate-3", theFleet.Hub.APIServer.Stop}} {
		require.Eventually(t, func() bool { return len(hub.Enforced()[fault.cluster]) > 0 }, stateLimit, 10*time.Millisecond, fault.cluster)
		require.NoError(t, fault.end())
		released.Store(fault.cluster, true)
		hub.Evaluate()
		require.NoError(t, theFleet.Hub.APIServer.Start(t.Context()))
	}
	status, code := awaitEnd(t, "restarts")

	require.Zero(t, code, "%v", status.Conditions)
	requireSucceeded(t, status)
	require.EqualValues(t, len(clusters), status.Counts.Complete)
	requireEnforcedOnceEach(t, hub.Enforcements(), "restarts", 2, clusters, "base", "apps")
	requireNothingEnforced(t, hub)
	requireNoHubObjects(t, "restarts")
}
