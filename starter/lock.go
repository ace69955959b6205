package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	locksworkflow "drydock.dev/drydock/workflows/locks"
)

func newLock(c *cli) *cobra.Command {
	cmd := noun("lock", "Workload locks: applications that must release a cluster or a node before it is disrupted")
	controller := noun("controller", "Run the lock controller of an application that does not have one")
	controller.AddCommand(newLockControllerStart(c), newLockControllerApply(c), newLockControllerEdit(c), newLockControllerStatus(c), newLockControllerDescribe(c), newLockControllerList(c), newLockControllerCancel(c))
	cmd.AddCommand(controller, newLockList(c), newLockProgress(c), newLockEvaluate(c), newLockGate(c))
	return cmd
}

// lockResource names a lock or a request as kubectl does.
func lockResource(kind, name string) string {
	return strings.ToLower(kind) + "." + lcmv1.GroupVersion.Group + "/" + name
}

// lockSubject names what a lock holds: a node or the cluster.
func lockSubject(node string) string {
	if node == "" {
		return "cluster"
	}
	return "node " + node
}

// lockController names a lock controller.
func lockController(cluster, controllerName string) subject {
	return subject{
		noun: "lock controller", name: controllerName + " in cluster " + cluster,
		workflowID: temporal.WorkloadLockControllerID(cluster, controllerName),
		show:       fmt.Sprintf("drydock lock controller status %s --cluster %s", controllerName, cluster),
		list:       "drydock lock controller list --cluster " + cluster,
	}
}

// namedLockController parses the name of a lock controller: its controllerName or its workflow id.
func (c *cli) namedLockController(name string) (subject, error) {
	if parts := strings.Split(name, "/"); len(parts) == 3 && parts[0] == "locks" {
		return lockController(parts[1], parts[2]), nil
	}
	if err := c.requireCluster(); err != nil {
		return subject{}, err
	}
	return lockController(c.cluster, name), nil
}

func newLockControllerStart(c *cli) *cobra.Command {
	cmd := c.lockControllerFromFile("start -f FILE", "Start the lock controller that a WorkloadLockPolicy describes",
		`Start the lock controller that a WorkloadLockPolicy describes. Each application has at most one in a cluster. It
runs until you cancel it.`,
		func(ctx context.Context, s *server, target subject, policy *drydockv1.WorkloadLockPolicy, reason string) error {
			return c.startLockController(ctx, s, target, policy, reason)
		})
	cmd.Aliases = []string{"create"}
	return cmd
}

func (c *cli) startLockController(ctx context.Context, s *server, target subject, policy *drydockv1.WorkloadLockPolicy, reason string) error {
	run, err := s.start(ctx, target, reason, temporal.WorkloadLockControllerOptions(c.cluster, policy.Spec.ControllerName),
		temporal.WorkloadLockController, locksworkflow.Input{Cluster: c.cluster, Policy: *policy})
	if err != nil {
		return err
	}
	started := workflowStarted{Metadata: observe.RefOf(target.workflowID, run.GetRunID())}
	return c.print(started, func(w *page) { fmt.Fprintf(w, "%s started; see `%s`\n", target, target.show) }, target.workflowID)
}

// lockControllerStatus is the output of -o json: the status of a lock controller.
type lockControllerStatus struct {
	Metadata workflowRef          `json:"metadata"`
	Status   locksworkflow.Status `json:"status"`
}

func newLockControllerStatus(c *cli) *cobra.Command {
	cmd := &cobra.Command{
		Use: "status NAME", ValidArgsFunction: c.completeNamed(temporal.WorkloadLockController, false),
		Short: "Show the locks of an application with the reason for each state",
		Args:  operands("NAME"),
		RunE:  c.subjectVerb(c.namedLockController, c.showStatus(c.lockControllerReport)),
	}
	c.addClusterFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// lockControllerReport reads the status once.
func (c *cli) lockControllerReport(ctx context.Context, s *server, target subject) (report, error) {
	execution, err := s.describe(ctx, target, "")
	if err != nil {
		return report{}, err
	}
	status := lockControllerStatus{Metadata: observe.RefOfExecution(target.workflowID, execution)}
	err = s.status(ctx, target, execution, &status.Status)
	return report{status, func(w *page) { renderLocks(w, status, w.now) }, target.workflowID}, c.noteResult(err)
}

func renderLocks(w *page, status lockControllerStatus, now time.Time) {
	s := status.Status
	fmt.Fprintf(w, "locks of %s in cluster %s   %s\n", status.Metadata.Name, status.Metadata.Cluster, s.State)
	if s.Source != nil {
		fmt.Fprintf(w, "requested by %s\n", s.Source)
	}
	fmt.Fprint(w, startText(status.Metadata, "", "\n"))
	if s.Wait != nil {
		fmt.Fprintf(w, "waiting: %s\n", waitText(*s.Wait, now))
	}
	for _, note := range s.Notes {
		fmt.Fprintf(w, "note: %s\n", note)
	}
	if s.Locks == nil {
		return
	}
	t := w.newTable("LOCK", "STATE", "REASON", "MESSAGE")
	for _, lock := range append([]locks.LockDecision{s.Locks.Cluster}, s.Locks.Nodes...) {
		t.AppendRow(table.Row{lockSubject(lock.Node), lock.To, lock.Reason, lock.Message})
	}
	fmt.Fprintf(w, "\n%s\n", t.Render())
	fmt.Fprintf(w, "%s: %d active, %d inactive, %d failed\n", plural(s.Locks.Total, "node lock"), s.Locks.Active, s.Locks.Inactive, s.Locks.Failed)
	if s.Locks.Progress.Description != "" { // a controller that ended early has no progress
		fmt.Fprintln(w, s.Locks.Progress)
	}
}

func newLockControllerCancel(c *cli) *cobra.Command {
	cmd := newSignal(c, workflowSignal{
		name: temporal.SignalCancel, alias: "delete", short: "Stop a lock controller; its locks keep their state", result: "stops: its locks keep their state",
	}, c.namedLockController)
	cmd.ValidArgsFunction = c.completeNamed(temporal.WorkloadLockController, true)
	c.addClusterFlag(cmd)
	return cmd
}

func newLockControllerDescribe(c *cli) *cobra.Command {
	cmd := c.newDescribe("lock controller", "NAME", byName(c.namedLockController), c.lockControllerReport)
	cmd.ValidArgsFunction = c.completeNamed(temporal.WorkloadLockController, false)
	c.addClusterFlag(cmd)
	return cmd
}

func newLockControllerList(c *cli) *cobra.Command {
	return c.newList(&listKind{
		workflowType: temporal.WorkloadLockController, prefix: "locks/", clustered: true,
		short: "List the lock controllers", runningHelp: "only running ones",
		word: "lock controller", none: "no lock controllers; start one with `drydock lock controller start -f FILE --cluster CLUSTER`", noneRunning: "no lock controller is running",
		header: []any{"CLUSTER", "NAME", "STATE", "STARTED"},
		row: func(row workflowRow, now time.Time) table.Row {
			return table.Row{row.Cluster, row.Name, row.phase(), age(now, row.StartedAt) + " ago"}
		},
	})
}
