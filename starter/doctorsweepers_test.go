package main

import (
	"context"
	"fmt"
	"regexp"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	sweeperactivities "drydock.dev/drydock/activities/sweeper"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

func TestDoctorReportsTheLeftoversOfClosedWorkflowsPerCluster(t *testing.T) {
	at := metav1.NewTime(time.Date(2026, 11, 20, 12, 0, 30, 0, time.UTC))
	found := func(node string, state sweeper.FindingState, ended, message string) sweeper.Finding {
		return sweeper.Finding{
			Mark: sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: node}, Workflow: "node/c1/default/" + node,
			State: state, Ended: ended, Message: message, SettledAt: &at,
		}
	}
	const ended = "Terminated at 2026-11-20T12:00:00Z by ann"
	cleanedUp := found("w1", sweeper.FindingCleanedUp, ended, "uncordoned, marks removed")
	unknown := found("w2", sweeper.FindingUnknownOwner, "", "Temporal does not know its workflow")
	unknownFix := `if no other Drydock manages that cluster, remove the mark (docs/how-to/remove-marks-by-hand.md)`
	many := make([]sweeper.Finding, 7)
	for i := range many {
		many[i] = found(fmt.Sprintf("w%d", i), sweeper.FindingUnknownOwner, "", "")
	}
	tests := []struct {
		name   string
		status sweeper.Status
		want   finding
	}{
		{"nothing", sweeper.Status{}, well("sweeper c1", "closed workflows have left nothing behind")},
		{
			"the last cleanup",
			sweeper.Status{CleanedUp: 3, Findings: []sweeper.Finding{cleanedUp, found("w3", sweeper.FindingGone, "", "")}},
			well("sweeper c1", "3 cleaned up, the last at 2026-11-20T12:00:30Z: Node w1 of node/c1/default/w1 ("+ended+"): uncordoned, marks removed"),
		},
		{
			"a cleanup in progress",
			sweeper.Status{Findings: []sweeper.Finding{found("w1", sweeper.FindingInProgress, ended, "")}},
			well("sweeper c1", "Node w1 of node/c1/default/w1 ("+ended+") is being cleaned up"),
		},
		{
			"an unknown owner",
			sweeper.Status{Findings: []sweeper.Finding{cleanedUp, unknown}},
			finding{Check: "sweeper c1", Detail: "Node w2 is owned by node/c1/default/w2, unknown to Temporal: not changed", Fix: unknownFix},
		},
		{
			"a failed cleanup",
			sweeper.Status{Findings: []sweeper.Finding{unknown, found("w1", sweeper.FindingFailed, ended, "its pods are not gone")}},
			finding{
				Check: "sweeper c1", Detail: "Node w1 is owned by node/c1/default/w1 (" + ended + "): its pods are not gone",
				Fix: "see the message; the sweeper retries every few minutes",
			},
		},
		{
			"an unreachable cluster",
			sweeper.Status{Wait: &drydockv1.Wait{Reason: temporal.ErrClusterUnreachable, Message: "its API server does not answer"}},
			finding{Check: "sweeper c1", Detail: "cannot read the cluster: its API server does not answer", Fix: "see the message"},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.want, sweeperFinding("sweeper c1", tt.status)) })
	}
	require.Contains(t, sweeperFinding("sweeper c1", sweeper.Status{Findings: many, MoreUnknownOwners: 3}).Detail, "; and 5 more, unknown to Temporal")
	require.Equal(t, "closed workflows have left nothing behind; ignores 7 marks that Drydock did not write", sweeperFinding("sweeper c1", sweeper.Status{IgnoredMarks: 7}).Detail)
}

// awaitOrphans returns the orphans of the test.
func (s *stage) awaitOrphans(ctx context.Context, _ sweeperactivities.AwaitOrphansInput) (sweeperactivities.Orphans, error) {
	beat := time.NewTicker(50 * time.Millisecond)
	defer beat.Stop()
	for {
		select {
		case found := <-s.orphans:
			return found, nil
		case <-ctx.Done():
			return sweeperactivities.Orphans{}, ctx.Err()
		case <-beat.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// cleansUp makes the sweeper find an orphan. An earlier maintenance has started the sweeper.
func (s *stage) cleansUp(t *testing.T) {
	s.orphans <- sweeperactivities.Orphans{Orphans: []sweeperactivities.Orphan{{
		Mark:  sweeperactivities.Mark{Kind: sweeperactivities.MarkNode, Name: "worker-9", Node: "worker-9", Owner: "node/spoke-1/default/gone/run"},
		Ended: "Terminated at 2026-11-20T12:00:00Z by ann: wrong node",
	}}}
	require.Eventually(t, func() bool {
		got := drydock(t, "doctor")
		return got.status == exitDone && regexp.MustCompile(`ok +sweeper spoke-1 +1 cleaned up, the last at \S+: Node worker-9 of node/spoke-1/default/gone `+
			`\(Terminated at 2026-11-20T12:00:00Z by ann: wrong node\): uncordoned, marks removed`).MatchString(got.stdout)
	}, patience, tick)
}
