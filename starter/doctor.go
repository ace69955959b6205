package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"go.temporal.io/api/workflowservice/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/setup"
	"drydock.dev/drydock/internal/temporal"
)

func newDoctor(c *cli) *cobra.Command {
	var where sites
	var strict bool
	var clustersFile string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Check what is reachable and what is missing, with the fix",
		Long: `Check what is reachable and what is missing, with the fix: Temporal, how long it keeps closed workflows, its search
attributes, a worker, and the clusters of the given kubeconfig contexts, with operators there that Drydock can replace. With --clusters it also shows
where the clusters of that file come from, why objects on the hub that name clusters are not used, and whether the credentials of the others suffice.
The command changes nothing.

A WARNING is deliberate or harmless now, but holds work up or hides something, such as an emergency stop. The exit status is 0 only if every
check passes; with --strict, only if there is no warning either.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			findings := c.examine(ctx, where)
			if clustersFile != "" {
				findings = append(findings, c.examineClusters(ctx, clustersFile, where)...)
			}
			if err := c.print(findings, func(w *page) { printFindings(w, findings) }); err != nil {
				return err
			}
			if slices.ContainsFunc(findings, func(f finding) bool { return !f.OK || strict && f.Warning }) {
				return errPrinted
			}
			return nil
		}),
	}
	cmd.Flags().BoolVar(&strict, "strict", false, "fail also for warnings")
	cmd.Flags().StringVar(&clustersFile, "clusters", "", "clusters file of the workers; its discovery is read with --hub-context")
	c.addSiteFlags(cmd, &where)
	c.addOutputFlag(cmd)
	return cmd
}

// finding is the result of one check.
type finding struct {
	Check string `json:"check"`
	OK    bool   `json:"ok"`
	// Warning: the check passes, but a person should know.
	Warning bool   `json:"warning,omitempty"`
	Detail  string `json:"detail"`
	// Fix is what to do if it is not OK or a warning.
	Fix string `json:"fix,omitempty"`
}

func well(check, detail string) finding { return finding{Check: check, OK: true, Detail: detail} }

func warning(check, detail, fix string) finding {
	return finding{Check: check, OK: true, Warning: true, Detail: detail, Fix: fix}
}

func ill(check, fix string, err error) finding {
	return finding{Check: check, Detail: strings.ReplaceAll(err.Error(), "\n", "; "), Fix: fix}
}

// checkTimeout limits each check.
const checkTimeout = 5 * time.Second

func (c *cli) examine(ctx context.Context, where sites) []finding {
	findings := c.examineTemporal(ctx)
	for _, place := range where.places() {
		findings = append(findings, c.examineCluster(ctx, place, where)...)
	}
	return findings
}

func (c *cli) examineTemporal(ctx context.Context) []finding {
	whole := ctx
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	s, err := c.dial(ctx)
	if err != nil {
		return []finding{ill("temporal", "start a Temporal server, or set --address or TEMPORAL_ADDRESS", err)}
	}
	defer s.Close()
	namespace := "temporal namespace " + s.namespace
	described, err := s.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: s.namespace})
	if err != nil {
		return []finding{
			well("temporal", s.address),
			ill(namespace, "create it with `temporal operator namespace create`, or set another with --temporal-namespace", err),
		}
	}
	retention := described.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration()
	return slices.Concat([]finding{
		well("temporal", s.address), s.examineRetention(ctx, retention), s.examineSearchAttributes(ctx), s.examineWorkers(ctx), s.examineHolds(ctx),
	}, s.examineSweepers(whole), s.examineSchedulers(whole))
}

// examineHolds reports the holds. They are deliberate, so they are warnings.
func (s *server) examineHolds(ctx context.Context) finding {
	const check = "emergency stop"
	status, err := s.holdStatus(ctx)
	if errors.Is(err, observe.ErrNoWorker) {
		return ill(check, "start drydock-worker", errors.New("the holds are unknown while no worker answers"))
	}
	if err != nil {
		return ill(check, "see the message", err)
	}
	return holdFinding(check, status)
}

func holdFinding(check string, status holdStatus) finding {
	if len(status.Holds) == 0 {
		return well(check, "nothing is held")
	}
	var holds, releases []string
	for _, hold := range status.Holds {
		holds, releases = append(holds, hold.String()), append(releases, "`"+emergency.ReleaseCommand(hold.Scope)+"`")
	}
	if status.NotSaved != "" {
		holds = append(holds, "not saved on the hub: "+status.NotSaved)
	}
	return warning(check, strings.Join(holds, "; "), "when the emergency is over, "+strings.Join(releases, ", "))
}

func (s *server) examineSearchAttributes(ctx context.Context) finding {
	const check = "search attributes"
	missing, err := temporal.MissingSearchAttributes(ctx, s, s.namespace)
	switch {
	case err != nil:
		return ill(check, "see the message", err)
	case len(missing) > 0:
		return finding{Check: check, Detail: "missing: " + joined(missing), Fix: "run `drydock setup`"}
	}
	// Schedulers find the maintenances of their cluster with such a query.
	query := fmt.Sprintf("WorkflowId STARTS_WITH 'node/' AND %s IS NOT NULL", temporal.AttributeCluster.GetName())
	if _, err := s.CountWorkflow(ctx, &workflowservice.CountWorkflowExecutionsRequest{Query: query}); err != nil {
		return ill(check, "use a visibility store that takes such queries, such as PostgreSQL, MySQL 8 or Elasticsearch", fmt.Errorf("registered, but Temporal refuses %q: %w", query, err))
	}
	return well(check, "registered")
}

func (c *cli) examineCluster(ctx context.Context, at place, where sites) []finding {
	ctx, cancel := context.WithTimeout(ctx, checkTimeout)
	defer cancel()
	config, err := c.kube.config(at.context)
	if err != nil {
		return []finding{ill(at.String(), "name a context of the kubeconfig", err)}
	}
	config = rest.CopyConfig(config)
	config.Timeout = checkTimeout
	asked, err := discovery.NewDiscoveryClientForConfig(config)
	if err != nil {
		return []finding{ill(at.String(), "correct the kubeconfig", err)}
	}
	version, err := asked.ServerVersion()
	if err != nil {
		return []finding{ill(at.String(), "check that the API server runs and that the credentials are valid", err)}
	}
	findings := []finding{well(at.String(), "kubernetes "+version.GitVersion)}
	if at.site == setup.Hub {
		findings = append(findings, examineManagedClusters(asked, at), examineHubNamespace(ctx, config, at))
	}
	definitions, pruned := examineCRDs(ctx, config, at, where)
	running, unknown := runningOperators(ctx, config)
	return append(findings, definitions, operatorsFinding(at, running, unknown), objectsFinding(at, offReason(asked, pruned, running, unknown)))
}

// examineManagedClusters checks whether rollouts can select clusters.
func examineManagedClusters(asked discovery.DiscoveryInterface, at place) finding {
	const groupVersion = "cluster.open-cluster-management.io/v1"
	check := at.String() + ": managed clusters"
	resources, err := asked.ServerResourcesForGroupVersion(groupVersion)
	if err != nil {
		return ill(check, "install Open Cluster Management on the hub, or at least the CRD of ManagedCluster", fmt.Errorf("%s is not served: %w", groupVersion, err))
	}
	return well(check, "served as "+resources.GroupVersion)
}

// examineCRDs checks the CRDs of a cluster. It returns the names of those that lack fields of Drydock's.
func examineCRDs(ctx context.Context, config *rest.Config, at place, where sites) (finding, []string) {
	check := at.String() + ": CRDs"
	client, err := setup.NewCRDs(config)
	if err != nil {
		return ill(check, "correct the kubeconfig", err), nil
	}
	wanted, err := setup.Definitions(at.site)
	if err != nil {
		return ill(check, "install another build of drydock", err), nil
	}
	var missing, pruned, notes []string
	for _, definition := range wanted {
		state, lacking, err := client.Inspect(ctx, definition)
		switch {
		case err != nil:
			return ill(check, "give the user of this context the right to get CRDs", err), nil
		case state == setup.Missing:
			missing = append(missing, definition.GetName())
		case state == setup.Foreign && len(lacking) > 0:
			pruned, notes = append(pruned, definition.GetName()), append(notes, crdNote(definition, lacking))
		}
	}
	if len(missing) > 0 {
		return finding{Check: check, Detail: "missing: " + joined(missing), Fix: fmt.Sprintf("run `drydock setup --%s-context %s`", at.site, at.context)}, pruned
	}
	found := plural(len(wanted), "CRD")
	if len(notes) > 0 {
		return warning(check, found+"; "+strings.Join(notes, "; "), "that cluster drops these fields from objects: if no other client needs its CRD, apply Drydock's over it"), pruned
	}
	return well(check, found), nil
}

func crdNote(definition *unstructured.Unstructured, lacking []string) string {
	return definition.GetName() + ": " + setup.ForeignNote(lacking)
}

func printFindings(w *page, findings []finding) {
	t := w.newTable()
	for _, f := range findings {
		level := "NOT OK"
		switch {
		case f.Warning:
			level = "WARNING"
		case f.OK:
			level = "ok"
		}
		t.AppendRow(table.Row{level, f.Check, f.Detail})
		if f.Fix != "" {
			t.AppendRow(table.Row{"", "", "fix: " + f.Fix})
		}
	}
	fmt.Fprintln(w, t.Render())
}
