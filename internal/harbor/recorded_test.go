package harbor_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
)

func TestTheRecordOfAManagedHarborClusterCompletesItsObjects(t *testing.T) {
	read := harbor.Failure{Reason: harbor.ReasonCRDMissing, Message: "no Tenant"}
	observed := harbor.Observed{Failures: map[goharborv1.ConditionType]harbor.Failure{goharborv1.StorageReady: read}}
	condition := func(kind goharborv1.ConditionType, generation int64, reason, message string) goharborv1.HarborClusterCondition {
		return goharborv1.HarborClusterCondition{Type: kind, ObservedGeneration: generation, Reason: reason, Message: message}
	}
	hc := &goharborv1.HarborCluster{
		ObjectMeta: metav1.ObjectMeta{Generation: 2},
		Status: goharborv1.HarborClusterStatus{Conditions: []goharborv1.HarborClusterCondition{
			condition(goharborv1.DatabaseReady, 1, harbor.ReasonReady, "is Running"),
			condition(goharborv1.CacheReady, 2, harbor.ReasonApplyFailed, "refused"),
			condition(goharborv1.StorageReady, 2, harbor.ReasonApplyFailed, "refused"),
			condition(goharborv1.ServiceReady, 2, harbor.ReasonNotApplied, "not applied yet: the spec has changed"),
		}},
	}
	require.Equal(t, observed, harbor.Recorded(hc, observed), "nothing is known of an object that Drydock does not manage")

	hc.Finalizers = []string{harbor.Finalizer}
	recorded := harbor.Recorded(hc, observed)
	require.Equal(t, map[goharborv1.ConditionType]string{
		goharborv1.DatabaseReady: "generation 2 is not observed yet", goharborv1.ServiceReady: "the spec has changed",
	}, recorded.Unapplied)
	require.Equal(t, map[goharborv1.ConditionType]harbor.Failure{
		goharborv1.CacheReady: {Reason: harbor.ReasonApplyFailed, Message: "refused"}, goharborv1.StorageReady: read,
	}, recorded.Failures)
}

func TestAHarborClusterStaysUnmanagedUntilItIsEdited(t *testing.T) {
	hc := &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Generation: 3}}
	for value, unmanaged := range map[string]bool{"": false, "2": false, "3": true, "true": true} {
		hc.Annotations = map[string]string{harbor.AnnotationUnmanaged: value}
		require.Equal(t, unmanaged, harbor.Unmanaged(hc), value)
	}
}
