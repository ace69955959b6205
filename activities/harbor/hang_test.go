package harbor

import (
	"context"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/testsuite"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

// harborHangs has an admission webhook for the database that never answers. All other requests succeed.
func harborHangs(t *testing.T, simulated *operators.Operators) {
	r := newRegistry(t, simulated, "incluster.yaml")
	resume := r.hang()
	var reports activitytest.Signals
	var suite testsuite.WorkflowTestSuite
	environment := suite.NewTestActivityEnvironment()
	activities := &Activities{Clusters: r.clusters, Waits: activitykit.Waits{Temporal: &reports}}
	environment.RegisterActivity(activities.ApplyHarborPart)
	limit := applyTimeout
	t.Cleanup(func() { applyTimeout = limit })
	applyTimeout = 6 * time.Second // the wait is reported before
	hangs := "its API server answers, but not this within 6s, as when an admission webhook hangs: postgresql " + r.ref.Namespace + "/" + r.postgres()
	require.EventuallyWithT(t, func(c *assert.CollectT) { // a busy server may not answer the other requests in time
		_, err := environment.ExecuteActivity(activities.ApplyHarborPart, ApplyPartInput{Ref: r.ref, Due: harbor.Due{Part: harbor.PartDatabase}})
		assert.Equal(c, temporal.ErrInvalidSpec, temporal.ErrorType(err), "%v", err)
		assert.ErrorContains(c, err, hangs)
	}, activitytest.EventTimeout, 20*time.Millisecond)
	require.Equal(t, []string{harbor.ReasonApplying}, slices.Compact(reports.Reasons()), "the workflow does not wait for the hanging part")
	require.Equal(t, string(harbor.PartDatabase), reports.Observed[0].Part)

	r.until(func(s goharborv1.HarborClusterStatus) bool {
		condition := harbor.ConditionOf(s, goharborv1.DatabaseReady)
		return condition.Status == metav1.ConditionFalse && condition.Reason == harbor.ReasonApplyFailed && strings.Contains(condition.Message, "as when an admission webhook hangs")
	})
	applyTimeout = limit
	resume()
	r.untilIs(goharborv1.StatusHealthy)
}

// hang lets every write of the database hang until the returned function is called.
func (r *registry) hang() (resume func()) {
	r.t.Helper()
	var listening net.ListenConfig
	listener, err := listening.Listen(r.t.Context(), "tcp", "127.0.0.1:0")
	require.NoError(r.t, err)
	asked := make(chan struct{}, 1)
	go func() {
		var silent []net.Conn // keeps the connections open
		for {
			connection, err := listener.Accept()
			if err != nil {
				break
			}
			silent = append(silent, connection)
			select {
			case asked <- struct{}{}:
			default:
			}
		}
		for _, connection := range silent {
			_ = connection.Close()
		}
	}()
	url := "https://" + listener.Addr().String()
	webhook := &admissionv1.ValidatingWebhookConfiguration{
		ObjectMeta: metav1.ObjectMeta{Name: "hangs-" + r.ref.Namespace},
		Webhooks: []admissionv1.ValidatingWebhook{{
			Name: "hangs.example.org", ClientConfig: admissionv1.WebhookClientConfig{URL: &url},
			Rules: []admissionv1.RuleWithOperations{{
				Operations: []admissionv1.OperationType{admissionv1.Create, admissionv1.Update},
				Rule:       admissionv1.Rule{APIGroups: []string{harbor.Postgresql.Group}, APIVersions: []string{"*"}, Resources: []string{"postgresqls"}},
			}},
			NamespaceSelector:       &metav1.LabelSelector{MatchLabels: map[string]string{corev1.LabelMetadataName: r.ref.Namespace}},
			SideEffects:             new(admissionv1.SideEffectClassNone),
			AdmissionReviewVersions: []string{"v1"},
			TimeoutSeconds:          new(int32(30)),
		}},
	}
	resume = func() {
		require.NoError(r.t, client.IgnoreNotFound(r.cluster.Client.Delete(context.WithoutCancel(r.t.Context()), webhook.DeepCopy())))
		_ = listener.Close()
	}
	activitytest.Create(r.t, r.cluster, webhook.DeepCopy())
	r.t.Cleanup(resume)
	probe := harbor.Database(harborCluster(r.t, r.ref.Namespace)).Objects[0]
	probe.SetName("probe")
	require.Eventually(r.t, func() bool {
		ctx, cancel := context.WithTimeout(r.t.Context(), 5*time.Second)
		defer cancel()
		_ = r.cluster.Client.Create(ctx, probe.DeepCopy(), client.DryRunAll)
		select {
		case <-asked:
			return true
		default:
			return false
		}
	}, activitytest.EventTimeout, 20*time.Millisecond, "the webhook is not called")
	return resume
}
