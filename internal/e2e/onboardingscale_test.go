package e2e

import (
	"cmp"
	"fmt"
	"maps"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// All clusters become Available in one go, each with two policies of different waves.
func TestManyNewClustersGetTheirPoliciesAtOnce(t *testing.T) {
	alone(t)
	many := size(200, 20)
	simulated, err := propagator.Start(t.Context(), theFleet.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration { return time.Second }})
	require.NoError(t, err)
	t.Cleanup(simulated.Stop)
	var names []string
	for i := range many {
		names = append(names, fmt.Sprintf("raft-%04d", i))
		register(t, names[i], nil)
	}
	for name, wave := range map[string]string{"apps": "10", "base": "2"} {
		createOnHub(t, informPolicy(name, fmt.Sprintf("ran.openshift.io/ztp-deploy-wave: %q", wave), names...))
	}
	awaitNonCompliant(t, many, "apps", "base")
	defer onboard(t)()
	hub := hubClient(t)
	before, began := len(devstacktest.AuditEvents(t, theFleet.Hub)), time.Now()
	var writes errgroup.Group
	writes.SetLimit(50)
	for _, name := range names {
		writes.Go(func() error {
			managed := &unstructured.Unstructured{}
			managed.SetGroupVersionKind(managedClusters)
			managed.SetName(name)
			return hub.Status().Patch(t.Context(), managed, isAvailable)
		})
	}
	require.NoError(t, writes.Wait())
	awaitOnboarded(t, "raft-", many)
	t.Logf("%d clusters were onboarded within %s; the worker: %s of memory; %s", many, time.Since(began).Round(100*time.Millisecond),
		peakMemory(t, theFleet.Worker.PID()), requestsOfWorkers(devstacktest.AuditEvents(t, theFleet.Hub)[before:], many))

	order := map[string][]string{}
	for _, enforcement := range simulated.Enforcements() {
		if enforcement.Began {
			order[enforcement.Cluster] = append(order[enforcement.Cluster], enforcement.Policy)
		}
	}
	for _, name := range names {
		require.Equal(t, []string{"default.base", "default.apps"}, order[name], "%s gets each policy once, in the order of the waves", name)
	}
	requireNothingEnforced(t, simulated)
	require.Eventually(t, func() bool { return onboardingStatus(t).Onboarded == many }, stateLimit, 200*time.Millisecond)
}

// requestsOfWorkers summarizes the requests of Drydock's accounts to a cluster.
func requestsOfWorkers(events []auditv1.Event, clusters int) string {
	counts, all := map[string]int{}, 0
	for _, event := range events {
		if event.Stage == auditv1.StageResponseComplete && event.ObjectRef != nil && strings.HasPrefix(event.User.Username, "system:serviceaccount:drydock-system:") {
			counts[event.Verb+" "+event.ObjectRef.Resource+strings.TrimSuffix("/"+event.ObjectRef.Subresource, "/")]++
			all++
		}
	}
	most := slices.SortedFunc(maps.Keys(counts), func(a, b string) int { return cmp.Compare(counts[b], counts[a]) })
	text := fmt.Sprintf("%.1f requests for each cluster", float64(all)/float64(clusters))
	for _, request := range most[:min(len(most), 12)] {
		text += fmt.Sprintf(", %s %.1f", request, float64(counts[request])/float64(clusters))
	}
	return text
}

// peakMemory is the largest resident memory of a process so far.
func peakMemory(t *testing.T, pid int) string {
	t.Helper()
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	require.NoError(t, err)
	_, after, _ := strings.Cut(string(status), "VmHWM:")
	peak, _, _ := strings.Cut(after, "\n")
	return strings.TrimSpace(peak)
}
