package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

const (
	day = 24 * time.Hour
	// cleanupRetention is how long a cluster may be out of reach after one of its workflows was terminated: the sweeper cleans up only what belongs to a workflow
	// that Temporal still knows.
	cleanupRetention = 7 * day
	// measuredRollouts is the number of running rollouts to look at, the oldest first.
	measuredRollouts = 100
)

// rolloutLength is the running rollout that will have taken longest when it is over, as far as is known now.
type rolloutLength struct {
	name  string
	takes time.Duration
}

// examineRetention compares how long Temporal keeps closed workflows with what Drydock needs. The sweeper looks up the owner of a mark by its first run, which
// Temporal may have forgotten when a long rollout ends.
func (s *server) examineRetention(ctx context.Context, retention time.Duration) finding {
	longest, err := s.longestRollout(ctx)
	if err != nil {
		return ill("retention", "see the message", err)
	}
	return retentionFinding(s.namespace, retention, longest)
}

func retentionFinding(namespace string, retention time.Duration, longest rolloutLength) finding {
	const check = "retention"
	kept := "closed workflows are kept for " + days(retention)
	needed := longest.takes + cleanupRetention
	if retention >= needed {
		return well(check, kept)
	}
	need := days(cleanupRetention) + " that the cleanup of an unreachable cluster may need"
	if longest.takes > day {
		need = fmt.Sprintf("%s of rollout %s and the %s", days(longest.takes), longest.name, need)
	}
	return warning(check, kept+", less than the "+need,
		fmt.Sprintf("`temporal operator namespace update --namespace %s --retention %s`", namespace, days(max(temporal.Retention, needed))))
}

// days rounds up to whole days.
func days(d time.Duration) string { return fmt.Sprintf("%.0fd", math.Ceil(float64(d)/float64(day))) }

func (s *server) longestRollout(ctx context.Context) (rolloutLength, error) {
	running, err := s.executions(ctx, observe.WorkflowsOf(temporal.ClusterGroupUpgrade, true))
	if err != nil {
		return rolloutLength{}, err
	}
	slices.Reverse(running)
	running = running[:min(len(running), measuredRollouts)]
	found := make([]rolloutLength, len(running))
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(parallelQueries)
	for i, execution := range running {
		group.Go(func() (err error) {
			found[i], err = s.lengthOf(ctx, execution)
			return err
		})
	}
	if err := group.Wait(); err != nil {
		return rolloutLength{}, err
	}
	var longest rolloutLength
	for _, rollout := range found {
		if rollout.takes > longest.takes {
			longest = rollout
		}
	}
	return longest, nil
}

// lengthOf is the time from the start of a rollout, over all runs of its workflow, to its deadline or, without one, to now.
func (s *server) lengthOf(ctx context.Context, execution *workflowpb.WorkflowExecutionInfo) (rolloutLength, error) {
	id := execution.GetExecution().GetWorkflowId()
	described, err := s.DescribeWorkflowExecution(ctx, id, execution.GetExecution().GetRunId())
	if err != nil {
		return rolloutLength{}, fmt.Errorf("describe workflow %s: %w", id, err)
	}
	end := time.Now()
	if payload := described.GetWorkflowExecutionInfo().GetSearchAttributes().GetIndexedFields()[temporal.AttributeDeadline.GetName()]; payload != nil {
		var deadline time.Time
		if err := converter.GetDefaultDataConverter().FromPayload(payload, &deadline); err == nil && deadline.After(end) {
			end = deadline
		}
	}
	ref := observe.RefOf(id, "")
	return rolloutLength{name: ref.Namespace + "/" + ref.Name, takes: end.Sub(described.GetWorkflowExtendedInfo().GetOriginalStartTime().AsTime())}, nil
}
