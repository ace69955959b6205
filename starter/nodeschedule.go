package main

import (
	"context"
	"fmt"
	"slices"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

func newNodeSchedule(c *cli) *cobra.Command {
	var flags decisionFlags
	var file, config string
	cmd := &cobra.Command{
		Use:   "schedule",
		Short: "Show which node maintenances may start now, and why each of the others waits",
		Long: `Show which node maintenances may start now, and why each of the others waits. The command changes nothing. It decides from the
nodes, the NodeMaintenances and the MaintenanceOperatorConfig in the cluster (--context) or in a file (--snapshot), with the same function as
the scheduler that grants slots. With --cluster it also reads the queue of that scheduler, which has the maintenances that have no object.
Without --cluster, those count only on nodes with an ownership mark.

With -f the command validates the MaintenanceOperatorConfig in that file and uses it instead of the cluster's. Use it to try budgets before
you apply them.

With --at the command decides for another time: requests that have waited longer than agingSeconds go first.`,
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
			named, err := kube.ParseMaintenanceConfig(config)
			if err != nil {
				return usagef("--maintenance-config %v", err)
			}
			in, err := snapshot.Scheduling(ctx, reader, budgets, named, now)
			if err != nil {
				return flags.unreadable(err)
			}
			if budgets == nil {
				if err := c.warnOfIgnoredBudgets(ctx, reader, named, config); err != nil {
					return err
				}
			}
			if c.cluster != "" && flags.snapshot == "" { // the environment variable may be set beside --snapshot
				if err := c.addQueue(ctx, &in); err != nil {
					return err
				}
			}
			decision := scheduling.Schedule(in)
			granted := make([]string, 0, len(decision.Granted))
			for _, request := range decision.Granted {
				granted = append(granted, request.Namespace+"/"+request.Name)
			}
			return c.print(decision, func(w *page) { renderSchedule(w, scheduling.Ranked(in), decision) }, granted...)
		}),
	}
	cmd.Flags().StringVarP(&file, "filename", "f", "", "file with the MaintenanceOperatorConfig to use instead of the cluster's; - is standard input")
	cmd.Flags().StringVar(&config, "maintenance-config", kube.SystemNamespace, "NAMESPACE, or NAMESPACE/NAME, of the MaintenanceOperatorConfig that counts, as for drydock-worker")
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addClusterFlag(cmd)
	cmd.MarkFlagsMutuallyExclusive("snapshot", "cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// budgets returns the MaintenanceOperatorConfig in a file; nil without a file.
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

// warnOfIgnoredBudgets names the MaintenanceOperatorConfigs of a cluster whose budgets do not count because of their names.
func (c *cli) warnOfIgnoredBudgets(ctx context.Context, reader client.Reader, named types.NamespacedName, flag string) error {
	ignored, err := snapshot.IgnoredConfigs(ctx, reader, named)
	if err == nil && len(ignored) > 0 {
		c.warn("warning: no budgets count: the MaintenanceOperatorConfig of the worker is %s (--maintenance-config), and there is only %s", flag, joined(ignored))
	}
	return err
}

// addQueue adds the slots and requests in the queue of the cluster's scheduler. Without a running scheduler there are none.
func (c *cli) addQueue(ctx context.Context, in *scheduling.Input) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	queues, err := s.queues(ctx, c.cluster, temporal.StatusRequest{})
	if err != nil {
		return err
	}
	for _, q := range queues {
		if q.Trouble != "" {
			return fmt.Errorf("the slot queue of cluster %s is unknown: %s", q.Cluster, q.Trouble)
		}
		in.Requests = withQueue(in.Requests, q.Queue)
	}
	return nil
}

// withQueue merges the requests found on a cluster with those in its scheduler's queue, which has more details of the same request.
func withQueue(requests []scheduling.SlotRequest, queue []scheduling.QueueEntry) []scheduling.SlotRequest {
	queued := map[scheduling.Request]bool{}
	for _, place := range queue {
		queued[place.Request] = true
		if place.Rank == 0 { // its node has the mark of the maintenance
			queued[scheduling.Request{Node: place.Node, Name: place.Owner.WorkflowID}] = true
		}
	}
	requests = slices.DeleteFunc(requests, func(request scheduling.SlotRequest) bool { return queued[request.Request] })
	for _, place := range queue {
		requests = append(requests, scheduling.SlotRequest{Request: place.Request, Since: place.Since, Granted: place.Rank == 0})
	}
	return requests
}

// renderSchedule shows the requests in order of rank, each with its decision.
func renderSchedule(w *page, ranked []scheduling.Request, decision scheduling.Decision) {
	unavailable := "any number of nodes"
	if decision.CanBecomeUnavailable != nil {
		unavailable = plural(*decision.CanBecomeUnavailable, "more node")
	}
	fmt.Fprintf(w, "%s free, and %s may become unavailable\n", plural(decision.AvailableSlots, "slot"), unavailable)
	if len(ranked) == 0 {
		fmt.Fprintln(w, "no request is waiting")
		return
	}
	waiting := make(map[scheduling.Request]scheduling.Waiting, len(decision.Waiting))
	for _, request := range decision.Waiting {
		waiting[request.Request] = request
	}
	t := w.newTable("RANK", "REQUEST", "NODE", "REQUESTOR", "DECISION", "REASON")
	for i, request := range ranked {
		row := table.Row{i + 1, request.Namespace + "/" + request.Name, request.Node, request.Requestor, "granted", ""}
		if why, waits := waiting[request]; waits {
			row[4], row[5] = "waits", fmt.Sprintf("%s: %s", why.Reason, why.Message)
		}
		t.AppendRow(row)
	}
	fmt.Fprintln(w, t.Render())
}
