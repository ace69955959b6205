package main

import (
	"context"
	"errors"
	"fmt"
	"io"

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
	cmd := noun("health", "Health checks: what must be true before work goes on")
	cmd.AddCommand(newHealthCheck(c))
	return cmd
}

// checkReport is what one look at the checks of a file showed.
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
		Short: "Try health checks: look once, and say what each shows",
		Long: `Try health checks: look once, and say what each shows. They are judged on the objects of the cluster (--context), or of a file
(--snapshot), by the function that judges them after maintenance. What addresses answer cannot be told from a file. timeoutSeconds and
stableSeconds are times of waiting, and not heeded here.

With --at it is judged as if it were another time: a service of a HarborCluster may take only so long to come up.

The file holds a list of health checks, or the field healthChecks with one. The exit status is 1 if a check does not hold.`,
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
			report, err := lookOnce(checks, node, evidence(ctx, reader).At(now))
			if err != nil {
				return err
			}
			return c.printChecks(report)
		}),
	}
	addFileFlag(cmd, &file, "file with the health checks")
	cmd.Flags().StringVar(&node, "node", "", "the node under maintenance, which a node check without a selector means (default: every node)")
	_ = cmd.RegisterFlagCompletionFunc("node", c.completeNodes)
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addOutputFlag(cmd)
	return cmd
}

// evidence is what a file or a cluster shows to checks.
func evidence(ctx context.Context, reader client.Reader) snapshot.Evidence {
	if file, ok := reader.(*snapshot.File); ok {
		return file.Evidence(ctx)
	}
	return snapshot.NewEvidence(ctx, reader, reader.(client.Client).Scheme(), endpoint.Fetch)
}

func lookOnce(checks []drydockv1.HealthCheck, node string, objects health.Objects) (checkReport, error) {
	report := checkReport{Healthy: true}
	for _, check := range checks {
		result, err := health.Evaluate(check, node, objects)
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
	if err := c.print(report, func(w io.Writer) { renderChecks(w, report) }, unhealthy...); err != nil {
		return err
	}
	if !report.Healthy {
		return fmt.Errorf("%d of %s not healthy: %s", len(unhealthy), pluralOf(len(report.Checks), "check is", "checks are"), listed(unhealthy))
	}
	return nil
}

func renderChecks(w io.Writer, report checkReport) {
	t := newTable("CHECK", "HEALTHY", "REASON", "MESSAGE")
	for _, check := range report.Checks {
		healthy := "no"
		if check.Healthy {
			healthy = "yes"
		}
		t.AppendRow(table.Row{check.Name, healthy, check.Reason, check.Message})
	}
	fmt.Fprintln(w, t.Render())
}
