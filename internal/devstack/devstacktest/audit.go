package devstacktest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/devstack"
)

// AuditEvents returns the audit log of a cluster. The API server may write an event shortly after its answer, so this sends a marker request and waits
// for its event: all earlier events are then in the log, too.
func AuditEvents(t testing.TB, cluster *devstack.Cluster) []auditv1.Event {
	t.Helper()
	marker := fmt.Sprintf("marker-%d", time.Now().UnixNano())
	_, err := cluster.Client.CoreV1().ConfigMaps("default").Get(t.Context(), marker, metav1.GetOptions{})
	require.Error(t, err)
	var events []auditv1.Event
	require.Eventually(t, func() bool {
		events, err = cluster.AuditEvents()
		if err != nil || len(events) == 0 {
			return false
		}
		return slices.ContainsFunc(events, func(e auditv1.Event) bool { return e.ObjectRef != nil && e.ObjectRef.Name == marker })
	}, 5*time.Minute, 20*time.Millisecond, "the audit log of %s does not have the marker request", cluster.Name)
	return events
}
