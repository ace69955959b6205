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
	"drydock.dev/drydock/workflows"
)

const (
	// askedSweepers is how many sweepers are asked, those that were started last.
	askedSweepers = 100
	// askedAtOnce keeps a single worker from being asked too much.
	askedAtOnce = 8
	// sweepersTimeout is how long all of them together may take.
	sweepersTimeout = 3 * checkTimeout
	// namedMarks is how many marks of a cluster a finding names.
	namedMarks = 5
)

// examineSweepers says of each cluster what ended workflows have left on it, and what became of that.
func (s *server) examineSweepers(ctx context.Context) []finding {
	ctx, cancel := context.WithTimeout(ctx, sweepersTimeout)
	defer cancel()
	const check = "sweepers"
	rows, err := s.list(ctx, fmt.Sprintf("WorkflowType = '%s' AND ExecutionStatus = 'Running'", temporal.Sweeper))
	if err != nil {
		return []finding{ill(check, "see the message", err)}
	}
	if len(rows) == 0 {
		return []finding{well(check, "none is at work; the first maintenance of a cluster starts the one there")}
	}
	asked := rows[:min(len(rows), askedSweepers)]
	findings := make([]finding, len(asked))
	var group errgroup.Group
	group.SetLimit(askedAtOnce)
	for i, row := range asked {
		group.Go(func() error {
			findings[i] = s.examineSweeper(ctx, row)
			return nil
		})
	}
	_ = group.Wait() // what went wrong is a finding
	if more := len(rows) - len(asked); more > 0 {
		findings = append(findings, well(check, fmt.Sprintf("%d more are not asked", more)))
	}
	return findings
}

func (s *server) examineSweeper(ctx context.Context, row workflowRow) finding {
	cluster := strings.TrimPrefix(row.WorkflowID, temporal.SweeperID(""))
	check := "sweeper " + cluster
	var status workflows.SweeperStatus
	err := s.query(ctx, subject{noun: "sweeper", name: cluster, workflowID: row.WorkflowID}, row.RunID, &status)
	switch {
	case errors.Is(err, observe.ErrNoWorker):
		return ill(check, "start drydock-worker", errors.New("what it has found is not known while no worker answers"))
	case err != nil:
		return ill(check, "see the message", err)
	}
	return sweeperFinding(check, status)
}

// sweeperFinding is well unless a person has to do something.
func sweeperFinding(check string, status workflows.SweeperStatus) finding {
	var unknown, failed []string
	for _, f := range status.Findings {
		said := fmt.Sprintf("%s bears the mark of %s", f, f.Workflow)
		switch f.State {
		case workflows.FindingNotTouched:
			unknown = append(unknown, said)
		case workflows.FindingNotTakenBack:
			failed = append(failed, said+" ("+f.Ended+"): "+f.Message)
		}
	}
	switch trouble := status.Trouble(); {
	case trouble != nil:
		return finding{Check: check, Detail: "cannot look: " + trouble.Message, Fix: "see the message"}
	case len(failed) > 0:
		return finding{Check: check, Detail: firstOf(failed, 0), Fix: "see the message; it is tried again every few minutes"}
	case len(unknown) > 0:
		return finding{
			Check: check, Detail: firstOf(unknown, status.MoreNotTouched) + ", which Temporal does not know: not touched",
			Fix: `if no other Drydock is at work there, remove the mark (docs/how-to/clean-up-by-hand.md)`,
		}
	}
	return well(check, sweptText(status))
}

// firstOf names the first few.
func firstOf(said []string, more int) string {
	more += max(0, len(said)-namedMarks)
	text := strings.Join(said[:min(len(said), namedMarks)], "; ")
	if more > 0 {
		text += fmt.Sprintf("; and %d more", more)
	}
	return text
}

// sweptText says what was taken back last.
func sweptText(status workflows.SweeperStatus) string {
	for i := len(status.Findings) - 1; i >= 0; i-- {
		f := status.Findings[i]
		switch f.State {
		case workflows.FindingAtWork:
			return fmt.Sprintf("%s of %s (%s) is being taken back", f, f.Workflow, f.Ended)
		case workflows.FindingTakenBack:
			return fmt.Sprintf("%d taken back, the last at %s: %s of %s (%s): %s", status.TakenBack, f.SettledAt.UTC().Format(time.RFC3339), f, f.Workflow, f.Ended, f.Message)
		}
	}
	return "nothing is left of workflows that are over"
}
