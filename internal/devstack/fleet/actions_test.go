package fleet

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestOnlyRequestsWithAnEffectAreActions(t *testing.T) {
	for _, tt := range []struct {
		name, verb, resource string
		code                 int32
		want                 string
	}{
		{"a withdrawal", "delete", "nodemaintenancerequests", http.StatusOK, ActionWithdrawNode},
		{"a withdrawal whose client disconnected", "delete", "nodemaintenancerequests", http.StatusGatewayTimeout, ActionWithdrawNode},
		{"a withdrawal for a cluster whose client disconnected", "delete", "clustermaintenancerequests", http.StatusGatewayTimeout, ActionWithdrawCluster},
		{"a refused withdrawal", "delete", "nodemaintenancerequests", http.StatusConflict, ""},
		{"another request whose client disconnected", "delete", "nodes", http.StatusGatewayTimeout, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			actions := ActionsOf([]auditv1.Event{{
				Stage: auditv1.StageResponseComplete, Verb: tt.verb,
				ObjectRef:      &auditv1.ObjectReference{Resource: tt.resource, Name: "x"},
				ResponseStatus: &metav1.Status{Code: tt.code},
			}})
			if tt.want == "" {
				require.Empty(t, actions)
				return
			}
			require.Len(t, actions, 1)
			require.Equal(t, tt.want, actions[0].What)
		})
	}
}

func TestObjectsOfAHarborAreKnownAndItsJobIsNotNodeWork(t *testing.T) {
	for _, tt := range []struct{ name, verb, group, resource, subresource, body, want string }{
		{"a service", "patch", "acid.zalan.do", "postgresqls", "", "", ""},
		{"an update of a service", "update", "acid.zalan.do", "postgresqls", "", "", ActionForeign},
		{"the Secret of a password", "create", "", "secrets", "", "", ""},
		{"a collection of claims", "deletecollection", "", "persistentvolumeclaims", "", "", ""},
		{"one claim", "delete", "", "persistentvolumeclaims", "", "", ActionForeign},
		{"the status of a HarborCluster", "update", "goharbor.io", "harborclusters", "status", "", ""},
		{"the status of a service", "update", "acid.zalan.do", "postgresqls", "status", "", ActionForeign},
		{"the status of a request", "patch", "maintenance.nvidia.com", "nodemaintenances", "status", `{"status":{"state":"Ready"}}`, ""},
		{"the finalizer of a request", "patch", "maintenance.nvidia.com", "nodemaintenances", "", `{"metadata":{"finalizers":["drydock.dev/cleanup"]}}`, ""},
		{"the spec of a request", "patch", "maintenance.nvidia.com", "nodemaintenances", "", `{"spec":{"cordon":false}}`, ActionForeign},
		{"the Job that creates the bucket", "create", "batch", "jobs", "", `{"metadata":{"labels":{"goharbor.io/harbor-cluster":"main"}}}`, ""},
		{"a Job on a node", "create", "batch", "jobs", "", `{}`, ActionJob},
	} {
		t.Run(tt.name, func(t *testing.T) {
			event := auditv1.Event{
				Stage: auditv1.StageResponseComplete, Verb: tt.verb,
				ObjectRef:      &auditv1.ObjectReference{APIGroup: tt.group, Resource: tt.resource, Subresource: tt.subresource, Namespace: "registry", Name: "x"},
				ResponseStatus: &metav1.Status{Code: http.StatusOK},
			}
			event.User.Username = drydockAccounts + initiatorAccount
			if tt.body != "" {
				event.RequestObject = &runtime.Unknown{Raw: []byte(tt.body)}
			}
			actions := ActionsOf([]auditv1.Event{event})
			if tt.want == "" {
				require.Empty(t, actions)
				return
			}
			require.Len(t, actions, 1)
			require.Equal(t, tt.want, actions[0].What)
		})
	}
}
