package fleet

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestOnlyWhatHadAnEffectIsADeedAndAWithdrawalThatMayHaveHadOne(t *testing.T) {
	for _, tt := range []struct {
		name, verb, resource string
		code                 int32
		want                 string
	}{
		{"a withdrawal", "delete", "nodemaintenancerequests", http.StatusOK, DeedWithdrawNode},
		{"a withdrawal whose asker was cut off", "delete", "nodemaintenancerequests", http.StatusGatewayTimeout, DeedWithdrawNode},
		{"the like of the cluster's", "delete", "clustermaintenancerequests", http.StatusGatewayTimeout, DeedWithdrawCluster},
		{"a withdrawal that was refused", "delete", "nodemaintenancerequests", http.StatusConflict, ""},
		{"any other request whose asker was cut off", "delete", "nodes", http.StatusGatewayTimeout, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			deeds := DeedsOf([]auditv1.Event{{
				Stage: auditv1.StageResponseComplete, Verb: tt.verb,
				ObjectRef:      &auditv1.ObjectReference{Resource: tt.resource, Name: "x"},
				ResponseStatus: &metav1.Status{Code: tt.code},
			}})
			if tt.want == "" {
				require.Empty(t, deeds)
				return
			}
			require.Len(t, deeds, 1)
			require.Equal(t, tt.want, deeds[0].What)
		})
	}
}
