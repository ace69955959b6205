package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/cli-runtime/pkg/genericiooptions"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// longest is the maximum size of an answer, in bytes.
const longest = 256 << 10

// answering is a Temporal client whose worker answers queries of one rollout. It counts them.
type answering struct {
	client.Client
	t       *testing.T
	status  ranv1.ClusterGroupUpgradeStatus
	asked   int
	longest int
}

func (a *answering) DescribeWorkflow(context.Context, string, string) (*client.WorkflowExecutionDescription, error) {
	return &client.WorkflowExecutionDescription{}, nil
}

func (a *answering) QueryWorkflow(_ context.Context, _, _, _ string, args ...any) (converter.EncodedValue, error) {
	part, err := rollout.Page(a.status, rollout.Part(args[0].(temporal.StatusRequest)))
	require.NoError(a.t, err)
	payloads, err := converter.GetDefaultDataConverter().ToPayloads(part)
	require.NoError(a.t, err)
	a.asked++
	a.longest = max(a.longest, len(payloads.Payloads[0].Data))
	return client.NewValue(payloads), nil
}

// longRollout returns a rollout with that many clusters, in batches of 500: three batches have ended, one is running. Each cluster has long messages.
func longRollout(clusters int) ranv1.ClusterGroupUpgradeStatus {
	at := metav1.NewTime(time.Date(2026, 11, 21, 6, 0, 0, 0, time.UTC))
	status := ranv1.ClusterGroupUpgradeStatus{ComputedMaxConcurrency: 500, Precaching: &ranv1.PrecachingStatus{Status: map[string]ranv1.PreparationState{}}}
	status.Status.StartedAt, status.Status.CurrentBatch = &at, 4
	for i := range clusters {
		c := ranv1.ClusterStatus{Name: fmt.Sprintf("edge-cluster-of-a-long-name-%05d", i), Batch: int32(i/500 + 1), State: ranv1.ClusterPending}
		switch {
		case c.Batch < 4 && i%10 == 0:
			c.State, c.Reason, c.Since, c.StartedAt, c.CompletedAt = ranv1.ClusterFailed, temporal.ErrDrainTimedOut, &at, &at, &at
			c.Message = "drain worker-1: 2 pods blocked by PodDisruptionBudget shop/web (0 of 3 may be disrupted; 2 of 3 healthy, needs 3)"
			c.Nodes = ranv1.NodeCounts{Total: 12, Done: 5, Failed: 1, Evicted: 250}
		case c.Batch < 4:
			c.State, c.StartedAt, c.CompletedAt, c.Nodes = ranv1.ClusterComplete, &at, &at, ranv1.NodeCounts{Total: 12, Done: 12, Evicted: 300}
		case c.Batch == 4:
			c.State, c.Step, c.Reason, c.Since, c.StartedAt = ranv1.ClusterRunning, "worker-7: Draining", "DisruptionBudgetNever", &at, &at
			c.Message = "3 pods blocked by PodDisruptionBudget shop/web (0 of 6 may be disrupted; 6 of 6 healthy, needs 6)"
			c.Nodes = ranv1.NodeCounts{Total: 12, Done: 7, Evicted: 150}
		}
		if c.Batch > int32(len(status.RemediationPlan)) {
			status.RemediationPlan = append(status.RemediationPlan, nil)
		}
		status.RemediationPlan[c.Batch-1] = append(status.RemediationPlan[c.Batch-1], c.Name)
		status.Precaching.Status[c.Name] = ranv1.PreparationSucceeded
		status.Clusters = append(status.Clusters, c)
	}
	status.Counts = rollout.Count(status.Clusters)
	return status
}

// show runs `upgrade status` with an output format, and returns what it printed.
func show(t *testing.T, answers *answering, output string) string {
	t.Helper()
	var out, errOut bytes.Buffer
	c := &cli{IOStreams: genericiooptions.IOStreams{Out: &out, ErrOut: &errOut}, output: output}
	require.NoError(t, shows((*cli).rolloutReport)(c, t.Context(), &server{Client: answers}, rolloutSubject("fleet", "june")))
	require.Empty(t, errOut.String())
	return out.String()
}

func TestTheStatusOfTenThousandClustersIsSmallAndSorted(t *testing.T) {
	answers := &answering{t: t, status: longRollout(10_000)}
	table := show(t, answers, formatTable)
	require.Equal(t, 1, answers.asked)
	require.Less(t, answers.longest, longest)
	lines := strings.Split(strings.TrimSpace(table), "\n")
	require.Contains(t, lines[0], "batch 4 of 20")
	require.Contains(t, lines[1], "1350 of 10000 clusters complete, 500 running, 150 failed, 8000 pending")
	require.Contains(t, lines[2], "end unknown: edge-cluster-of-a-long-name-01500 is blocked: 3 pods blocked by PodDisruptionBudget shop/web")
	require.Contains(t, lines[5], "failed", "failed clusters first")
	require.Contains(t, lines[5+250-1], "running", "then running clusters")
	require.Equal(t, "and 9750 clusters more", lines[len(lines)-1])
}

func TestTheStatusOfTenThousandClustersIsReadInPages(t *testing.T) {
	answers := &answering{t: t, status: longRollout(10_000)}
	var got rolloutStatus
	require.NoError(t, json.Unmarshal([]byte(show(t, answers, formatJSON)), &got))
	require.Equal(t, 40, answers.asked)
	require.Less(t, answers.longest, longest)
	whole, err := json.Marshal(answers.status)
	require.NoError(t, err)
	read, err := json.Marshal(got.Status)
	require.NoError(t, err)
	require.JSONEq(t, string(whole), string(read))
}

func TestTheStatusOfFewClustersIsOnePage(t *testing.T) {
	answers := &answering{t: t, status: longRollout(partClusters)}
	var got rolloutStatus
	require.NoError(t, json.Unmarshal([]byte(show(t, answers, formatJSON)), &got))
	require.Equal(t, 1, answers.asked)
	require.Equal(t, answers.status.RemediationPlan, got.Status.RemediationPlan)
}
