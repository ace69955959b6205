package chaos

import (
	"context"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/chaos/invariants"
	"drydock.dev/drydock/internal/devstack/propagator"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// onboardings are scenarios in which a fault hits the onboarding of a new cluster.
func onboardings() []scenario {
	return []scenario{
		{name: "the worker is killed while a new cluster gets its policies", run: faultDuringOnboarding(func(t *testing.T, s *scenarioRun, _ client.Client, _ string) {
			require.NoError(t, s.Worker.Kill())
			require.NoError(t, s.Worker.Start(t.Context()))
		})},
		{name: "the worker stops while a new cluster gets its policies", run: faultDuringOnboarding(func(t *testing.T, s *scenarioRun, _ client.Client, _ string) {
			s.restartWorker(t)
		})},
		{name: "the API server of the hub restarts while a new cluster gets its policies", run: faultDuringOnboarding(func(t *testing.T, s *scenarioRun, _ client.Client, _ string) {
			require.NoError(t, s.Hub.APIServer.Kill())
			require.NoError(t, s.Hub.APIServer.Start(t.Context()))
		})},
		{name: "the object of a new cluster is deleted while the worker is down", run: faultDuringOnboarding(func(t *testing.T, s *scenarioRun, hub client.Client, cluster string) {
			require.NoError(t, s.Worker.Stop())
			require.NoError(t, hub.Delete(t.Context(), onboardingObject(cluster)))
			require.NoError(t, s.Worker.Start(t.Context()))
		})},
	}
}

// onboardingObject names the object of the rollout of a new cluster.
func onboardingObject(cluster string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetGroupVersionKind(ranv1.GroupVersion.WithKind("ClusterGroupUpgrade"))
	object.SetNamespace(rollout.OnboardingNamespace)
	object.SetName(cluster)
	return object
}

// readObject returns the error of a read of that object.
func readObject(t *testing.T, hub client.Client, cluster string) error {
	object := onboardingObject(cluster)
	return hub.Get(t.Context(), client.ObjectKeyFromObject(object), object)
}

// faultDuringOnboarding: a new cluster does not comply with its policy until the fault is over. It is then onboarded, and nothing is enforced.
func faultDuringOnboarding(fault func(*testing.T, *scenarioRun, client.Client, string)) func(*testing.T, *scenarioRun) {
	return func(t *testing.T, s *scenarioRun) {
		cluster := s.name + "-new"
		hub := objectClient(t, s.Hub)
		registered := &unstructured.Unstructured{}
		registered.SetGroupVersionKind(policies.ManagedClusters)
		registered.SetName(cluster)
		registered.SetLabels(map[string]string{policies.LabelName: cluster})
		require.NoError(t, hub.Create(t.Context(), registered))
		t.Cleanup(func() { require.NoError(t, client.IgnoreNotFound(hub.Delete(context.Background(), registered))) })
		s.createOnHub(t, "testdata/newcluster.yaml", cluster)
		var compliant atomic.Bool
		simulated, err := propagator.Start(t.Context(), s.Hub.Config, propagator.Options{Takes: func(string, string) time.Duration {
			if compliant.Load() {
				return 0
			}
			return -1
		}})
		require.NoError(t, err)
		t.Cleanup(simulated.Stop)
		s.awaitComplianceStatus(t, s.name+"-base")
		s.drydock(t, "onboarding", "start")
		t.Cleanup(func() {
			_ = s.temporal.SignalWorkflow(context.Background(), temporal.OnboardingID, "", temporal.SignalCancel, nil)
		}) // it may be closed
		available := client.RawPatch(types.MergePatchType, []byte(`{"status":{"conditions":[{"type":"ManagedClusterConditionAvailable","status":"True","reason":"Test","message":"","lastTransitionTime":"2026-01-10T12:00:00Z"}]}}`))
		require.NoError(t, hub.Status().Patch(t.Context(), registered, available))
		require.Eventually(t, func() bool { return len(simulated.Enforced()[cluster]) > 0 }, waitLimit, 20*time.Millisecond, "the policy is enforced")

		fault(t, s, hub, cluster)
		require.EventuallyWithT(t, func(c *assert.CollectT) { // after the fault there may be another rollout
			assert.NotEmpty(c, simulated.Enforced()[cluster])
			assert.NoError(c, readObject(t, hub, cluster))
		}, waitLimit, 100*time.Millisecond)
		compliant.Store(true)
		simulated.Evaluate()
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			if assert.NoError(c, hub.Get(t.Context(), client.ObjectKeyFromObject(registered), registered)) {
				assert.Contains(c, registered.GetLabels(), "ztp-done")
				assert.NotContains(c, registered.GetLabels(), "ztp-running")
			}
		}, waitLimit, 100*time.Millisecond)
		require.Eventually(t, func() bool { return len(simulated.Enforced()) == 0 }, waitLimit, 20*time.Millisecond)

		s.drydock(t, "onboarding", "stop")
		s.awaitOnboardingOver(t, cluster)
		require.NoError(t, hub.Delete(t.Context(), registered))
		require.NoError(t, client.IgnoreNotFound(hub.Delete(t.Context(), onboardingObject(cluster))))
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(readObject(t, hub, cluster))
		}, waitLimit, 100*time.Millisecond, "the object is not released")
		violations := append(s.checkRuns(t, temporal.ClusterGroupUpgradeID(rollout.OnboardingNamespace, cluster), invariants.History),
			s.checkRuns(t, temporal.OnboardingID, invariants.Tasks)...)
		require.Empty(t, violations, strings.Join(violations, "\n"))
	}
}

// awaitOnboardingOver waits until the onboarding and the rollouts of a cluster are closed.
func (s *scenarioRun) awaitOnboardingOver(t *testing.T, cluster string) {
	t.Helper()
	for _, id := range []string{temporal.OnboardingID, temporal.ClusterGroupUpgradeID(rollout.OnboardingNamespace, cluster)} {
		require.Eventually(t, func() bool {
			described, err := s.temporal.DescribeWorkflowExecution(t.Context(), id, "")
			return err == nil && described.GetWorkflowExecutionInfo().GetCloseTime() != nil
		}, waitLimit, 100*time.Millisecond, "%s does not end", id)
	}
}
