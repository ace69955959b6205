package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
)

// A maintenance of one node writes the cordon, the uncordon, and at most ten requests for conditions, locks and maintenance requests, in addition to
// evictions, its Job and Events.
func TestAMaintenanceWritesFewRequestsToTheAPIServer(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	withJob := rollout("writes-with-job", "", 10, spoke.Name)
	withoutJob, _, _ := strings.Cut(rollout("writes", "", 10, spoke.Name), "    action:")
	tests := []struct {
		name, manifest, rollout string
		states                  []string
	}{
		{"without a job", withoutJob, "writes", nil},
		{"with a job", withJob, "writes-with-job", []string{"JobStarted"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before := devstacktest.AuditEvents(t, spoke)
			startRollout(t, tt.manifest)
			_, code := awaitEnd(t, tt.rollout)
			require.Zero(t, code)
			require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
			all := devstacktest.AuditEvents(t, spoke)

			for _, node := range []string{"control-plane-1", "worker-1", "worker-2"} {
				writes := writesOn(all[len(before):], node)
				t.Logf("%s: %v", node, writes)
				require.Equal(t, 2, writes["patch nodes"], "the cordon and the uncordon: %v", writes)
				others := 0
				for what, count := range writes {
					if what != "patch nodes" && !strings.HasSuffix(what, " jobs") && !strings.HasSuffix(what, " events") {
						others += count
					}
				}
				require.LessOrEqual(t, others, 10, "%v", writes)
				requireEventsOnce(t, spoke, node, tt.rollout+"-"+node, append(tt.states, "Cordon", "Drained", "Ready", "Completed")...)
			}
		})
	}
}

// writesOn counts the successful writes of Drydock for a node, without evictions, by verb and resource.
func writesOn(events []auditv1.Event, node string) map[string]int {
	writes := map[string]int{}
	for _, event := range events {
		read := slices.Contains([]string{"get", "list", "watch"}, event.Verb)
		if read || event.ObjectRef == nil || !strings.HasPrefix(event.User.Username, "system:serviceaccount:drydock-system:") ||
			event.ResponseStatus.Code >= http.StatusBadRequest || !aboutNode(event, node) {
			continue
		}
		what := event.Verb + " " + event.ObjectRef.Resource
		if event.ObjectRef.Subresource != "" {
			what += "/" + event.ObjectRef.Subresource
		}
		writes[what]++
	}
	return writes
}

// aboutNode reports whether the name of an object contains the node: Drydock names objects after their node. A create has the name in its body.
func aboutNode(event auditv1.Event, node string) bool {
	if event.ObjectRef.Subresource == "eviction" {
		return false
	}
	name := event.ObjectRef.Name
	if name == "" && event.RequestObject != nil {
		name = string(event.RequestObject.Raw)
	}
	return strings.Contains(name, node)
}

// requireEventsOnce requires one Event of a maintenance for each of these states, at most one for the states that are not over at once on a busy machine, and none
// for others.
func requireEventsOnce(t *testing.T, spoke *devstack.Cluster, node, maintenance string, states ...string) {
	t.Helper()
	list, err := spoke.Client.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{
		FieldSelector: "involvedObject.kind=Node,involvedObject.name=" + node,
	})
	require.NoError(t, err)
	passing := map[string]int{"Draining": 0, "Scheduled": 0, "HealthChecks": 0, "CleaningUp": 0}
	var reasons []string
	for _, event := range list.Items {
		if !strings.Contains(event.Message, "/"+maintenance+")") {
			continue
		}
		require.Equal(t, corev1.EventTypeNormal, event.Type)
		if _, passes := passing[event.Reason]; passes {
			passing[event.Reason]++
			require.Equal(t, 1, passing[event.Reason], event.Reason)
			continue
		}
		reasons = append(reasons, event.Reason)
	}
	require.ElementsMatch(t, states, reasons)
}
