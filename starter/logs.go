package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	commonpb "go.temporal.io/api/common/v1"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows"
)

// logFlags select lines of a log, with the names of the flags of kubectl logs.
type logFlags struct {
	follow bool
	since  time.Duration
}

func newLogs(c *cli) *cobra.Command {
	var flags logFlags
	cmd := &cobra.Command{
		Use:   "logs NAME|node/NODE",
		Short: "Print every transition of a rollout or of a node maintenance, with its time",
		Long: `Print every transition of a rollout or of a node maintenance, with its time: what the workers have logged about it, also those that no longer exist.
It needs no worker: the command reads the history of the workflow from Temporal, and repeats its decisions. So its version must be that of the workers, or a
later one.

NAME is that of a rollout. For a maintenance give node/NAME, node/NODE or node/NAMESPACE/NAME with --cluster, and for one cluster of a rollout its workflow id,
cgu/NAMESPACE/NAME/CLUSTER: it has the steps and the nodes of that cluster. The log is that of the last run; Temporal deletes it after its retention period.

With -o json each line is a JSON object.`,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeRollouts(false),
		RunE: c.serverVerb(func(ctx context.Context, s *server, args []string) error {
			switch {
			case flags.since < 0:
				return usagef("--since %s is negative", flags.since)
			case c.output == formatName:
				return usagef("-o name: the lines of a log have no names")
			}
			target, err := c.logged(ctx, s, args[0])
			if err != nil {
				return err
			}
			printer := &logPrinter{cli: c, target: target, options: s.options, printed: map[string]int{}}
			if flags.since > 0 {
				printer.since = c.now().Add(-flags.since)
			}
			if flags.follow {
				return s.followLog(ctx, printer)
			}
			return s.printLog(ctx, printer)
		}),
	}
	cmd.Flags().BoolVarP(&flags.follow, "follow", "f", false, "keep running and print every new line, until the work ends")
	cmd.Flags().DurationVar(&flags.since, "since", 0, "only lines of the last time, such as 30m (default: all)")
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// logged finds the workflow that the operand of logs names.
func (c *cli) logged(ctx context.Context, s *server, name string) (subject, error) {
	if namespace, rollout, _, ok := temporal.ParseClusterUpgradeID(name); ok {
		of := rolloutSubject(namespace, rollout)
		of.noun, of.name, of.workflowID = "cluster of a rollout", name, name
		return of, nil
	}
	if maintenance, ok := strings.CutPrefix(name, "node/"); ok {
		if strings.Count(maintenance, "/") == 2 {
			maintenance = name
		}
		return c.maintenanceOf(ctx, s, maintenance, "", true)
	}
	return c.rollout(name)
}

// logLine is a line of the output of -o json.
type logLine struct {
	Time    time.Time      `json:"time"`
	Level   string         `json:"level"`
	Message string         `json:"message"`
	Fields  map[string]any `json:"fields,omitempty"`
	// keys has the names of the fields in the order of the workflow.
	keys []string
}

func newLogLine(logged workflows.LogLine) logLine {
	line := logLine{Time: logged.At, Level: logged.Level.String(), Message: logged.Message, Fields: map[string]any{}}
	for i := 0; i+1 < len(logged.Fields); i += 2 {
		key, value := fmt.Sprint(logged.Fields[i]), logged.Fields[i+1]
		if value == nil {
			continue
		}
		if _, known := line.Fields[key]; !known {
			line.keys = append(line.keys, key)
		}
		switch value := value.(type) {
		case error:
			line.Fields[key] = temporal.ErrorMessage(value)
		case time.Time:
			line.Fields[key] = value.UTC().Format(time.RFC3339)
		case fmt.Stringer:
			line.Fields[key] = value.String()
		default:
			line.Fields[key] = value
		}
	}
	return line
}

// text is the line for people. It leaves out fields without a value, and the name of the rollout, which is that of every line.
func (l logLine) text(now time.Time) string {
	var text strings.Builder
	text.WriteString(stamp(l.Time, now) + "  ")
	if l.Level != slog.LevelInfo.String() {
		text.WriteString(l.Level + ": ")
	}
	text.WriteString(l.Message)
	for _, key := range l.keys {
		value := fmt.Sprint(l.Fields[key])
		if value == "" || key == "rollout" {
			continue
		}
		if strings.ContainsAny(value, " \"\n\t") {
			value = strconv.Quote(value)
		}
		text.WriteString("  " + key + "=" + value)
	}
	return text.String()
}

// logPrinter prints the log of a workflow.
type logPrinter struct {
	cli     *cli
	target  subject
	options client.Options
	// since is the earliest time of a line.
	since time.Time
	// printed is the number of lines of each run that were read.
	printed map[string]int
}

// runCollector collects the events of runs.
type runCollector struct {
	workflowID string

	mu sync.Mutex
	// runs that have events which were not taken; only the last one may still grow.
	runs []history.Run
}

// add adds an event to its run.
func (r *runCollector) add(runID string, event *historypb.HistoryEvent) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if last := len(r.runs) - 1; last < 0 || r.runs[last].RunID != runID {
		r.runs = append(r.runs, history.Run{WorkflowID: r.workflowID, RunID: runID})
	}
	run := &r.runs[len(r.runs)-1]
	run.Events = append(run.Events, event)
}

// take returns the runs, and keeps only the last one.
func (r *runCollector) take() []history.Run {
	r.mu.Lock()
	defer r.mu.Unlock()
	runs := slices.Clone(r.runs)
	r.runs = r.runs[max(0, len(r.runs)-1):]
	return runs
}

// show prints the lines of runs that are new.
func (p *logPrinter) show(runs []history.Run) error {
	for _, run := range runs {
		lines, replayErr := workflows.Log(run, p.options)
		for _, logged := range lines[min(p.printed[run.RunID], len(lines)):] {
			if err := p.line(newLogLine(logged)); err != nil {
				return err
			}
		}
		p.printed[run.RunID] = len(lines)
		if replayErr != nil {
			return fmt.Errorf("the workflows of this version of drydock decide differently from those that wrote the history of %s, so its log ends here: use the version of the workers, or a later one (%w)",
				p.target, replayErr)
		}
	}
	return nil
}

// line prints a line, unless it is too old.
func (p *logPrinter) line(line logLine) error {
	c := p.cli
	switch {
	case line.Time.Before(p.since):
		return nil
	case c.render != nil:
		return c.print(line, nil)
	case c.forPeople():
		return c.say("%s", line.text(c.now()))
	}
	text, err := c.document(line)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(c.Out, text)
	return err
}

// printLog prints the log of the last run of a workflow so far.
func (s *server) printLog(ctx context.Context, p *logPrinter) error {
	runID, err := s.firstRun(ctx, p)
	if err != nil {
		return err
	}
	collected := &runCollector{workflowID: p.target.workflowID}
	for runID != "" {
		var last *historypb.HistoryEvent
		for events := s.GetWorkflowHistory(ctx, p.target.workflowID, runID, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
			if last, err = events.Next(); err != nil {
				return s.explain("read the history of", p.target, err)
			}
			collected.add(runID, last)
		}
		runID = last.GetWorkflowExecutionContinuedAsNewEventAttributes().GetNewExecutionRunId()
	}
	return p.show(collected.take())
}

// followLog prints the log of the last run of a workflow, until the workflow closes.
func (s *server) followLog(ctx context.Context, p *logPrinter) error {
	runID, err := s.firstRun(ctx, p)
	if err != nil {
		return err
	}
	for {
		collected := &runCollector{workflowID: p.target.workflowID}
		follower := observe.Follower{Server: s, WorkflowID: p.target.workflowID, Event: collected.add, Read: func(ctx context.Context, _ string) error {
			began := time.Now()
			if err := p.show(collected.take()); err != nil {
				return err
			}
			return observe.Pause(ctx, time.Since(began)) // each reading repeats all decisions of the run
		}}
		err := follower.Follow(ctx, runID)
		if ctx.Err() != nil {
			return stillRunning(ctx, p.target)
		}
		if !observe.Away(err) {
			if unread, ok := errors.AsType[observe.HistoryError](err); ok {
				err = s.explain("follow", p.target, unread.Unwrap())
			}
			return err
		}
		p.cli.warn("Temporal does not answer; retrying: %s", err)
		_ = observe.Pause(ctx, askAgain) // following again returns the error of ctx
	}
}

// firstRun goes back from the latest Temporal run to the first of those that it continues.
func (s *server) firstRun(ctx context.Context, p *logPrinter) (string, error) {
	described, err := s.DescribeWorkflowExecution(ctx, p.target.workflowID, "")
	if err != nil {
		return "", s.explain("find", p.target, err)
	}
	for runID := described.GetWorkflowExecutionInfo().GetExecution().GetRunId(); ; {
		started, err := s.startOf(ctx, p.target, &commonpb.WorkflowExecution{WorkflowId: p.target.workflowID, RunId: runID})
		if err != nil {
			return "", err
		}
		before := started.GetContinuedExecutionRunId()
		if before == "" {
			return runID, nil
		}
		_, err = s.DescribeWorkflowExecution(ctx, p.target.workflowID, before)
		if _, forgotten := errors.AsType[*serviceerror.NotFound](err); forgotten {
			p.cli.warn("Temporal no longer retains the beginning of %s", p.target)
			return runID, nil
		}
		if err != nil {
			return "", s.explain("find", p.target, err)
		}
		runID = before
	}
}
