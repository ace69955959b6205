package main

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/preflight"
)

// startFlags are the flags of commands that check a request before they start it.
type startFlags struct {
	waitForIt, refuseIfBlocked bool
	// onlyPlanned: the request starts nothing yet, so a problem is only a warning.
	onlyPlanned bool
	// reason is recorded in the workflow.
	reason string
}

func (f *startFlags) addWaitForIt(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.waitForIt, "wait-for-it", false, "if something that the request names does not exist yet, wait for it before the start (default: refuse)")
}

func (f *startFlags) addRefuseIfBlocked(cmd *cobra.Command) {
	cmd.Flags().BoolVar(&f.refuseIfBlocked, "refuse-if-blocked", false,
		"do not start if a drain could not finish unless a person acts; sets spec.drainSpec.refuseIfBlocked, so that each node is checked again before its cordon")
}

const (
	// preflightTimeout limits a check. A worker that does not know a cluster leaves some seconds for another one to answer.
	preflightTimeout = 20 * time.Second
	// preflightWait is how long one workflow waits for what a request needs: it ends even if the command was killed.
	preflightWait = 10 * time.Minute
	// shownProblems is the number of drains that are described one by one.
	shownProblems = 5
)

// unchecked is the error of a request that was not checked.
type unchecked struct{ why error }

func (u unchecked) Error() string { return "it was not checked: " + u.why.Error() }

// preflight checks a request on a worker before its start. Without a worker it only warns, since the workflow checks the request again.
func (c *cli) preflight(ctx context.Context, s *server, target subject, in preflight.Input, flags startFlags) error {
	found, err := c.foreseeStart(ctx, s, target, in, flags)
	if err == nil && len(found.Problems) > 0 {
		err = errors.New(strings.Join(found.Problems, "; "))
	}
	_, noAnswer := errors.AsType[unchecked](err)
	if err != nil && ctx.Err() == nil && (flags.onlyPlanned || noAnswer && !flags.refuseIfBlocked) {
		c.warn("warning: %s: %s", target, err)
		return nil
	}
	if err != nil {
		return fmt.Errorf("%s was not started: %w", target, err)
	}
	if err := c.reportDrains(target, found, flags.refuseIfBlocked); err != nil {
		return err
	}
	now := time.Now()
	for _, window := range found.Closed {
		c.warn("%s", closedWindow(window, now))
	}
	return nil
}

// foreseeStart checks a request, again and again with --wait-for-it until it has no problem.
func (c *cli) foreseeStart(ctx context.Context, s *server, target subject, in preflight.Input, flags startFlags) (found preflight.Result, err error) {
	for told := false; ; told = true {
		found, err = s.check(ctx, target, in)
		_, noAnswer := errors.AsType[unchecked](err)
		if !flags.waitForIt || err != nil && !noAnswer || err == nil && len(found.Problems) == 0 {
			return found, err
		}
		if why := cmp.Or(strings.Join(found.Problems, "; "), fmt.Sprint(err)); !told {
			c.warn("%s is not started yet; waiting: %s", target, why)
		}
		if ctx.Err() != nil {
			return found, fmt.Errorf("stopped waiting: %s", strings.Join(found.Problems, "; "))
		}
		in.Wait = preflightWait
	}
}

// check checks a request once, or for in.Wait until it has no problem. A check that is given up ends.
func (s *server) check(ctx context.Context, target subject, in preflight.Input) (preflight.Result, error) {
	if worker := s.examineWorkers(ctx); !worker.OK && ctx.Err() == nil && in.Wait == 0 {
		return preflight.Result{}, unchecked{fmt.Errorf("%s: %s", worker.Detail, worker.Fix)}
	}
	options := client.StartWorkflowOptions{
		ID: temporal.PreflightID(target.workflowID, rand.Text()), TaskQueue: temporal.TaskQueue,
		StaticSummary: temporal.Cut("check "+target.String()+" before its start", summaryLimit),
	}
	run, err := s.ExecuteWorkflow(ctx, options, temporal.Preflight, in)
	if err != nil {
		return preflight.Result{}, s.explain("check", target, err)
	}
	waiting, stop := context.WithTimeout(ctx, in.Wait+preflightTimeout)
	defer stop()
	var found preflight.Result
	if err = run.Get(waiting, &found); err == nil {
		return found, nil
	}
	ended := waiting.Err() != nil || observe.NoWorker(err)
	if ended {
		ending, stop := context.WithTimeout(context.WithoutCancel(ctx), observe.AnswerTimeout)
		defer stop()
		_ = s.TerminateWorkflow(ending, run.GetID(), run.GetRunID(), "the command no longer waits for the check")
	}
	switch {
	case ctx.Err() != nil:
		return preflight.Result{}, fmt.Errorf("stopped waiting for the check: %w", context.Cause(ctx))
	case ended:
		return preflight.Result{}, unchecked{fmt.Errorf("no worker answered within %s", preflightTimeout)}
	}
	return preflight.Result{}, unchecked{errors.New(temporal.ErrorMessage(err))}
}

// closedWindow says that work waits for a window.
func closedWindow(window windows.Status, now time.Time) string {
	text := fmt.Sprintf("window %s is %s; ", window.Window, strings.ToLower(windowText(window, now)[:1])+windowText(window, now)[1:])
	if window.Selector != nil {
		return text + "work waits for it on clusters with " + metav1.FormatLabelSelector(window.Selector)
	}
	return text + "work waits for it"
}

// reportDrains warns of drains that would fail or wait for a person, or refuses to start them.
func (c *cli) reportDrains(target subject, found preflight.Result, refuse bool) error {
	var blocked []string
	once := adviceOnce()
	for _, drain := range found.Drains {
		if drain.Warning != "" {
			blocked = append(blocked, "cluster "+drain.Cluster+": "+once(drain.Warning))
		}
	}
	if more := len(blocked) - shownProblems; more > 0 {
		blocked = append(blocked[:shownProblems], fmt.Sprintf("%d more drains would not finish: see `drydock upgrade plan --drains`", more))
	}
	if refuse && len(blocked) > 0 {
		return fmt.Errorf("%s was not started: %s", target, strings.Join(blocked, "; "))
	}
	for _, warning := range blocked {
		c.warn("warning: %s", warning)
	}
	return nil
}

// adviceOnce returns a function that leaves out the advice at the end of a warning, after "): ", if an earlier warning had the same.
func adviceOnce() func(warning string) string {
	given := map[string]bool{}
	return func(warning string) string {
		cause, advice, found := strings.Cut(warning, "): ")
		if !found || !given[advice] {
			given[advice] = true
			return warning
		}
		return cause + "), as above"
	}
}

// renderDrains prints the previews of drains.
func renderDrains(w *page, found preflight.Result) {
	once := adviceOnce()
	t := w.newTable("CLUSTER", "NODE", "EVICT", "SKIP", "BLOCK", "NOTE")
	for _, drain := range found.Drains {
		note := once(drain.Warning)
		if note == "" && len(drain.Budgets) > 0 {
			note = "waits for PodDisruptionBudget " + joined(drain.Budgets) + ", which allows no disruption now"
		}
		t.AppendRow([]any{drain.Cluster, drain.Node, drain.Evict, drain.Skip, drain.Block, note})
	}
	if t.Length() > 0 {
		fmt.Fprintln(w, "\n"+t.Render())
	}
	for _, why := range found.Unforeseen {
		fmt.Fprintf(w, "no preview of the drains in cluster %s\n", why)
	}
	if found.NotForeseen > 0 {
		fmt.Fprintf(w, "the drains in %s more are not previewed\n", plural(found.NotForeseen, "cluster"))
	}
}
