package main

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

const (
	// askedSweepers is the number of sweepers to query, the newest first.
	askedSweepers = 100
	// parallelQueries limits concurrent queries, which a single worker may have to answer.
	parallelQueries = 8
	// sweepersTimeout limits all of these queries together.
	sweepersTimeout = 3 * checkTimeout
	// namedMarks is the number of marks that a finding names.
	namedMarks = 5
)

// examineSweepers reports for each cluster the leftovers of closed workflows and the result of their cleanup.
func (s *server) examineSweepers(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, sweepersTimeout)
	defer cancel()
	const check = "sweepers"
	rows, err := s.list(ctx, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", temporal.Sweeper))
	if err != nil {
		return []finding{ill(check, "see the message", err)}
	}
	if len(rows) == 0 {
		return []finding{well(check, "none is running; the first maintenance of a cluster starts one")}
	}
	asked := rows[:min(len(rows), askedSweepers)]
	findings := make([]finding, len(asked))
	var group errgroup.Group
	group.SetLimit(parallelQueries)
	for i, row := range asked {
		group.Go(func() error {
			findings[i] = s.examineSweeper(ctx, row)
			return nil
		})
	}
	_ = group.Wait() // errors are findings
	if more := len(rows) - len(asked); more > 0 {
		findings = append(findings, well(check, fmt.Sprintf("%d more not queried", more)))
	}
	return findings
}

func (s *server) examineSweeper(ctx context.Context, row workflowRow) finding {
	cluster, onCluster := strings.CutPrefix(row.WorkflowID, temporal.SweeperID("")+"/")
	check := "sweeper " + cluster
	if !onCluster {
		cluster, check = "hub", "sweeper of the hub"
	}
	var status sweeper.Status
	err := s.query(ctx, subject{noun: "sweeper", name: cluster, workflowID: row.WorkflowID}, row.RunID, &status)
	switch {
	case errors.Is(err, observe.ErrNoWorker):
		return ill(check, "start drydock-worker", errors.New("its findings are unknown while no worker answers"))
	case err != nil:
		return ill(check, "see the message", err)
	}
	return sweeperFinding(check, status)
}

// sweeperFinding is not OK if a person has to act.
func sweeperFinding(check string, status sweeper.Status) finding {
	var unknown, failed []string
	for _, f := range status.Findings {
		mark := fmt.Sprintf("%s is owned by %s", f, f.Workflow)
		switch f.State {
		case sweeper.FindingUnknownOwner:
			unknown = append(unknown, mark)
		case sweeper.FindingFailed:
			failed = append(failed, mark+" ("+f.Ended+"): "+f.Message)
		}
	}
	switch trouble := status.Trouble(); {
	case trouble != nil:
		return finding{Check: check, Detail: "cannot read the cluster: " + trouble.Message, Fix: "see the message"}
	case len(failed) > 0:
		return finding{Check: check, Detail: firstOf(failed, 0), Fix: "see the message; the sweeper retries every few minutes"}
	case len(unknown) > 0:
		return finding{
			Check: check, Detail: firstOf(unknown, status.MoreUnknownOwners) + ", unknown to Temporal: not changed",
			Fix: "if no other Drydock manages that cluster, remove the mark (docs/how-to/remove-marks-by-hand.md)",
		}
	}
	swept := sweptText(status)
	if status.IgnoredMarks > 0 {
		swept += fmt.Sprintf("; ignores %d marks that Drydock did not write", status.IgnoredMarks)
	}
	return well(check, swept)
}

// firstOf joins the first few texts.
func firstOf(texts []string, more int) string {
	more += max(0, len(texts)-namedMarks)
	text := strings.Join(texts[:min(len(texts), namedMarks)], "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// sweptText describes the last cleanup.
func sweptText(status sweeper.Status) string {
	for i := len(status.Findings) - 1; i >= 0; i-- {
		f := status.Findings[i]
		switch f.State {
		case sweeper.FindingInProgress:
			return fmt.Sprintf("%s of %s (%s) is being cleaned up", f, f.Workflow, f.Ended)
		case sweeper.FindingCleanedUp:
			return fmt.Sprintf("%d cleaned up, the last at %s: %s of %s (%s): %s", status.CleanedUp, f.SettledAt.UTC().Format(time.RFC3339), f, f.Workflow, f.Ended, f.Message)
		}
	}
	return "closed workflows have left nothing behind"
}
