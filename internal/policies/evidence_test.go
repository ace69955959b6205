package policies_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/policies"
)

// reported is a replica as a hub has it: a propagator that wrote the spec at that minute of an hour, and an agent that reported the evaluations of two templates.
func reported(t *testing.T, compliant string, specified, written, firstTemplate, secondTemplate int) *unstructured.Unstructured {
	t.Helper()
	event := func(minute int) string {
		at := noon.Add(time.Duration(minute) * time.Minute)
		return fmt.Sprintf("{lastTimestamp: '%s', eventName: fleet.kernel.%x, message: Compliant}", at.Format(time.RFC3339), at.Add(123*time.Millisecond).UnixNano())
	}
	replica := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(strings.NewReplacer(
		"SPECIFIED", noon.Add(time.Duration(specified)*time.Minute).Format(time.RFC3339), "WRITTEN", noon.Add(time.Duration(written)*time.Minute).Format(time.RFC3339),
		"COMPLIANT", compliant, "OLD", event(0), "FIRST", event(firstTemplate), "SECOND", event(secondTemplate),
	).Replace(`
metadata:
  namespace: c1
  name: fleet.kernel
  managedFields:
  - {manager: propagator, operation: Update, time: 'SPECIFIED', fieldsV1: {"f:spec": {"f:remediationAction": {}}}}
  - {manager: labeller, operation: Update, time: '2026-01-11T00:00:00Z', fieldsV1: {"f:metadata": {"f:labels": {}}}}
  - {manager: agent, operation: Update, time: 'WRITTEN', subresource: status, fieldsV1: {"f:status": {"f:compliant": {}}}}
status:
  compliant: COMPLIANT
  details:
  - {templateMeta: {name: first}, history: [FIRST, OLD]}
  - {templateMeta: {name: second}, history: [SECOND]}`)), &replica.Object))
	return replica
}

func TestAReportCountsOnlyForThePolicyAsItIsNow(t *testing.T) {
	const compliant = "Compliant"
	minute := func(m int) time.Time { return noon.Add(time.Duration(m) * time.Minute) }
	for name, test := range map[string]struct {
		replica *unstructured.Unstructured
		policy  time.Time
		want    policies.Compliance
		settles time.Time
	}{
		"evaluated after the last change":                      {reported(t, compliant, 10, 12, 11, 11), minute(9), policies.Compliant, time.Time{}},
		"evaluated in the second of the change":                {reported(t, compliant, 10, 10, 10, 10), minute(10), policies.Compliant, time.Time{}},
		"the replica was changed since":                        {reported(t, compliant, 20, 12, 11, 11), minute(9), policies.Outdated, minute(22)},
		"the policy was changed since, and not yet propagated": {reported(t, compliant, 10, 12, 11, 11), minute(30), policies.Outdated, minute(32)},
		"one template was not evaluated since":                 {reported(t, compliant, 10, 12, 11, 5), minute(9), policies.Outdated, minute(12)},
		"the clock of the cluster is ahead":                    {reported(t, compliant, 20, 12, 40, 40), minute(9), policies.Outdated, minute(22)},
		"not compliant is no evidence of success":              {reported(t, "NonCompliant", 20, 12, 11, 11), minute(9), policies.NonCompliant, time.Time{}},
		"no replica": {nil, minute(9), policies.Unbound, time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			replicas := []*unstructured.Unstructured{test.replica}
			if test.replica != nil {
				replicas = append(replicas, policies.Trim(test.replica), policies.Trim(policies.Trim(test.replica)))
			}
			for _, replica := range replicas {
				compliance, settles := policies.ReadReport(replica).Judge(test.policy)
				require.Equal(t, test.want.String()+string(test.want), compliance.String()+string(compliance))
				require.True(t, test.settles.Equal(settles), settles)
			}
		})
	}
}

func TestAReplicaWithoutTimesCounts(t *testing.T) {
	replica := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"compliant": "Compliant"}}}
	compliance, _ := policies.ReadReport(replica).Judge(noon)
	require.Equal(t, policies.Compliant, compliance)
}

func TestAnOutdatedReportIsNeitherComplianceNorUnbinding(t *testing.T) {
	require.False(t, policies.ComplianceStatus("CO").Complete([]bool{true, true}))
	_, step := policies.NewProgress([]bool{true}).Next(policies.ClusterCompliance{Cluster: "c1", Status: "O"}, []time.Duration{0}, noon, true)
	require.Equal(t, policies.Step{State: "running"}, step)
}
