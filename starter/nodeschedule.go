package main

import (
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/snapshot"
)

func newNodeSchedule(c *cli) *cobra.Command {
	var flags decisionFlags
	var file string
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Show which node maintenances may start now, and why each of the others waits",
		Long: `Show which node maintenances may start now, and why each of the others waits. Nothing is touched: it is decided on the nodes, the
NodeMaintenances and the MaintenanceOperatorConfig of the cluster (--context), or of a file (--snapshot), by the function that grants slots to
maintenances. What rollouts and people have started without an object is added from the queue of the cluster's scheduler when --cluster names it; without
that, it counts only where a node bears its mark.

With -f it is decided with the MaintenanceOperatorConfig in that file instead of the cluster's, once that has been found to be valid: see what budgets do
before you apply them.

With --at it is decided as if it were another time: requests that have waited for longer than agingSeconds go first.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			now, err := flags.now()
			if err != nil {
				return err
			}
			budgets, err := c.budgets(file)
			if err != nil {
				return err
			}
			reader, err := c.reader(flags)
			if err != nil {
				return err
			}
			in, err := snapshot.Scheduling(ctx, reader, budgets, now)
			if err != nil {
				return flags.unreadable(err)
			}
			if c.cluster != "" && flags.snapshot == "" { // the environment may name one beside a file
				if err := c.addQueue(ctx, &in); err != nil {
					return err
				}
			}
			decision := scheduling.Schedule(in)
			granted := make([]string, 0, len(decision.Granted))
			for _, request := range decision.Granted {
				granted = append(granted, request.Namespace+"/"+request.Name)
			}
			return c.print(decision, func(w io.Writer) { renderSchedule(w, scheduling.Ranked(in), decision) }, granted...)
		}),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the MaintenanceOperatorConfig to decide with, instead of the cluster's; - is standard input")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addClusterFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("snapshot", "cluster")
	c.addTemporalFlags(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

// budgets are those of the MaintenanceOperatorConfig in a file; nil without one.
func (c *cli) budgets(file string) (*maintenancev1.MaintenanceOperatorConfigSpec, error) {
	if file == "" {
		return nil, nil
	}
	config, err := manifest.LoadOne[*maintenancev1.MaintenanceOperatorConfig](file, c.In)
	if err != nil {
		return nil, inputError(err)
	}
	return &config.Spec, nil
}

// addQueue adds who has the slots of the cluster, and who waits for one, to what is decided on. Where no scheduler runs, nobody does.
func (c *cli) addQueue(ctx context.Context, in *scheduling.Input) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	queues, err := s.queues(ctx, c.cluster)
	if err != nil {
		return err
	}
	for _, q := range queues {
		if q.Trouble != "" {
			return fmt.Errorf("who has the slots of cluster %s is not known: %s", q.Cluster, q.Trouble)
		}
		in.Asks = withQueue(in.Asks, q.Queue)
	}
	return nil
}

// withQueue are the requests of a cluster's objects and marks, and those that its scheduler knows. Of one that both know the scheduler knows more.
func withQueue(asks []scheduling.Ask, queue []scheduling.Place) []scheduling.Ask {
	for _, place := range queue {
		asks = slices.DeleteFunc(asks, func(ask scheduling.Ask) bool {
			return ask.Request == place.Request || place.Rank == 0 && ask.Node == place.Node && ask.Name == place.Asker.WorkflowID
		})
		asks = append(asks, scheduling.Ask{Request: place.Request, Since: place.Since, Granted: place.Rank == 0})
	}
	return asks
}

// renderSchedule shows the requests in order of rank, each with what was decided.
func renderSchedule(w io.Writer, ranked []scheduling.Request, decision scheduling.Decision) {
	unavailable := "any number of nodes"
	if decision.CanBecomeUnavailable != nil {
		unavailable = plural(*decision.CanBecomeUnavailable, "more node")
	}
	fmt.Fprintf(w, "%s free, and %s may become unavailable\n", plural(decision.AvailableSlots, "slot"), unavailable)
	if len(ranked) == 0 {
		fmt.Fprintln(w, "no request waits")
		return
	}
	waiting := make(map[scheduling.Request]scheduling.Waiting, len(decision.Waiting))
	for _, request := range decision.Waiting {
		waiting[request.Request] = request
	}
	t := newTable("RANK", "REQUEST", "NODE", "REQUESTOR", "DECISION", "REASON")
	for i, request := range ranked {
		row := table.Row{i + 1, request.Namespace + "/" + request.Name, request.Node, request.Requestor, "granted", ""}
		if why, waits := waiting[request]; waits {
			row[4], row[5] = "waits", fmt.Sprintf("%s: %s", why.Reason, why.Message)
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
}
