package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/temporal"
)

// promotion is the current version of a worker deployment, with the other versions that Temporal knows.
type promotion struct {
	Deployment string         `json:"deployment"`
	Current    string         `json:"current"`
	Former     string         `json:"former,omitempty"`
	Others     []otherVersion `json:"others"`
}

// otherVersion is a version that got new work before.
type otherVersion struct {
	BuildID string `json:"buildId"`
	// Drained: nothing that began with it is running. Its workers are no longer needed.
	Drained bool `json:"drained"`
}

func newUpgradePromote(c *cli) *cobra.Command {
	var deployment, buildID string
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "upgrade-promote --build-id VERSION",
		Short: "Give new work to a version of the workers, once they run",
		Long: `Give new work to a version of the workers, once they run. The command waits until workers with this --build-id poll, which takes up to a minute, and then
makes it the current version of the worker deployment.
What is running stays with the version that began it, except for what never ends, such as schedulers and maintenance windows.

To go back, promote the former version again, while its workers run. The exit status is 1 if no worker of the version polls within --timeout: then nothing
is changed.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			if err := c.awaitVersion(ctx, s, deployment, buildID, limit); err != nil {
				return err
			}
			done, err := s.promote(ctx, deployment, buildID)
			if err != nil {
				return err
			}
			return c.print(done, func(w *page) { printPromotion(w, done) }, done.Current)
		}),
	}
	cmd.Flags().StringVar(&deployment, "deployment", "drydock", "name of the worker deployment, as of the workers")
	cmd.Flags().StringVar(&buildID, "build-id", "", "version of the workers, as of their --build-id")
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "how long to wait for workers of the version")
	_ = cmd.MarkFlagRequired("build-id")
	c.addOutputFlag(cmd)
	return cmd
}

// awaitVersion waits until workers of a version poll for workflow and activity tasks. Temporal lists a poller for minutes after it is gone, so that only a
// poll since the first look counts. Both times are the server's.
func (c *cli) awaitVersion(ctx context.Context, s *server, deployment, buildID string, limit time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	c.warn("waiting until workers with --deployment=%s --build-id=%s poll task queue %s: a worker that runs polls at least once a minute", deployment, buildID, temporal.TaskQueue)
	first, err := s.lastPolls(ctx, deployment, buildID)
	for {
		select {
		case <-ctx.Done():
			return errors.Join(fmt.Errorf("no worker with --deployment=%s --build-id=%s polls task queue %s: nothing is changed", deployment, buildID, temporal.TaskQueue), err)
		case <-time.After(time.Second):
		}
		var last polls
		last, err = s.lastPolls(ctx, deployment, buildID)
		switch {
		case err != nil:
		case first == nil:
			first = last
		case last.since(first):
			return nil
		}
	}
}

// polls has the time of the last poll for each kind of task.
type polls map[enumspb.TaskQueueType]time.Time

// since reports whether there was a poll for every kind of task since others.
func (p polls) since(others polls) bool {
	for kind, last := range p {
		if !last.After(others[kind]) {
			return false
		}
	}
	return true
}

// lastPolls returns the last polls of the workers of a version; the zero time: there was none.
func (s *server) lastPolls(ctx context.Context, deployment, buildID string) (polls, error) {
	found := polls{}
	for _, kind := range []enumspb.TaskQueueType{enumspb.TASK_QUEUE_TYPE_WORKFLOW, enumspb.TASK_QUEUE_TYPE_ACTIVITY} {
		queue, err := s.DescribeTaskQueue(ctx, temporal.TaskQueue, kind)
		if err != nil {
			return nil, err
		}
		found[kind] = time.Time{}
		for _, poller := range queue.GetPollers() {
			version, at := versionOf(poller.GetDeploymentOptions()), poller.GetLastAccessTime().AsTime()
			if version.GetDeploymentName() == deployment && version.GetBuildId() == buildID && at.After(found[kind]) {
				found[kind] = at
			}
		}
	}
	return found, nil
}

// promote makes a version current.
func (s *server) promote(ctx context.Context, deployment, buildID string) (promotion, error) {
	of := subject{noun: "worker deployment", name: deployment}
	handle := s.WorkerDeploymentClient().GetHandle(deployment)
	before, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return promotion{}, s.explain("read the versions of", of, err)
	}
	_, err = handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: buildID, ConflictToken: before.ConflictToken})
	if _, refused := errors.AsType[*serviceerror.FailedPrecondition](err); refused {
		return promotion{}, fmt.Errorf("make version %s of %s %s current: %s", buildID, of.noun, deployment, temporal.PlainText(err.Error()))
	}
	if err != nil {
		return promotion{}, s.explain("change the current version of", of, err)
	}
	described, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return promotion{}, s.explain("read the versions of", of, err)
	}
	done := promotion{Deployment: deployment, Current: buildID, Others: []otherVersion{}}
	if former := before.Info.RoutingConfig.CurrentVersion; former != nil && former.BuildID != buildID {
		done.Former = former.BuildID
	}
	for _, summary := range described.Info.VersionSummaries {
		if summary.Version.BuildID != buildID && summary.DrainageStatus != client.WorkerDeploymentVersionDrainageStatusUnspecified { // else it never was current
			drained := summary.DrainageStatus == client.WorkerDeploymentVersionDrainageStatusDrained
			done.Others = append(done.Others, otherVersion{summary.Version.BuildID, drained})
		}
	}
	return done, nil
}

func printPromotion(w *page, done promotion) {
	fmt.Fprintf(w, "new work gets version %s of worker deployment %s\n", done.Current, done.Deployment)
	if len(done.Others) == 0 {
		return
	}
	t := w.newTable("OTHER VERSION", "WORKERS")
	for _, other := range done.Others {
		workers := "keep them: work that began with it is running"
		if other.Drained {
			workers = "not needed: nothing that began with it is running"
		}
		t.AppendRow(table.Row{other.BuildID, workers})
	}
	fmt.Fprintln(w, t.Render())
}
