package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/snapshot"
)

func newLockProgress(c *cli) *cobra.Command {
	var watch bool
	var flags decisionFlags
	cmd := &cobra.Command{
		Use:   "progress",
		Short: "Show the progress of a maintenance for each application",
		Long: `Show the progress of a maintenance for each application that holds locks. UPDATED counts the nodes that the
application has released in the requested maintenance of the cluster, or, without a request, those that are released now. REPORTED is the
progress in its ClusterWorkloadLock.

With --watch the command shows every change until it is interrupted or --timeout passes: a live view on a terminal, otherwise one line per
change (with -o json one list per line).`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			if watch {
				return c.watchLocks(ctx, func(ctx context.Context, reader client.Reader) (followed, error) {
					return readLockProgress(ctx, reader, c.source(decisionFlags{}))
				})
			}
			reader, err := c.lockReader(flags)
			if err != nil {
				return err
			}
			progress, err := readLockProgress(ctx, reader, c.source(flags))
			if err != nil {
				return err
			}
			return c.print(progress, func(w *page) { fmt.Fprintln(w, progress.frame(w.now, w.frameStyle)) }, progress.controllers()...)
		}),
	}
	cmd.Flags().BoolVarP(&watch, "watch", "w", false, "keep running and show every change")
	c.addSourceFlags(cmd, &flags, "the cluster")
	cmd.MarkFlagsMutuallyExclusive("watch", "snapshot")
	c.addOutputFlag(cmd)
	return cmd
}

// lockProgress is the progress of a cluster maintenance by application.
type lockProgress struct {
	// Requested means that a ClusterMaintenanceRequest exists.
	Requested    bool                  `json:"requested"`
	Applications []applicationProgress `json:"applications"`
	// source names the cluster for people.
	source string
}

// applicationProgress is the progress of a maintenance with one application.
type applicationProgress struct {
	Controller string         `json:"controller"`
	Progress   locks.Progress `json:"progress"`
	// Reported by the application on its ClusterWorkloadLock, if it does.
	Reported *lcmv1.InactivationProgress `json:"reported,omitempty"`
}

func readLockProgress(ctx context.Context, reader client.Reader, source string) (lockProgress, error) {
	found, err := snapshot.Locks(ctx, reader)
	if err != nil {
		return lockProgress{}, err
	}
	progress := lockProgress{Requested: len(found.ClusterRequests) > 0, Applications: []applicationProgress{}, source: source}
	reported := map[string]*lcmv1.InactivationProgress{}
	for i := range found.ClusterLocks {
		lock := &found.ClusterLocks[i]
		reported[lock.Spec.ControllerName] = lock.Status.InactivationProgress
	}
	for i := range found.NodeLocks {
		if name := found.NodeLocks[i].Spec.ControllerName; reported[name] == nil {
			reported[name] = nil // an application that reports nothing
		}
	}
	for name, own := range reported {
		progress.Applications = append(progress.Applications, applicationProgress{
			Controller: name, Progress: locks.ProgressOf(name, found.ClusterRequests, found.NodeLocks), Reported: own,
		})
	}
	slices.SortFunc(progress.Applications, func(a, b applicationProgress) int { return cmp.Compare(a.Controller, b.Controller) })
	return progress, nil
}

// watchLocks shows what read returns whenever a lock or a request changes.
func (c *cli) watchLocks(ctx context.Context, read func(context.Context, client.Reader) (followed, error)) error {
	config, err := c.kube.config(c.kube.context)
	if err != nil {
		return err
	}
	clusters := kube.New(kube.FromConfigs(config, nil), kube.Options{})
	defer clusters.Close()
	cluster, err := clusters.Hub(ctx)
	if err != nil {
		return err
	}
	view := c.newView()
	err = cluster.Await(ctx, []client.Object{
		kube.IfServed(&lcmv1.ClusterMaintenanceRequest{}), kube.IfServed(&lcmv1.ClusterWorkloadLock{}), kube.IfServed(&lcmv1.NodeWorkloadLock{}),
	}, func(ctx context.Context) (bool, error) {
		found, err := read(ctx, cluster.Cache)
		if err != nil {
			return false, err
		}
		return false, view.show(found)
	})
	if ctx.Err() != nil && (errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded)) {
		return nil // the watch ends only this way
	}
	return err
}

func (p lockProgress) controllers() []string {
	var names []string
	for _, application := range p.Applications {
		names = append(names, application.Controller)
	}
	return names
}

// lines has one line for each application, and one for whether a maintenance is requested.
func (p lockProgress) lines(time.Time) []statusLine {
	const ofAll = "" // no application has this name
	switch {
	case len(p.Applications) == 0:
		return []statusLine{{about: ofAll, text: p.noLocks()}}
	case !p.Requested:
		return append(p.linesOfApplications(), statusLine{about: ofAll, text: notRequested})
	}
	return append(p.linesOfApplications(), statusLine{about: ofAll, text: "a maintenance of the cluster is requested"})
}

func (p lockProgress) linesOfApplications() []statusLine {
	var lines []statusLine
	for _, application := range p.Applications {
		text := application.Controller + ": " + application.Progress.String()
		if reported := application.reported(); reported != "" {
			text += "; it reports " + reported
		}
		lines = append(lines, statusLine{about: application.Controller, text: text})
	}
	return lines
}

const notRequested = "no maintenance of the cluster is requested"

func (p lockProgress) noLocks() string { return "no workload locks in " + p.source }

// reported is the progress that the application reports; empty without one.
func (a applicationProgress) reported() string {
	if a.Reported == nil {
		return ""
	}
	return strings.TrimSpace(fmt.Sprintf("%d%% %s", a.Reported.Percentage, a.Reported.Description))
}

// frame shows the applications in a table.
func (p lockProgress) frame(_ time.Time, style frameStyle) string {
	if len(p.Applications) == 0 {
		return p.noLocks()
	}
	t := style.newTable("APPLICATION", "PROGRESS", "UPDATED", "INACTIVE NOW", "REPORTED")
	for _, application := range p.Applications {
		counted := application.Progress
		t.AppendRow(table.Row{
			application.Controller, fmt.Sprintf("%d%%", counted.Percentage), fmt.Sprintf("%d of %d", counted.Updated, counted.Total),
			fmt.Sprint(counted.InactiveNow), application.reported(),
		})
	}
	if p.Requested {
		return t.Render()
	}
	return t.Render() + "\n" + notRequested
}
