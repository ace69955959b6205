package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

func TestDoctorComparesTheRetentionWithTheLongestRolloutAndTheSweeper(t *testing.T) {
	fix := func(retention string) string {
		return "`temporal operator namespace update --namespace fleet --retention " + retention + "`"
	}
	for _, tt := range []struct {
		name      string
		retention time.Duration
		longest   rolloutLength
		want      finding
	}{
		{"enough", 7 * day, rolloutLength{}, well("retention", "closed workflows are kept for 7d")},
		{"enough for a long rollout", 30 * day, rolloutLength{"prod/june", 20 * day}, well("retention", "closed workflows are kept for 30d")},
		{
			"too short for the sweeper", day,
			rolloutLength{"prod/june", time.Hour},
			warning("retention", "closed workflows are kept for 1d, less than the 7d that the cleanup of an unreachable cluster may need", fix("30d")),
		},
		{
			"too short for a long rollout", 30 * day,
			rolloutLength{"prod/june", 40*day - time.Hour},
			warning("retention", "closed workflows are kept for 30d, less than the 40d of rollout prod/june and the 7d that the cleanup of an unreachable cluster may need", fix("47d")),
		},
	} {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, retentionFinding("fleet", tt.retention, tt.longest)) })
	}
}

// doctorComparesTheRetention sets the retention of the namespace, which the dev server creates with that of a day.
func (s *stage) doctorComparesTheRetention(t *testing.T) {
	prints(t, `WARNING +retention +closed workflows are kept for 1d, less than the 7d that the cleanup of an unreachable cluster may need\n +fix: `, "doctor")
	_, err := s.client.WorkflowService().UpdateNamespace(t.Context(), &workflowservice.UpdateNamespaceRequest{
		Namespace: "default", Config: &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(30 * day)},
	})
	require.NoError(t, err)
	prints(t, `(?m)^ok +retention +closed workflows are kept for 30d$`, "doctor")

	slow := strings.Replace(rolloutText("slow"), "maxConcurrency: 2", "maxConcurrency: 2\n    timeout: 144000", 1) // 100 days
	succeeds(t, "upgrade", "start", "-f", file(t, "slow.yaml", slow))
	require.EventuallyWithT(t, func(c *assert.CollectT) { // visibility lags
		assert.Regexp(c, `WARNING +retention +closed workflows are kept for 30d, less than the \d+d of rollout prod/slow and the 7d `, drydock(t, "doctor").stdout)
	}, patience, tick)
	succeeds(t, "upgrade", "cancel", "prod/slow")
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Regexp(c, `ok +retention`, drydock(t, "doctor").stdout)
	}, patience, tick)
}
