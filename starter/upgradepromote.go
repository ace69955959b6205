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
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"

	"drydock.dev/drydock/internal/temporal"
)

// promotion has the versions of a worker deployment that get new work, and the other versions that Temporal knows.
type promotion struct {
	Deployment string `json:"deployment"`
	Current    string `json:"current"`
	Former     string `json:"former,omitempty"`
	// Ramping is the version that gets a share of the new work; nil: none.
	Ramping *rampingVersion `json:"ramping,omitempty"`
	Others  []otherVersion  `json:"others"`
}

// rampingVersion is a version that gets a share of the new work. The current version gets the rest.
type rampingVersion struct {
	BuildID    string `json:"buildId"`
	Percentage int    `json:"percentage"`
}

// otherVersion is a version that got new work before.
type otherVersion struct {
	BuildID string `json:"buildId"`
	// Drained: nothing that began with it is running. Its workers are no longer needed.
	Drained bool `json:"drained"`
}

func newUpgradePromote(c *cli) *cobra.Command {
	var deployment, buildID string
	var percentage int
	var limit time.Duration
	cmd := &cobra.Command{
		Use:   "upgrade-promote --build-id VERSION",
		Short: "Give new work to a version of the workers, once they run",
		Long: `Give new work to a version of the workers, once they run. The command waits until workers with this --build-id poll, which takes up to a minute, and then
makes it the current version of the worker deployment. With --percentage it gets only that share of the new work, and the current version the rest. If no
other version is current, as after an installation, it gets all of it, with a warning.

What is running stays with the version that began it. What never ends, such as schedulers and maintenance windows, moves to the version: the same share of it.

To go back, promote the former version again, while its workers run. The exit status is 1 if no worker of the version polls within --timeout: then nothing
is changed.`,
		Args: operands(),
		RunE: c.serverVerb(func(ctx context.Context, s *server, _ []string) error {
			if percentage < 1 || percentage > 100 {
				return usagef("--percentage %d: give 1 to 100", percentage)
			}
			ctx, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if err := c.awaitVersion(ctx, s, deployment, buildID); err != nil {
				return err
			}
			done, err := c.promote(ctx, s, deployment, rampingVersion{buildID, percentage})
			if err != nil {
				return err
			}
			return c.print(done, func(w *page) { printPromotion(w, done) }, done.Current)
		}),
	}
	cmd.Flags().StringVar(&deployment, "deployment", "drydock", "name of the worker deployment, as of the workers")
	cmd.Flags().StringVar(&buildID, "build-id", "", "version of the workers, as of their --build-id")
	cmd.Flags().IntVar(&percentage, "percentage", 100, "share of the new work that the version gets")
	cmd.Flags().DurationVar(&limit, "timeout", 5*time.Minute, "how long to wait for workers of the version, and until they get new work")
	_ = cmd.MarkFlagRequired("build-id")
	c.addOutputFlag(cmd)
	return cmd
}

// awaitVersion waits until workers of a version poll for workflow and activity tasks. Temporal lists a poller for minutes after it is gone, so that only a
// poll since the first look counts. Both times are the server's.
func (c *cli) awaitVersion(ctx context.Context, s *server, deployment, buildID string) error {
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
type polls map[polled]time.Time

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
	for _, kind := range polledByWorkers() {
		queue, err := s.DescribeTaskQueue(ctx, kind.queue, kind.tasks)
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

// promote gives a version its share of the new work. With all of it the version is current, and no other one is ramping.
func (c *cli) promote(ctx context.Context, s *server, deployment string, version rampingVersion) (promotion, error) {
	of := subject{noun: "worker deployment", name: deployment}
	handle := s.WorkerDeploymentClient().GetHandle(deployment)
	before, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return promotion{}, s.explain("read the versions of", of, err)
	}
	current := before.Info.RoutingConfig.CurrentVersion
	hasOther := current != nil && current.BuildID != version.BuildID // it gets the rest
	if version.Percentage < 100 && !hasOther {
		c.warn("warning: version %s gets all of the new work, not %d%%: no other version is current, which would get the rest", version.BuildID, version.Percentage)
	}
	if version.Percentage == 100 || !hasOther {
		err = promoteFully(ctx, handle, version.BuildID, before)
	} else {
		_, err = handle.SetRampingVersion(ctx, client.WorkerDeploymentSetRampingVersionOptions{
			BuildID: version.BuildID, Percentage: float32(version.Percentage), ConflictToken: before.ConflictToken,
		})
	}
	if _, refused := errors.AsType[*serviceerror.FailedPrecondition](err); refused {
		return promotion{}, fmt.Errorf("give new work to version %s of %s %s: %s", version.BuildID, of.noun, deployment, temporal.PlainText(err.Error()))
	}
	if err != nil {
		return promotion{}, s.explain("change the versions of", of, err)
	}
	if err := s.awaitRouting(ctx, deployment); err != nil {
		return promotion{}, s.explain("wait until new work is given to the versions of", of, err)
	}
	described, err := handle.Describe(ctx, client.WorkerDeploymentDescribeOptions{})
	if err != nil {
		return promotion{}, s.explain("read the versions of", of, err)
	}
	return promotionOf(deployment, current, described.Info), nil
}

// promoteFully makes a version current, and then ends the ramp of another one, so that its work moves once. A repetition completes both.
func promoteFully(ctx context.Context, handle client.WorkerDeploymentHandle, buildID string, before client.WorkerDeploymentDescribeResponse) error {
	token, current, ramping := before.ConflictToken, before.Info.RoutingConfig.CurrentVersion, before.Info.RoutingConfig.RampingVersion
	if current == nil || current.BuildID != buildID {
		made, err := handle.SetCurrentVersion(ctx, client.WorkerDeploymentSetCurrentVersionOptions{BuildID: buildID, ConflictToken: token})
		if err != nil {
			return err
		}
		token = made.ConflictToken
	}
	if ramping == nil || ramping.BuildID == buildID { // a version that becomes current is no longer ramping
		return nil
	}
	_, err := handle.SetRampingVersion(ctx, client.WorkerDeploymentSetRampingVersionOptions{ConflictToken: token})
	return err
}

// awaitRouting waits until all task queues know which versions get new work. Temporal tells them after it has accepted a change.
func (s *server) awaitRouting(ctx context.Context, deployment string) error {
	request := &workflowservice.DescribeWorkerDeploymentRequest{Namespace: s.namespace, DeploymentName: deployment}
	for {
		described, err := s.WorkflowService().DescribeWorkerDeployment(ctx, request)
		if err != nil || described.GetWorkerDeploymentInfo().GetRoutingConfigUpdateState() != enumspb.ROUTING_CONFIG_UPDATE_STATE_IN_PROGRESS {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// promotionOf describes a worker deployment after a change.
func promotionOf(deployment string, former *worker.WorkerDeploymentVersion, info client.WorkerDeploymentInfo) promotion {
	done := promotion{Deployment: deployment, Others: []otherVersion{}}
	if current := info.RoutingConfig.CurrentVersion; current != nil {
		done.Current = current.BuildID
	}
	if former != nil && former.BuildID != done.Current {
		done.Former = former.BuildID
	}
	ramping := ""
	if version := info.RoutingConfig.RampingVersion; version != nil {
		ramping = version.BuildID
		done.Ramping = &rampingVersion{ramping, int(info.RoutingConfig.RampingVersionPercentage)}
	}
	for _, summary := range info.VersionSummaries {
		id, drainage := summary.Version.BuildID, summary.DrainageStatus
		if id != done.Current && id != ramping && drainage != client.WorkerDeploymentVersionDrainageStatusUnspecified { // else it never got work
			done.Others = append(done.Others, otherVersion{id, drainage == client.WorkerDeploymentVersionDrainageStatusDrained})
		}
	}
	return done
}

func printPromotion(w *page, done promotion) {
	if ramping := done.Ramping; ramping == nil {
		fmt.Fprintf(w, "new work gets version %s of worker deployment %s\n", done.Current, done.Deployment)
	} else {
		fmt.Fprintf(w, "%d%% of new work gets version %s of worker deployment %s, the rest version %s\n", ramping.Percentage, ramping.BuildID, done.Deployment, done.Current)
	}
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
