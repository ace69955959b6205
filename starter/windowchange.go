package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"go.temporal.io/sdk/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

func newWindowCreate(c *cli) *cobra.Command {
	return c.windowFromFile("create -f FILE", "Create a window, which opens and closes from now on",
		`Create a window, which opens and closes from now on.

Rollouts and node maintenances that wait for this window continue. You can create a window again after it has ended.`,
		func(ctx context.Context, s *server, target subject, request windows.DefineRequest) (windows.Status, error) {
			return s.createWindow(ctx, target, request)
		})
}

func (s *server) createWindow(ctx context.Context, target subject, request windows.DefineRequest) (windows.Status, error) {
	var status windows.Status
	err := s.answered(ctx, target, "create", &status, func(ctx context.Context) (client.WorkflowUpdateHandle, error) {
		return s.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: s.NewWithStartWorkflowOperation(temporal.MaintenanceWindowOptions(target.name), temporal.MaintenanceWindow),
			UpdateOptions: client.UpdateWorkflowOptions{
				WorkflowID: target.workflowID, UpdateName: temporal.UpdateDefine, Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted,
			},
		})
	})
	return status, err
}

// newWindowApply returns the command that creates a window, or edits an existing one.
func newWindowApply(c *cli) *cobra.Command {
	return c.windowFromFile("apply -f FILE", "Create a window, or change it if it exists",
		`Create a window, or change it if it exists, as "create" and "edit" do.`,
		func(ctx context.Context, s *server, target subject, request windows.DefineRequest) (windows.Status, error) {
			var current windows.Status
			if s.query(ctx, target, "", &current) == nil && current.Phase != windows.PhaseUndefined && current.Phase != windows.PhaseOver {
				return s.orderWindow(ctx, target, temporal.UpdateEdit, request)
			}
			return s.createWindow(ctx, target, request) // it reports the errors of the server
		})
}

func newWindowEdit(c *cli) *cobra.Command {
	return c.windowFromFile("edit -f FILE", "Change a window; the current opening keeps its end",
		`Change a window; the current opening keeps its end.

Extensions and cancellations of upcoming openings do not apply to the changed calendar.`,
		func(ctx context.Context, s *server, target subject, request windows.DefineRequest) (windows.Status, error) {
			return s.orderWindow(ctx, target, temporal.UpdateEdit, request)
		})
}

// newWindowDelete returns the command that cancels all openings of a window.
func newWindowDelete(c *cli) *cobra.Command {
	return c.windowOrder(windowOrder{
		verb: "delete", short: "Delete a window: cancel all its openings", update: temporal.UpdateCancel,
		long:    `The current opening ends now, and the window never opens again, as with "cancel --all".`,
		flags:   func(*cobra.Command) {},
		request: func(r windows.Request) (any, error) { return windows.CancelRequest{Request: r, All: true}, nil },
	})
}

// windowFromFile returns a command that reads a MaintenanceWindow.
func (c *cli) windowFromFile(use, short, long string, order func(context.Context, *server, subject, windows.DefineRequest) (windows.Status, error)) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use: use, Short: short, Long: long,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			object, err := c.loadWindow(file)
			if err != nil {
				return err
			}
			request := windows.DefineRequest{Request: windows.Request{Actor: actor(), Reason: reason}, Object: *object}
			return c.withWindow(ctx, windowSubject(object.Namespace, object.Name), func(s *server, target subject) (windows.Status, error) {
				return order(ctx, s, target, request)
			})
		}),
	}
	addFileFlag(cmd, &file, "file with the MaintenanceWindow")
	c.addNamespaceFlag(cmd)
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

// loadWindow reads a MaintenanceWindow from a file and sets its namespace.
func (c *cli) loadWindow(file string) (*drydockv1.MaintenanceWindow, error) {
	object, err := manifest.LoadOne[*drydockv1.MaintenanceWindow](file, c.In)
	if err != nil {
		return nil, inputError(err)
	}
	if object.Namespace != "" {
		if err := c.inNamespace(object.Namespace); err != nil {
			return nil, err
		}
	}
	object.Namespace = c.objectNamespace()
	return object, nil
}

// windowOrder describes a command that changes a window by name.
type windowOrder struct {
	verb, short string
	// long follows short in the help.
	long   string
	flags  func(*cobra.Command)
	update string
	// request returns the update. It runs before the command connects to Temporal.
	request func(windows.Request) (any, error)
	// needsReason says for what --reason is required; empty: it is not.
	needsReason func() string
}

func (c *cli) windowOrder(o windowOrder) *cobra.Command {
	var reason string
	cmd := &cobra.Command{
		Use: o.verb + " NAME", Short: o.short, Long: o.short + ".\n\n" + o.long,
		Args:              operands("NAME"),
		ValidArgsFunction: c.completeWindows,
		RunE: c.verb(func(ctx context.Context, args []string) error {
			target, err := c.window(args[0])
			if err != nil {
				return err
			}
			if o.needsReason != nil && reason == "" {
				if what := o.needsReason(); what != "" {
					return usagef("--reason is required %s", what)
				}
			}
			request, err := o.request(windows.Request{Actor: actor(), Reason: reason})
			if err != nil {
				return err
			}
			return c.withWindow(ctx, target, func(s *server, target subject) (windows.Status, error) {
				return s.orderWindow(ctx, target, o.update, request)
			})
		}),
	}
	o.flags(cmd)
	c.addNamespaceFlag(cmd)
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

func newWindowExtend(c *cli) *cobra.Command {
	var until string
	var force bool
	return c.windowOrder(windowOrder{
		verb: "extend", short: "Extend the current opening, or the next one", update: temporal.UpdateExtend,
		long: `The new end must be later than the old one. To extend into or beyond an exclusion, use --force with --reason.`,
		needsReason: func() string {
			if force {
				return "with --force, which extends into an exclusion"
			}
			return ""
		},
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&until, "until", "", "new end, e.g. 2026-11-21T04:00:00Z")
			_ = cmd.MarkFlagRequired("until")
			cmd.Flags().BoolVar(&force, "force", false, "extend into an exclusion; needs --reason")
		},
		request: func(r windows.Request) (any, error) {
			end, err := timeOf("--until", until, time.Time{})
			return windows.ExtendRequest{Request: r, End: end, Force: force}, err
		},
	})
}

func newWindowEnd(c *cli) *cobra.Command {
	var at string
	return c.windowOrder(windowOrder{
		verb: "end", short: "Close a window early, or end an emergency override", update: temporal.UpdateEnd,
		long: `The window opens again at its next scheduled opening.`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&at, "at", "", "time of the close, e.g. 2026-11-21T03:00:00Z (default: now)")
		},
		request: func(r windows.Request) (any, error) {
			end, err := timeOf("--at", at, time.Time{})
			return windows.EndRequest{Request: r, End: end}, err
		},
	})
}

func newWindowCancel(c *cli) *cobra.Command {
	var start string
	var all bool
	return c.windowOrder(windowOrder{
		verb: "cancel", short: "Cancel the current opening, the next one, another one, or all", update: temporal.UpdateCancel,
		long: `The current opening ends now. With --all the window never opens again.

A repeated command changes nothing and succeeds. To cancel another opening after the first, name it with --start.`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().StringVar(&start, "start", "", "start of the opening to cancel, e.g. 2026-11-28T22:00:00Z")
			cmd.Flags().BoolVar(&all, "all", false, "cancel all openings")
			cmd.MarkFlagsMutuallyExclusive("start", "all")
		},
		request: func(r windows.Request) (any, error) {
			from, err := timeOf("--start", start, time.Time{})
			return windows.CancelRequest{Request: r, Start: from, All: all}, err
		},
	})
}

func newWindowOverride(c *cli) *cobra.Command {
	var lasting time.Duration
	return c.windowOrder(windowOrder{
		verb: "override", short: "Open a window in an emergency, outside its calendar", update: temporal.UpdateOverride,
		needsReason: func() string { return "for an emergency override" },
		long: `It opens for at most 7 days, also during an exclusion. Your user name, the reason and the end are recorded in its status and sent with its
notifications. To end it early, use "drydock window end".`,
		flags: func(cmd *cobra.Command) {
			cmd.Flags().DurationVar(&lasting, "for", 0, "duration, e.g. 2h")
			_ = cmd.MarkFlagRequired("for")
		},
		request: func(r windows.Request) (any, error) {
			if lasting <= 0 {
				return nil, usagef("--for %s: must be positive", lasting)
			}
			return windows.OverrideRequest{Request: r, Until: time.Now().Add(lasting).Truncate(time.Second)}, nil
		},
	})
}

// withWindow changes a window and prints its new status.
func (c *cli) withWindow(ctx context.Context, target subject, change func(*server, subject) (windows.Status, error)) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	status, err := change(s, target)
	if err != nil {
		return err
	}
	return c.print(status, func(w *page) {
		if status.Answer != "" {
			fmt.Fprintf(w, "%s: %s\n", target, status.Answer)
		}
		fmt.Fprintf(w, "%s: %s; see `%s`\n", target, windowText(status, w.now), target.show)
	}, target.workflowID)
}

// orderWindow sends an update to a window.
func (s *server) orderWindow(ctx context.Context, target subject, update string, request any) (windows.Status, error) {
	var status windows.Status
	return status, s.update(ctx, target, update, request, &status)
}
