package main

import (
	"context"

	"github.com/spf13/cobra"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func newNodeJoin(c *cli) *cobra.Command {
	var request temporal.SignalRequest
	cmd := &cobra.Command{
		Use:   "join NAME|NODE --requestor ID",
		Short: "Join a maintenance that has a node: the node is returned when all its requestors are done",
		Long: `Join a maintenance that has a node: the node is returned when all its requestors are done. You become one more of its
additionalRequestors. The node is cordoned and drained once, as that maintenance says. When you have finished, run "drydock node done NAME --requestor ID".

A maintenance whose node is being returned, or that belongs to a rollout, cannot be joined. Start a maintenance then ("drydock node
maintain"): it waits for the node.`,
		Args: operands("NAME"), ValidArgsFunction: c.completeMaintenances,
		RunE: c.serverVerb(func(ctx context.Context, s *server, args []string) error {
			target, err := c.maintenanceOf(ctx, s, args[0], "", false)
			if err != nil {
				return err
			}
			request.Actor = actor()
			var status maintenancev1.NodeMaintenanceStatus
			if err := s.update(ctx, target, temporal.UpdateJoin, request, &status); err != nil {
				return err
			}
			return c.say("%s: %s joined; the node is %s; see `%s`", target, request.Requestor, joinedState(status), target.show)
		}),
	}
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	addReasonFlag(cmd, &request.Reason)
	cmd.Flags().StringVar(&request.Requestor, "requestor", "", "requestor that joins, e.g. driver.example.com")
	_ = cmd.MarkFlagRequired("requestor")
	return cmd
}

// joinedState describes for a requestor that has joined whether it may start.
func joinedState(status maintenancev1.NodeMaintenanceStatus) string {
	if status.ReadyForRequestors {
		return "ready"
	}
	return "not ready yet (" + string(status.State) + ")"
}
