package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
)

const (
	historiesSpokes  = 3
	historiesWorkers = 2
	// historiesManifests has a manifest for each scenario, named after it.
	historiesManifests = "deploy/dev/manifests/histories"
	historiesCorpus    = "workflows/testdata/histories"
)

// historyScenarios are the rollouts whose histories are recorded.
var historyScenarios = []historyScenario{
	{name: "whole-rollout", run: (*recorder).awaitEnd},
	{name: "plan-only", run: (*recorder).cancelPlan},
	{name: "cancelled", slowPod: true, run: (*recorder).cancelDrain},
	{name: "timed-out-continue", slowPod: true, run: (*recorder).awaitEnd},
	{name: "timed-out-abort", slowPod: true, run: (*recorder).awaitEnd},
	{name: "killed-and-resumed", slowPod: true, run: (*recorder).killDuringDrain},
	{name: "node-failed", run: (*recorder).awaitEnd},
	{name: "policies", simulate: (*recorder).simulatePolicies, run: (*recorder).awaitEnd},
	{name: "manifest-works", simulate: (*recorder).simulateAgents, run: (*recorder).awaitEnd},
	{name: "windows", also: windowHistory, slowPod: true, simulate: (*recorder).defineWindow, run: (*recorder).useWindow},
	{name: "prepared", simulate: (*recorder).configurePrecaching, run: (*recorder).awaitEnd},
}

type historyScenario struct {
	name string
	// also is another file that it records; empty: none.
	also string
	// slowPod: a pod on the first spoke does not terminate when it is evicted.
	slowPod bool
	// simulate starts the simulations that the scenario needs on the hub.
	simulate func(*recorder, context.Context) (stop func(), err error)
	run      func(*recorder, context.Context, string) error
}

func newHistoriesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "histories VERSION",
		Short: "Record the workflow histories that later versions must be able to replay",
		Long: "Runs the scenarios of " + historiesManifests + " on the local stack and saves the histories of their workflows in\n" +
			historiesCorpus + "/VERSION, unless it has them. They are never changed afterwards, because workflows in production have such histories.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return recordHistories(cmd.Context(), args[0], cmd.ErrOrStderr())
		},
	}
}

// historiesVersion matches released versions.
var historiesVersion = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

func recordHistories(ctx context.Context, version string, progress io.Writer) (err error) {
	if !historiesVersion.MatchString(version) {
		return fmt.Errorf("version %q is not a released version; use make histories VERSION=v1.2.3", version)
	}
	r := &recorder{dir: filepath.Join(historiesCorpus, version)}
	missing := slices.DeleteFunc(r.recordings(), func(of recording) bool { return r.has(of.name) && (of.also == "" || r.has(of.also)) })
	if len(missing) == 0 {
		return fmt.Errorf("%s has all histories: those of a version are recorded only once", r.dir)
	}
	f, err := fleet.Start(ctx, fleet.Options{Spokes: historiesSpokes, Workers: historiesWorkers, Output: progress})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, f.Stop()) }()
	if err := f.DeployDemoEverywhere(ctx); err != nil {
		return err
	}
	server, err := client.DialContext(ctx, client.Options{HostPort: f.Temporal.Address, Namespace: f.Temporal.Namespace})
	if err != nil {
		return err
	}
	defer server.Close()
	r.Fleet, r.server = f, server
	for _, recording := range missing {
		fmt.Fprintln(progress, "recording "+recording.name)
		if err := recording.record(ctx); err != nil {
			return fmt.Errorf("%s: %w", recording.name, err)
		}
	}
	return nil
}

// recording records the histories of a file, without the others: any of them may be there already.
type recording struct {
	name string
	// also is another file that it records; empty: none.
	also   string
	record func(context.Context) error
}

// recordings are all files of a version, in the order in which they are recorded: the entities may have done the work of the other rollouts, too.
func (r *recorder) recordings() []recording {
	var all []recording
	for _, scenario := range historyScenarios {
		all = append(all, recording{scenario.name, scenario.also, func(ctx context.Context) error { return r.record(ctx, scenario) }})
	}
	return append(all,
		recording{name: "onboarding", record: r.recordOnboarding},
		recording{name: "harbor", record: r.recordHarbor},
		recording{name: "entities", record: r.recordEntities},
		recording{name: "portals", record: r.recordPortals},
		recording{name: "objects", record: r.recordObjects},
	)
}

// file is the file of a recording.
func (r *recorder) file(name string) string { return filepath.Join(r.dir, name+history.Suffix) }

func (r *recorder) has(name string) bool {
	_, err := os.Stat(r.file(name))
	return err == nil
}

// recorder runs scenarios and saves the histories of their workflows.
type recorder struct {
	*fleet.Fleet
	server client.Client
	dir    string
}

// record runs one scenario and saves its histories.
func (r *recorder) record(ctx context.Context, scenario historyScenario) error {
	if err := r.perform(ctx, scenario); err != nil {
		return err
	}
	return r.save(ctx, scenario.name, temporal.ClusterGroupUpgradeID("default", scenario.name))
}

// perform runs one scenario.
func (r *recorder) perform(ctx context.Context, scenario historyScenario) error {
	if scenario.slowPod {
		if err := createSlowPod(ctx, r.Spokes[0]); err != nil {
			return err
		}
	}
	if scenario.simulate != nil {
		stop, err := scenario.simulate(r, ctx)
		if err != nil {
			return err
		}
		defer stop()
	}
	manifest := filepath.Join(historiesManifests, scenario.name+".yaml")
	if err := r.Run(ctx, io.Discard, "upgrade", "start", "-f", manifest); err != nil {
		return err
	}
	if err := scenario.run(r, ctx, scenario.name); err != nil {
		return err
	}
	if err := removeSlowPod(ctx, r.Fleet, r.Spokes[0]); err != nil {
		return err
	}
	for _, spoke := range r.Spokes {
		if err := r.AwaitCleanup(ctx, spoke); err != nil {
			return err
		}
	}
	return nil
}

// save saves the histories of workflows and their children, unless the file exists.
func (r *recorder) save(ctx context.Context, name string, workflowIDs ...string) error {
	if r.has(name) {
		return nil
	}
	var runs []history.Run
	for _, id := range workflowIDs {
		read, err := history.Read(ctx, r.server, id)
		if err != nil {
			return err
		}
		runs = append(runs, read...)
	}
	return history.Save(r.file(name), runs)
}

// recordEntities lets the workflows that never end do the work of a rollout, and saves their histories so far.
func (r *recorder) recordEntities(ctx context.Context) error {
	if err := r.perform(ctx, historyScenario{name: "entities", run: (*recorder).awaitEnd}); err != nil {
		return err
	}
	spoke := r.Spokes[0].Name
	for _, command := range [][]string{{"hold", "--cluster", spoke, "--reason", "a test"}, {"release", "--cluster", spoke}} {
		if err := r.Run(ctx, io.Discard, command...); err != nil {
			return err
		}
	}
	return r.save(ctx, "entities", temporal.WorkloadLockControllerID(spoke, "vrouter"), temporal.SweeperID(spoke),
		temporal.MaintenanceSchedulerID(spoke), temporal.EmergencyStopID)
}

// awaitEnd waits for the end of the rollout, with any result.
func (r *recorder) awaitEnd(ctx context.Context, name string) error {
	run := r.server.GetWorkflow(ctx, temporal.ClusterGroupUpgradeID("default", name), "")
	_ = run.Get(ctx, nil) // the history has the result
	return ctx.Err()
}

// cancelPlan cancels a rollout when it is planned.
func (r *recorder) cancelPlan(ctx context.Context, name string) error {
	events := r.server.GetWorkflowHistory(ctx, temporal.ClusterGroupUpgradeID("default", name), "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for planned := false; !planned; {
		event, err := events.Next()
		if err != nil {
			return err
		}
		planned = event.GetActivityTaskCompletedEventAttributes() != nil
	}
	return errors.Join(r.Run(ctx, io.Discard, "upgrade", "cancel", name), r.awaitEnd(ctx, name))
}

// cancelDrain cancels a rollout while a pod is terminating.
func (r *recorder) cancelDrain(ctx context.Context, name string) error {
	if err := awaitSlowPodEvicted(ctx, r.Fleet, r.Spokes[0]); err != nil {
		return err
	}
	return errors.Join(r.Run(ctx, io.Discard, "upgrade", "cancel", name), r.awaitEnd(ctx, name))
}

// killDuringDrain kills the worker while a pod is terminating, and starts it again.
func (r *recorder) killDuringDrain(ctx context.Context, name string) error {
	if err := awaitSlowPodEvicted(ctx, r.Fleet, r.Spokes[0]); err != nil {
		return err
	}
	if err := r.Worker.Kill(); err != nil {
		return err
	}
	return errors.Join(r.Worker.Start(ctx), releaseSlowPod(ctx, r.Spokes[0]), r.awaitEnd(ctx, name))
}
