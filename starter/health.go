package main

import (
	"context"
	"errors"
	"fmt"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/endpoint"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/snapshot"
)

func newHealth(c *cli) *cobra.Command {
	cmd := noun("health", "Health checks: conditions that must hold before work continues")
	cmd.AddCommand(newHealthCheck(c))
	return cmd
}

// checkReport is the result of health checks.
type checkReport struct {
	Healthy bool          `json:"healthy"`
	Checks  []checkedOnce `json:"checks"`
}

type checkedOnce struct {
	Name     string              `json:"name"`
	Healthy  bool                `json:"healthy"`
	Reason   string              `json:"reason,omitempty"`
	Message  string              `json:"message"`
	Blockers []drydockv1.Blocker `json:"blockers,omitempty"`
}

func newHealthCheck(c *cli) *cobra.Command {
	var file, node string
	var flags decisionFlags
	cmd := &cobra.Command{
		Use:   "check -f FILE",
		Short: "Run health checks once and print each result",
		Long: `Run health checks once and print each result. The command evaluates the objects in the cluster (--context) or in a file (--snapshot), with
the same function as a maintenance. Checks of network addresses need a cluster. The command ignores timeoutSeconds and stableSeconds.

With --at the command evaluates the checks for another time: the start-up time of a service of a HarborCluster is limited.

The file has a list of health checks, or the field healthChecks with such a list. The exit status is 1 if a check fails.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			now, err := flags.now()
			if err != nil {
				return err
			}
			checks, err := manifest.LoadHealthChecks(file, c.In)
			if err != nil {
				return inputError(err)
			}
			reader, err := c.reader(flags)
			if err != nil {
				return err
			}
			report, err := lookOnce(ctx, checks, node, evidence(ctx, reader).At(now))
			if err != nil {
				return err
			}
			return c.printChecks(report)
		}),
	}
	addFileFlag(cmd, &file, "file with the health checks")
	cmd.Flags().StringVar(&node, "node", "", "node for node checks without a selector (default: all nodes)")
	_ = cmd.RegisterFlagCompletionFunc("node", c.completeNodes)
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// evidence is the input of checks from a file or a cluster.
func evidence(ctx context.Context, reader client.Reader) snapshot.Evidence {
	if file, ok := reader.(*snapshot.File); ok {
		return file.Evidence(ctx)
	}
	return snapshot.NewEvidence(ctx, reader, reader.(client.Client).Scheme(), endpoint.Fetch)
}

func lookOnce(ctx context.Context, checks []drydockv1.HealthCheck, node string, objects health.Objects) (checkReport, error) {
	report := checkReport{Healthy: true}
	for _, check := range checks {
		result, err := health.Evaluate(ctx, check, node, objects)
		if errors.Is(err, health.ErrInvalid) {
			return checkReport{}, inputError(err)
		}
		if err != nil {
			return checkReport{}, err
		}
		report.Healthy = report.Healthy && result.Healthy
		report.Checks = append(report.Checks, checkedOnce{check.Name, result.Healthy, result.Reason, result.Message, result.Blockers})
	}
	return report, nil
}

func (c *cli) printChecks(report checkReport) error {
	var unhealthy []string
	for _, check := range report.Checks {
		if !check.Healthy {
			unhealthy = append(unhealthy, check.Name)
		}
	}
	if err := c.print(report, func(w *page) { renderChecks(w, report) }, unhealthy...); err != nil {
		return err
	}
	if !report.Healthy {
		return fmt.Errorf("%d of %s not healthy: %s", len(unhealthy), pluralOf(len(report.Checks), "check is", "checks are"), joined(unhealthy))
	}
	return nil
}

func renderChecks(w *page, report checkReport) {
	t := w.newTable("CHECK", "HEALTHY", "REASON", "MESSAGE")
	for _, check := range report.Checks {
		healthy := "no"
		if check.Healthy {
			healthy = "yes"
		}
		t.AppendRow(table.Row{check.Name, healthy, check.Reason, check.Message})
	}
	fmt.Fprintln(w, t.Render())
}
