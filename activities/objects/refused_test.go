package objects_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	admissionv1 "k8s.io/api/admissionregistration/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/objects"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// refuseStatusOf lets the API server refuse status writes of one NodeMaintenance until the returned function is called, or the test ends.
func refuseStatusOf(t *testing.T, name string) (accept func()) {
	t.Helper()
	c := activitytest.BareCluster(t).Client
	policy := &admissionv1.ValidatingAdmissionPolicy{
		ObjectMeta: metav1.ObjectMeta{Name: "refuse-" + name},
		Spec: admissionv1.ValidatingAdmissionPolicySpec{
			MatchConstraints: &admissionv1.MatchResources{ResourceRules: []admissionv1.NamedRuleWithOperations{{RuleWithOperations: admissionv1.RuleWithOperations{
				Operations: []admissionv1.OperationType{admissionv1.Update},
				Rule: admissionv1.Rule{
					APIGroups: []string{maintenancev1.GroupVersion.Group}, APIVersions: []string{"*"}, Resources: []string{"nodemaintenances/status"},
				},
			}}}},
			Validations: []admissionv1.Validation{{Expression: "object.metadata.name != '" + name + "'", Message: "no status today"}},
		},
	}
	binding := &admissionv1.ValidatingAdmissionPolicyBinding{
		ObjectMeta: policy.ObjectMeta,
		Spec: admissionv1.ValidatingAdmissionPolicyBindingSpec{
			PolicyName: policy.Name, ValidationActions: []admissionv1.ValidationAction{admissionv1.Deny},
		},
	}
	for _, object := range []client.Object{policy, binding} {
		require.NoError(t, c.Create(t.Context(), object))
		t.Cleanup(func() { _ = c.Delete(context.Background(), object) })
	}
	return func() { require.NoError(t, c.Delete(t.Context(), binding)) }
}

// The API server begins and ends to refuse a moment after the policy changes.
const policyTimeout = activitytest.EventTimeout

func statusIn(of temporal.Object, state maintenancev1.NodeState) objects.PublishStatusInput {
	return objects.PublishStatusInput{Object: of, Status: maintenancev1.NodeMaintenanceStatus{State: state}}
}

func TestARefusedStatusDoesNotAffectOthersAndIsWrittenLater(t *testing.T) {
	a := &objects.Activities{Clusters: activitytest.Clusters}
	refused, ofRefused := request(t, "status-refused")
	other, ofOther := request(t, "status-accepted")
	_, ofGone := request(t, "status-of-another")
	ofGone.UID = "3f9d1b62-0c1a-4a55-9f5e-2f8f3a9c7d10"
	accept := refuseStatusOf(t, refused.Name)
	var results []objects.PublishedStatus
	write := func(state maintenancev1.NodeState) bool {
		var err error
		results, err = a.PublishStatuses(t.Context(), []objects.PublishStatusInput{statusIn(ofRefused, state), statusIn(ofGone, state), statusIn(ofOther, state)})
		return err == nil && results[0].Error == ""
	}
	require.Eventually(t, func() bool {
		return !write(maintenancev1.NodePending) && len(results) > 0 && strings.Contains(results[0].Error, "no status today")
	}, policyTimeout, 20*time.Millisecond)
	before := read(t, refused).Status.State
	require.False(t, write(maintenancev1.NodeDraining))
	require.Contains(t, results[0].Error, "no status today")
	require.Equal(t, []objects.PublishedStatus{{Gone: true}, {}}, results[1:])
	require.Equal(t, maintenancev1.NodeDraining, read(t, other).Status.State)
	require.Equal(t, before, read(t, refused).Status.State)

	_, err := a.PublishStatus(t.Context(), statusIn(ofRefused, maintenancev1.NodeDraining))
	require.ErrorContains(t, err, "no status today")
	require.False(t, temporal.Final(err), "the workflow retries")
	accept()
	require.Eventually(t, func() bool { return write(maintenancev1.NodeReady) }, policyTimeout, 20*time.Millisecond)
	require.Equal(t, maintenancev1.NodeReady, read(t, refused).Status.State, "the last status is written")
}
