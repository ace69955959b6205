package policies_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/internal/policies"
)

func TestAReplicaHasTheComplianceOfItsCluster(t *testing.T) {
	replica := func(status map[string]any) *unstructured.Unstructured {
		return &unstructured.Unstructured{Object: map[string]any{
			"metadata": map[string]any{"namespace": "c1", "name": "policies.p1", "labels": map[string]any{policies.LabelRoot: "policies.p1"}},
			"spec":     map[string]any{"policy-templates": []any{}}, "status": status,
		}}
	}
	deleted := replica(map[string]any{"compliant": "Compliant"})
	deleted.SetDeletionTimestamp(&metav1.Time{Time: noon})
	tests := []struct {
		name    string
		replica *unstructured.Unstructured
		want    policies.Compliance
	}{
		{"compliant", replica(map[string]any{"compliant": "Compliant"}), policies.Compliant},
		{"not compliant", replica(map[string]any{"compliant": "NonCompliant"}), policies.NonCompliant},
		{"pending", replica(map[string]any{"compliant": "Pending"}), policies.Pending},
		{"a value of a later version is not compliance", replica(map[string]any{"compliant": "Perhaps"}), policies.Unknown},
		{"no compliance yet", replica(nil), policies.Unknown},
		{"no replica", nil, policies.Unbound},
		{"a replica that is being deleted", deleted, policies.Unbound},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, policies.ComplianceOf(test.replica))
			if test.replica == nil {
				return
			}
			trimmed := policies.Trim(test.replica)
			require.Equal(t, test.want, policies.ComplianceOf(trimmed), "the trimmed replica has the same compliance")
			require.NotContains(t, trimmed.Object, "spec")
			require.Empty(t, trimmed.GetLabels())
		})
	}
}

func TestOnlyRelevantComplianceChangesAreReported(t *testing.T) {
	tests := []struct {
		name       string
		known, now policies.ComplianceStatus
		policy     int
		want       bool
	}{
		{"a first status", "", "NN", 0, true},
		{"no change", "NN", "NN", 0, false},
		{"the current policy changed", "NN", "CN", 0, true},
		{"an earlier policy changed", "CN", "NN", 1, false},
		{"a later policy changed", "NN", "NC", 0, false},
		{"a later policy was unbound", "NN", "N-", 0, true},
		{"a later policy was bound", "N-", "NN", 0, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			require.Equal(t, test.want, policies.Changed(test.known, test.now, test.policy))
		})
	}
}

func TestAClusterIsCompleteWhenCompliantWithAllBoundPolicies(t *testing.T) {
	tests := []struct {
		name   string
		status policies.ComplianceStatus
		// planned has an x for each policy that is planned for the cluster.
		planned string
		want    bool
	}{
		{"all are compliant", "CCC", "xxx", true},
		{"the last policy is not bound", "CC-", "xx-", true},
		{"a policy in the middle is not bound", "C-C", "x-x", true},
		{"a policy is no longer bound", "C-C", "xxx", false},
		{"no Placement can select it for a policy that is not planned", "CSS", "x--", true},
		{"no Placement can select it for a planned policy", "CS", "xx", false},
		{"a policy is not compliant", "CNC", "xxx", false},
		{"a policy that is not planned is not compliant", "CNC", "x--", false},
		{"the compliance with a policy is unknown", "CU-", "", false},
		{"a policy is pending", "P", "", false},
		{"no policy is bound", "---", "", false},
		{"no status", "", "", false},
	}
	for _, test := range tests {
		var planned []bool
		for _, letter := range test.planned {
			planned = append(planned, letter == 'x')
		}
		t.Run(test.name, func(t *testing.T) { require.Equal(t, test.want, test.status.Complete(planned)) })
	}
}

func TestMoreReportsAreGatheredForLonger(t *testing.T) {
	require.Equal(t, "20ms", policies.GatherPeriod(10, 0, 0).String())
	require.Equal(t, "250ms", policies.GatherPeriod(500, 0, 0).String())
	require.Equal(t, "20ms", policies.GatherPeriod(10, -500, 0).String())
	require.Equal(t, "20ms", policies.GatherPeriod(10, 49, 0).String())
	require.Equal(t, "40ms", policies.GatherPeriod(10, 50, 0).String())
	require.Equal(t, "1m0s", policies.GatherPeriod(10, 100000, 0).String(), "at most a minute")
	require.Equal(t, "20ms", policies.GatherPeriod(10, 0, 0.06).String())
	require.Equal(t, "40ms", policies.GatherPeriod(10, 0, 0.07).String())
	require.Equal(t, "5.12s", policies.GatherPeriod(10, 0, 0.5).String())
	require.Equal(t, "10m0s", policies.GatherPeriod(10, 0, 1.1).String(), "at most ten minutes, so that changes are not reported too late")
}
