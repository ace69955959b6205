package policies

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
)

// await waits in the background until the compliance of all these clusters has changed.
func (s *policyScene) await(known ...policies.KnownCluster) <-chan []policies.ClusterCompliance {
	changes := make(chan []policies.ClusterCompliance, 1)
	go func() {
		found, err := s.activities.AwaitCompliance(s.t.Context(), AwaitComplianceInput{Enforced: Enforced{Rollout: s.rollout}, Clusters: known, Gather: time.Hour})
		assert.NoError(s.t, err)
		changes <- found
	}()
	return changes
}

func (s *policyScene) requireChanges(changes <-chan []policies.ClusterCompliance, want ...policies.ClusterCompliance) {
	s.t.Helper()
	select {
	case found := <-changes:
		require.Equal(s.t, want, found)
	case <-time.After(activitytest.EventTimeout):
		require.Fail(s.t, "no change")
	}
}

func TestComplianceIsReportedInBulkWhenItChanges(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	one, two, three := s.clusters[0], s.clusters[1], s.clusters[2]
	s.requireChanges(s.await(policies.KnownCluster{Cluster: one}, policies.KnownCluster{Cluster: two}),
		policies.ClusterCompliance{Cluster: one, Status: "NN"}, policies.ClusterCompliance{Cluster: two, Status: "NN"})

	changes := s.await(policies.KnownCluster{Cluster: one, Status: "NN"}, policies.KnownCluster{Cluster: two, Status: "NN"})
	s.prepare()
	s.place(0, one, two)
	s.requireChanges(changes, policies.ClusterCompliance{Cluster: one, Status: "CN"}, policies.ClusterCompliance{Cluster: two, Status: "CN"})

	changed, err := s.activities.AwaitCompliance(t.Context(), AwaitComplianceInput{
		Enforced: Enforced{Rollout: s.rollout}, Clusters: []policies.KnownCluster{{Cluster: one, Status: "NN"}, {Cluster: three, Status: "NN"}}, Gather: 20 * time.Millisecond,
	})
	require.NoError(t, err)
	require.Equal(t, []policies.ClusterCompliance{{Cluster: one, Status: "CN"}}, changed, "others are not awaited longer than that")
}

func TestAShortRelapseIsReported(t *testing.T) {
	s := newPolicyScene(t, byCopy, func(string, string) time.Duration { return 50 * time.Millisecond })
	s.prepare()
	s.place(0, s.clusters[0])
	s.awaitCompliance("CN", s.clusters[0])
	changes := s.relapse(t.Context())
	s.awaitCompliance("CN", s.clusters[0])
	s.place(0, s.clusters[:2]...) // the last change that it waits for
	s.requireChanges(changes, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "CN", Relapsed: true}, policies.ClusterCompliance{Cluster: s.clusters[1], Status: "CN"})
}

func TestAWatchThatEndsBeforeItsReportDoesNotLoseARelapse(t *testing.T) {
	s := newPolicyScene(t, byCopy, func(string, string) time.Duration { return 50 * time.Millisecond })
	s.prepare()
	s.place(0, s.clusters[0])
	s.awaitCompliance("CN", s.clusters[0])
	watching, stop := context.WithCancel(t.Context())
	changes := s.relapse(watching)
	require.Empty(t, changes)
	stop()
	found := <-changes
	require.Len(t, found, 1)
	require.True(t, found[0].Relapsed)
}

// relapse waits in the background for a change of the first two clusters, and returns when it has observed a relapse of the first one and its end.
func (s *policyScene) relapse(ctx context.Context) <-chan []policies.ClusterCompliance {
	s.t.Helper()
	reader, err := s.activities.reader(s.t.Context(), Enforced{Rollout: s.rollout})
	require.NoError(s.t, err)
	seen, looked, over := "", make(chan struct{}), make(chan struct{})
	judge := reader.Judge
	reader.Judge = func(item int, replica *unstructured.Unstructured) (policies.Compliance, time.Time) {
		compliance, settles := judge(item, replica)
		if replica == nil || replica.GetNamespace() != s.clusters[0] || replica.GetName() != reader.Names[0] {
			return compliance, settles
		}
		switch {
		case compliance == policies.Compliant && seen == "":
			seen = "C"
			close(looked)
		case compliance != policies.Compliant && seen == "C":
			seen = "CN"
		case compliance == policies.Compliant && seen == "CN":
			seen = "CNC"
			close(over)
		}
		return compliance, settles
	}
	relapsed := make(chan []policies.ClusterCompliance, 1)
	go func() {
		found, err := reader.Await(ctx, []policies.KnownCluster{{Cluster: s.clusters[0], Status: "CN"}, {Cluster: s.clusters[1], Status: "NN"}}, time.Hour)
		assert.NoError(s.t, err)
		relapsed <- found
	}()
	<-looked
	for pause := 300 * time.Millisecond; pause < activitytest.EventTimeout; pause *= 2 { // a relapse between two reads is not observed
		s.propagator.Drift(s.clusters[0], s.rollout.Namespace, "kernel")
		select {
		case <-over:
			return relapsed
		case <-time.After(pause):
		}
	}
	require.Fail(s.t, "no relapse was observed")
	return nil
}

func TestUnboundClustersAndDeletedPoliciesAreReported(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	changes := s.await(policies.KnownCluster{Cluster: s.clusters[0], Status: "NN"}, policies.KnownCluster{Cluster: s.clusters[1], Status: "NN"})
	policy := &unstructured.Unstructured{}
	policy.SetGroupVersionKind(policies.Policies)
	policy.SetNamespace(s.rollout.Namespace)
	policy.SetName("network")
	require.NoError(t, s.hub.Client.Delete(t.Context(), policy))
	s.requireChanges(changes, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "N-"}, policies.ClusterCompliance{Cluster: s.clusters[1], Status: "N-"})
	require.Equal(t, policies.ComplianceStatus("N-"), s.compliance(s.clusters[2])[s.clusters[2]])
}

// The propagator stops, so that no report follows.
func TestAReportThatIsOlderThanThePolicyDoesNotCount(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.prepare()
	s.place(0, s.clusters[0])
	s.awaitCompliance("CN", s.clusters[0])
	s.propagator.Stop()
	changes := s.await(policies.KnownCluster{Cluster: s.clusters[0], Status: "CN"})
	s.evaluatedAt(s.clusters[0], time.Now().Add(-time.Hour))
	s.requireChanges(changes, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "ON", Relapsed: true})
	require.Equal(t, policies.ComplianceStatus("ON"), s.compliance(s.clusters[0])[s.clusters[0]])

	changes = s.await(policies.KnownCluster{Cluster: s.clusters[0], Status: "ON"})
	s.evaluatedAt(s.clusters[0], time.Now())
	s.requireChanges(changes, policies.ClusterCompliance{Cluster: s.clusters[0], Status: "CN"})

	read, err := s.activities.ReadCompliance(t.Context(), ReadComplianceInput{
		Enforced: Enforced{Rollout: s.rollout, Specified: []time.Time{time.Now().Add(time.Minute)}}, Clusters: s.clusters[:1],
	})
	require.NoError(t, err)
	require.Equal(t, policies.ComplianceStatus("ON"), read[0].Status, "the policy was changed, and is not propagated yet")
}

// The template did not change, so its agent reports nothing. The report then counts after a while, unless the cluster is not available.
func TestAnOldReportOfAnAvailableClusterCountsOnceItHasSettled(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.prepare()
	s.place(0, s.clusters[0])
	s.awaitCompliance("CN", s.clusters[0])
	s.propagator.Stop()
	s.evaluatedAt(s.clusters[0], time.Now().Add(-time.Hour))
	reader, err := s.activities.reader(t.Context(), Enforced{Rollout: s.rollout})
	require.NoError(t, err)
	settled := time.Now().Add(policies.Settle)
	readAt := func(now time.Time) policies.ComplianceStatus {
		reader.Now = func() time.Time { return now }
		read, err := reader.Read(t.Context(), s.clusters[:1])
		require.NoError(t, err)
		return read[0].Status
	}
	require.Equal(t, policies.ComplianceStatus("ON"), readAt(settled), "nothing tells that the cluster is available")
	activitytest.SetAvailable(t, s.clusters[0], "True")
	require.Equal(t, policies.ComplianceStatus("CN"), readAt(settled))
	require.Equal(t, policies.ComplianceStatus("ON"), readAt(time.Now()))

	// The watch looks again without a change on the hub.
	began := time.Now()
	reader.Now = func() time.Time { return settled.Add(time.Since(began) - 2*time.Second) }
	seen, err := reader.Await(t.Context(), []policies.KnownCluster{{Cluster: s.clusters[0], Status: "ON"}}, 0)
	require.NoError(t, err)
	require.Equal(t, []policies.ClusterCompliance{{Cluster: s.clusters[0], Status: "CN"}}, seen)
}

// The hub has a replica for each cluster and policy.
func TestCachedReplicasAreTrimmed(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.prepare()
	s.place(0, s.clusters...)
	s.awaitCompliance("CN", s.clusters...)
	hub, err := activitytest.Clusters.Hub(t.Context())
	require.NoError(t, err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(policies.Policies)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.NoError(c, hub.Cache.List(t.Context(), list, client.InNamespace(s.clusters[0])))
		assert.Len(c, list.Items, 2, "without root policies and replicas of copies")
	}, activitytest.EventTimeout, 20*time.Millisecond)
	for _, replica := range list.Items {
		require.NotContains(t, replica.Object, "spec")
		require.Empty(t, replica.GetLabels())
		require.True(t, slices.Contains([]string{s.rollout.Policies[0].Replica(), s.rollout.Policies[1].Replica()}, replica.GetName()))
	}
}

// countedWatches counts the opened watches of policies.
type countedWatches struct {
	next   http.RoundTripper
	opened *atomic.Int32
}

func (c countedWatches) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.URL.Query().Has("watch") && strings.Contains(request.URL.Path, "/"+policies.Policies.Group+"/") {
		c.opened.Add(1)
	}
	return c.next.RoundTrip(request)
}

func TestWaitsForComplianceShareOneWatch(t *testing.T) {
	s := newPolicyScene(t, byCopy, nil)
	s.prepare()
	var opened atomic.Int32
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.HubName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper { return countedWatches{next, &opened} })
	counted := kube.New(kube.FromConfigs(config, nil), kube.Options{})
	t.Cleanup(counted.Close)
	var waits errgroup.Group
	for _, cluster := range s.clusters {
		for policy := range s.rollout.Policies {
			waits.Go(func() error {
				_, err := (&Activities{Clusters: counted}).AwaitCompliance(t.Context(), AwaitComplianceInput{
					Enforced: Enforced{Rollout: s.rollout}, Clusters: []policies.KnownCluster{{Cluster: cluster, Status: "NN", Policy: policy}},
				})
				return err
			})
		}
	}
	s.enforce(policies.DesiredPlacement{Item: 0, Clusters: s.clusters}, policies.DesiredPlacement{Item: 1, Clusters: s.clusters})
	require.NoError(t, waits.Wait())
	require.EqualValues(t, 3, opened.Load(), "one watch for all waits: of replicas, of bindings, and of the metadata of copies")
}

func TestARelapseOfACompleteClusterIsFoundAndAwaited(t *testing.T) {
	s := newPolicyScene(t, byCopy, func(string, string) time.Duration { return 50 * time.Millisecond })
	s.prepare()
	one, two := s.clusters[0], s.clusters[1]
	for policy, complies := range []policies.ComplianceStatus{"CN", "CC"} {
		s.place(policy, one, two)
		s.awaitCompliance(complies, one, two)
	}
	s.cleanUp() // so that nothing corrects the relapse
	in := ReadComplianceInput{Enforced: Enforced{Rollout: s.rollout}, Clusters: []string{one, two}}
	found, err := s.activities.FindRelapses(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, found)

	relapses := make(chan []policies.ClusterCompliance, 1)
	go func() {
		seen, err := s.activities.AwaitRelapses(t.Context(), in)
		assert.NoError(t, err)
		relapses <- seen
	}()
	s.propagator.Drift(one, s.rollout.Namespace, "network")
	s.requireChanges(relapses, policies.ClusterCompliance{Cluster: one, Status: "CN"})
	found, err = s.activities.FindRelapses(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, []string{one}, found)
}

func TestAnUnboundPolicyIsNoRelapse(t *testing.T) {
	require.Equal(t, policies.NoItem, policies.ComplianceStatus("C-O").Relapsed(), "a policy that is no longer enforced is yet to be reported")
	require.Equal(t, 1, policies.ComplianceStatus("CPN").Relapsed())
	require.Equal(t, 0, policies.ComplianceStatus("U").Relapsed())
}
