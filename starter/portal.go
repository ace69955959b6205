package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
)

func newPortal(c *cli) *cobra.Command {
	cmd := noun("portal", "Status portals: the status of components, and announced maintenances")
	cmd.AddCommand(newPortalApply(c), newPortalStatus(c), newPortalDescribe(c), newPortalCancel(c), newPortalDelete(c), newPortalList(c))
	return cmd
}

// portalSubject names a portal.
func portalSubject(name string) subject {
	return subject{
		noun: "portal", name: name, workflowID: temporal.StatusPortalID(name),
		show: "drydock portal status " + name, list: "drydock portal list",
	}
}

// namedPortal parses the name of a portal: NAME or its workflow id.
func namedPortal(given string) (subject, error) {
	name := strings.TrimPrefix(given, temporal.StatusPortalPrefix)
	if err := portal.CheckName(name); err != nil {
		return subject{}, usagef("%q is not the name of a portal: give NAME or portal/NAME", given)
	}
	return portalSubject(name), nil
}

// completePortals completes the names of portals.
func (c *cli) completePortals(cmd *cobra.Command, args []string, typed string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return c.completeNamed(temporal.StatusPortal, true)(cmd, args, typed)
}

func newPortalCancel(c *cli) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use:   "cancel PORTAL MAINTENANCE",
		Short: "Cancel a maintenance: one in progress ends now, an upcoming one is dropped",
		Long: `Cancel a maintenance: one in progress ends now, an upcoming one is dropped.

It stays cancelled when you apply it again, unless its time changes. To cancel an opening of a window, use "drydock window cancel".`,
		Args:              operands("PORTAL", "MAINTENANCE"),
		ValidArgsFunction: c.completePortals,
		RunE: c.verb(func(ctx context.Context, args []string) error {
			request := portal.CancelRequest{Request: portal.Request{Actor: actor(), Reason: reason}, Maintenance: args[1]}
			return c.orderPortal(ctx, args[0], temporal.UpdateCancelMaintenance, request)
		}),
	}
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

func newPortalDelete(c *cli) *cobra.Command {
	var reason string
	var request portal.DeleteRequest
	cmd := &cobra.Command{
		Use:   "delete PORTAL [--component NAME]... [--maintenance NAME]...",
		Short: "Delete components, with their history, and maintenances, or a whole portal",
		Long: `Delete components, with their history, and maintenances, or a whole portal with --all.

A window that notifies a deleted portal creates it again at its next opening or closing: edit the window first.`,
		Args:              operands("PORTAL"),
		ValidArgsFunction: c.completePortals,
		RunE: c.verb(func(ctx context.Context, args []string) error {
			if !request.All && len(request.Components)+len(request.Maintenances) == 0 {
				return usagef("nothing to delete: give --component, --maintenance or --all")
			}
			request.Request = portal.Request{Actor: actor(), Reason: reason}
			return c.orderPortal(ctx, args[0], temporal.UpdateDelete, request)
		}),
	}
	cmd.Flags().StringArrayVar(&request.Components, "component", nil, "name of a component to delete")
	cmd.Flags().StringArrayVar(&request.Maintenances, "maintenance", nil, "name of a maintenance to delete")
	cmd.Flags().BoolVar(&request.All, "all", false, "delete everything")
	cmd.MarkFlagsMutuallyExclusive("all", "component")
	cmd.MarkFlagsMutuallyExclusive("all", "maintenance")
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

// orderPortal sends an update to a portal and prints the result.
func (c *cli) orderPortal(ctx context.Context, name, update string, request any) error {
	target, err := namedPortal(name)
	if err != nil {
		return err
	}
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	var answer portal.Answer
	if err := s.update(ctx, target, update, request, &answer); err != nil {
		return err
	}
	return c.print(answer, func(w *page) { renderPortalAnswer(w, answer) }, target.workflowID)
}

func renderPortalAnswer(w *page, answer portal.Answer) {
	for _, change := range answer.Changes {
		fmt.Fprintln(w, change)
	}
	target := portalSubject(answer.Portal)
	fmt.Fprintf(w, "%s: %s; see `%s`\n", target, answer.Status, target.show)
}

func newPortalDescribe(c *cli) *cobra.Command {
	cmd := c.newDescribe("portal", "NAME", byName(namedPortal), c.portalReport)
	cmd.ValidArgsFunction = c.completePortals
	return cmd
}

func newPortalList(c *cli) *cobra.Command {
	return c.newList(&listKind{
		workflowType: temporal.StatusPortal, prefix: temporal.StatusPortalPrefix,
		short: "List the portals with their status", runningHelp: "only portals that are not empty",
		word: "portal", none: "no portals; create one with `drydock portal apply -f FILE`", noneRunning: "every portal is empty",
		header: []any{"NAME", "STATUS"},
		row: func(row workflowRow, _ time.Time) table.Row {
			status := row.phase()
			if row.CompletedAt != nil {
				status = "empty, ended"
			}
			return table.Row{row.Name, status}
		},
	})
}
