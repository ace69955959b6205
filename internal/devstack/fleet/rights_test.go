package fleet

import (
	"net/http"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
)

func TestEachShippedRightIsUsedOrNamed(t *testing.T) {
	granted, err := GrantedRights()
	require.NoError(t, err)
	require.Contains(t, granted, Right{initiatorAccount, "patch", "nodes"})
	require.Contains(t, granted, Right{initiatorAccount, "create", "pods/eviction"})
	require.Contains(t, granted, Right{hubAccount, "create", "policies.policy.open-cluster-management.io"})
	require.Empty(t, CompareRights(granted, granted))

	without := slices.DeleteFunc(slices.Clone(granted), func(r Right) bool { return r == Right{initiatorAccount, "patch", "nodes"} })
	require.Equal(t, []string{`no test uses the right "drydock-initiator: patch nodes" of deploy/rbac: remove it, or add it to fleet.UsedByActivities`}, CompareRights(granted, without))
	removed := slices.DeleteFunc(slices.Clone(granted), func(r Right) bool { return r == Right{hubAccount, "get", "components.sreportal.io"} })
	require.Equal(t, []string{`deploy/rbac does not grant the right "drydock-hub: get components.sreportal.io" of fleet.UsedByActivities`}, CompareRights(removed, removed))
}

func TestRightsAreReadFromTheAuditLog(t *testing.T) {
	event := func(user, verb, resource, subresource string, code int32) auditv1.Event {
		e := auditv1.Event{Verb: verb, ObjectRef: &auditv1.ObjectReference{APIGroup: "batch", Resource: resource, Subresource: subresource}, ResponseStatus: &metav1.Status{Code: code}}
		e.User.Username = user
		return e
	}
	ours := drydockAccounts + initiatorAccount
	require.Equal(t, []Right{
		{initiatorAccount, "create", "jobs.batch"},
		{initiatorAccount, "list", "jobs.batch"},
		{initiatorAccount, "patch", "jobs.batch"},
		{initiatorAccount, "watch", "jobs.batch"},
		{initiatorAccount, "patch", "jobs.batch/status"},
	}, UsedRights([]auditv1.Event{
		event(ours, "watch", "jobs", "", http.StatusOK), event(ours, "patch", "jobs", "", http.StatusCreated), event(ours, "patch", "jobs", "status", http.StatusOK),
		event(ours, "delete", "jobs", "", http.StatusForbidden), event("kwok", "update", "jobs", "", http.StatusOK),
	}))
}
