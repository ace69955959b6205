package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/restored"
	"drydock.dev/drydock/internal/temporal"
)

// showHolds is the command that shows the holds.
const showHolds = "drydock hold status"

// emergencyStop names the workflow of the emergency stop.
func emergencyStop() subject {
	return subject{noun: "emergency stop", name: temporal.EmergencyStopID, workflowID: temporal.EmergencyStopID, show: showHolds, list: showHolds}
}

func newHold(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "hold --cluster NAME|--all",
		Short: "Emergency stop: start no new disruption in a cluster, or in all, until release",
		Long: `Emergency stop: start no new disruption in a cluster, or in all, until release.

Running steps finish: a drain continues until it ends. No further cluster, node, policy or step starts: no lock is requested, no node is
cordoned, drained or made ready, and no job is started. Health checks, cleanup, the return of nodes to service, and cancel continue to work.
Timeouts of rollouts with a held cluster are suspended. The hold lasts until it is released, also across restarts.

A second hold of the same cluster replaces the actor and the reason.

After a restore of Temporal's database from a backup, use --all --restored before the workers start. Every restored workflow then knows the hold before it
continues, and none repeats what it did after the backup. Holds that the hub has stay.`,
	}
	afterRestore := false
	c.addHoldFlags(cmd, func(ctx context.Context, s *server, request emergency.Request) error {
		switch {
		case !afterRestore:
			return c.hold(ctx, s, request)
		case !request.All:
			return usagef("--restored is for all clusters: set --all")
		}
		return c.holdRestored(ctx, s, request)
	})
	cmd.Flags().BoolVar(&afterRestore, "restored", false, "Temporal's database was restored from a backup, and no worker has started since; with --all")
	cmd.AddCommand(newHoldStatus(c))
	return cmd
}

func newRelease(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "release --cluster NAME|--all",
		Short: "Release an emergency stop: work resumes",
		Long: `Release an emergency stop: work resumes.

Release each hold as you made it: --all releases the hold of all clusters, --cluster the hold of that cluster. A cluster with both holds
resumes when both are released.`,
	}
	c.addHoldFlags(cmd, c.release)
	return cmd
}

// addHoldFlags makes cmd run work on the clusters of its flags.
func (c *cli) addHoldFlags(cmd *cobra.Command, work func(context.Context, *server, emergency.Request) error) {
	request := emergency.Request{Actor: actor()}
	cmd.Args = operands()
	cmd.RunE = c.verb(func(ctx context.Context, _ []string) error {
		switch {
		case len(request.Clusters) == 0 && !request.All:
			return usagef("no cluster: set --cluster or --all")
		case len(request.Clusters) > 0 && request.All:
			return usagef("--cluster contradicts --all: set one of the two")
		}
		if err := request.Check(); err != nil {
			return usageError{error: err}
		}
		s, err := c.dial(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		return work(ctx, s, request)
	})
	cmd.Flags().StringSliceVar(&request.Clusters, "cluster", nil, "name of the cluster in the worker's configuration; may be repeated")
	_ = cmd.RegisterFlagCompletionFunc("cluster", c.completeClusters)
	cmd.Flags().BoolVar(&request.All, "all", false, "all clusters, including future ones")
	addReasonFlag(cmd, &request.Reason)
	c.addOutputFlag(cmd)
}

func (c *cli) hold(ctx context.Context, s *server, request emergency.Request) error {
	answer, err := s.hold(ctx, request)
	if errors.Is(err, observe.ErrNoWorker) {
		return c.holdLater(ctx, s, request)
	}
	if err != nil {
		return err
	}
	err = c.print(answer, func(w *page) {
		for _, change := range answer.Changes {
			fmt.Fprintln(w, heldText(change))
		}
		fmt.Fprintf(w, "%s notified; see `%s`\n", subscribersText(answer.Subscribers), showHolds)
	}, scopeNames(answer.Holds)...)
	s.noteUnknownClusters(ctx, c.ErrOut, request.Clusters)
	return err
}

// hold starts the emergency stop if it is not running, and returns when the hold is in its history. If no worker answers, the error is
// observe.ErrNoWorker.
func (s *server) hold(ctx context.Context, request emergency.Request) (emergency.Answer, error) {
	return s.change(ctx, "hold", func(ctx context.Context) (client.WorkflowUpdateHandle, error) {
		return s.startAndUpdate(ctx, updateOf(temporal.UpdateHold, request))
	})
}

func (s *server) startAndUpdate(ctx context.Context, update client.UpdateWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	return s.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: s.NewWithStartWorkflowOperation(temporal.EmergencyStopOptions(), temporal.EmergencyStop),
		UpdateOptions:          update,
	})
}

func updateOf(name string, request emergency.Request) client.UpdateWorkflowOptions {
	return client.UpdateWorkflowOptions{
		WorkflowID: temporal.EmergencyStopID, UpdateName: name, Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted,
	}
}

// changeTimeout is how long an update may take before no worker is assumed: that of a query, and the time of a workflow task.
const changeTimeout = observe.AnswerTimeout + 2*time.Second

// change sends an update to the emergency stop and waits for the answer.
func (s *server) change(ctx context.Context, doing string, send func(context.Context) (client.WorkflowUpdateHandle, error)) (emergency.Answer, error) {
	waiting, cancel := context.WithTimeout(ctx, changeTimeout)
	defer cancel()
	var answer emergency.Answer
	update, err := send(waiting)
	if err == nil {
		err = update.Get(waiting, &answer)
	}
	switch {
	case err == nil:
		return answer, nil
	case ctx.Err() == nil && (timeIsUp(waiting) || observe.NoWorker(err)):
		return answer, unanswered(doing, showHolds, err)
	case temporal.ErrorType(err) == temporal.ErrInvalidSpec:
		return answer, fmt.Errorf("%s: %s", doing, temporal.ErrorMessage(err))
	}
	if _, never := errors.AsType[*serviceerror.NotFound](err); never {
		return answer, fmt.Errorf("%s: nothing is held", doing)
	}
	return answer, s.explain(doing+" by", emergencyStop(), err)
}

// holdLater sends the request as a signal when no worker answers: it is durable and takes effect when a worker is back.
func (c *cli) holdLater(ctx context.Context, s *server, request emergency.Request) error {
	_, err := s.SignalWithStartWorkflow(ctx, temporal.EmergencyStopID, temporal.SignalHold, request, temporal.EmergencyStopOptions(), temporal.EmergencyStop)
	if err != nil {
		return s.explain("hold by", emergencyStop(), err)
	}
	c.warn("no worker answers, so nothing new starts now. The hold is saved and takes effect when a worker is back; "+
		"work that is due at that moment may start before it. Then see `%s`", showHolds)
	pending := pendingHold{Pending: request, Answer: emergency.Answer{Changes: []emergency.Change{}, Holds: []drydockv1.Hold{}}}
	return c.print(pending, func(*page) {})
}

// holdRestored holds what was restored from a backup, before the workers start.
func (c *cli) holdRestored(ctx context.Context, s *server, request emergency.Request) error {
	notified, err := restored.Hold(ctx, s, request)
	if err != nil {
		return err
	}
	answer := emergency.Answer{Changes: []emergency.Change{}, Holds: []drydockv1.Hold{}, Subscribers: notified}
	return c.print(pendingHold{Pending: request, Answer: answer}, func(w *page) {
		fmt.Fprintf(w, "every cluster is held: %s notified; start the workers, cancel what is over, and then `%s`\n",
			subscribersText(notified), emergency.ReleaseCommand(drydockv1.HoldAll))
	})
}

// pendingHold is the answer to a hold that waits for a worker.
type pendingHold struct {
	emergency.Answer
	Pending emergency.Request `json:"pending"`
}

// noteUnknownClusters warns of names without any workflow, which may be mistyped. It ignores errors.
func (s *server) noteUnknownClusters(ctx context.Context, w io.Writer, clusters []string) {
	for _, cluster := range clusters {
		query := fmt.Sprintf("%s = '%s'", temporal.AttributeCluster.GetName(), quoted(cluster))
		count, err := s.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query})
		if err == nil && count.GetCount() == 0 {
			fmt.Fprintf(w, "note: no work has run on a cluster named %s: check the name\n", cluster)
		}
	}
}

func (c *cli) release(ctx context.Context, s *server, request emergency.Request) error {
	answer, err := s.release(ctx, request)
	if err != nil {
		return err
	}
	return c.print(answer, func(w *page) {
		for _, change := range answer.Changes {
			fmt.Fprintln(w, releasedText(change, w.now))
		}
		for _, hold := range answer.Holds {
			fmt.Fprintf(w, "still held: %s (`%s`)\n", hold, emergency.ReleaseCommand(hold.Scope))
		}
	}, scopeNames(answer.Holds)...)
}

// release returns when the release is in the history of the emergency stop. It restarts a terminated one, which loads the saved holds. If no
// worker answers, the error is observe.ErrNoWorker.
func (s *server) release(ctx context.Context, request emergency.Request) (emergency.Answer, error) {
	return s.change(ctx, "release", func(ctx context.Context) (client.WorkflowUpdateHandle, error) {
		update, err := s.UpdateWorkflow(ctx, updateOf(temporal.UpdateRelease, request))
		if _, ended := errors.AsType[*serviceerror.NotFound](err); !ended {
			return update, err
		}
		if _, never := s.DescribeWorkflow(ctx, temporal.EmergencyStopID, ""); never != nil {
			return nil, err
		}
		return s.startAndUpdate(ctx, updateOf(temporal.UpdateRelease, request))
	})
}

func newHoldStatus(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status", Aliases: []string{"list", "describe"},
		Short: "Show what is held, by whom, why and since when",
		Args:  operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			status, err := s.holdStatus(ctx)
			if err != nil {
				return err
			}
			return c.print(status, func(w *page) { printHolds(w, status, w.now) }, scopeNames(status.Holds)...)
		}),
	}
	c.addOutputFlag(cmd)
	return cmd
}

// holdStatus is the output of -o json: the holds.
type holdStatus struct {
	Holds []drydockv1.Hold `json:"holds"`
	// Subscribers is the number of workflows that are notified of changes: rollouts, node maintenances, Harbors, and schedulers of slots.
	Subscribers int `json:"subscribers"`
	// NotSaved is why the holds are not saved on the hub; they are lost if the workflow is terminated.
	NotSaved string `json:"notSaved,omitempty"`
}

// holdStatus queries the emergency stop. If it has never run, nothing is held.
func (s *server) holdStatus(ctx context.Context) (holdStatus, error) {
	status := holdStatus{Holds: []drydockv1.Hold{}}
	_, err := s.DescribeWorkflow(ctx, temporal.EmergencyStopID, "")
	if _, never := errors.AsType[*serviceerror.NotFound](err); never {
		return status, nil
	}
	if err != nil {
		return status, s.explain("describe", emergencyStop(), err)
	}
	return status, s.query(ctx, emergencyStop(), "", &status)
}

func printHolds(w *page, status holdStatus, now time.Time) {
	if len(status.Holds) == 0 {
		fmt.Fprintln(w, "nothing is held")
		return
	}
	t := w.newTable("HELD", "SINCE", "BY", "REASON", "RELEASE WITH")
	for _, hold := range status.Holds {
		t.AppendRow(table.Row{hold.Scope, age(now, hold.Since.Time) + " ago", hold.By, hold.Reason, emergency.ReleaseCommand(hold.Scope)})
	}
	fmt.Fprintln(w, t.Render())
	fmt.Fprintf(w, "%s notified of changes\n", subscribersText(status.Subscribers))
	if status.NotSaved != "" {
		fmt.Fprintf(w, "not saved on the hub: %s\n", status.NotSaved)
	}
}

func subscribersText(n int) string {
	return pluralOf(n, "workflow is", "workflows are")
}

// heldText describes the effect of a hold.
func heldText(change emergency.Change) string {
	if change.Before == nil {
		return emergency.Message(*change.After)
	}
	text := change.Before.String()
	if change.Before.ByWhom() != change.After.ByWhom() {
		text += "; now held" + change.After.ByWhom()
	}
	return "already held: " + text
}

func releasedText(change emergency.Change, now time.Time) string {
	return fmt.Sprintf("%s is released; it was held for %s%s", change.Scope, age(now, change.Before.Since.Time), change.Before.ByWhom())
}

// holdLine describes a hold; empty without one, or if the wait already describes it.
func holdLine(hold *drydockv1.Hold, reason string) string {
	if hold == nil || reason == emergency.Reason(*hold) {
		return ""
	}
	if hold.Window != "" {
		return "waits: " + emergency.Message(*hold)
	}
	return fmt.Sprintf("held: %s (`%s`)", hold, emergency.ReleaseCommand(hold.Scope))
}

// reasonOf is the reason of a wait; empty without one.
func reasonOf(wait *drydockv1.Wait) string {
	if wait == nil {
		return ""
	}
	return wait.Reason
}

func scopeNames(held []drydockv1.Hold) []string {
	names := []string{}
	for _, hold := range held {
		names = append(names, string(hold.Scope))
	}
	return names
}
