package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"

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

// The scenarios whose histories are kept, and what happens in each once its rollout has started.
var historyScenarios = []historyScenario{
	{name: "whole-rollout", run: (*recorder).follow},
	{name: "plan-only", run: (*recorder).leaveAtThePlan},
	{name: "cancelled", heldUp: true, run: (*recorder).cancelInADrain},
	{name: "timed-out-continue", heldUp: true, run: (*recorder).follow},
	{name: "timed-out-abort", heldUp: true, run: (*recorder).follow},
	{name: "killed-and-resumed", heldUp: true, run: (*recorder).killInADrain},
	{name: "node-failed", run: (*recorder).follow},
	{name: "policies", simulate: (*recorder).simulatePolicies, run: (*recorder).follow},
	{name: "manifest-works", simulate: (*recorder).simulateAgents, run: (*recorder).follow},
	{name: "windows", heldUp: true, run: (*recorder).passThroughWindow},
	{name: "prepared", simulate: (*recorder).configurePrecaching, run: (*recorder).follow},
}

type historyScenario struct {
	name string
	// heldUp: a pod on the first spoke does not leave when it is evicted.
	heldUp bool
	// simulate runs simulations of the other actors on the hub until it is stopped; nil: there are none.
	simulate func(*recorder, context.Context) (stop func(), err error)
	run      func(*recorder, context.Context, string) error
}

func newHistoriesCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "histories VERSION",
		Short: "Record the workflow histories that later versions must still be able to replay",
		Long: "Runs the scenarios of " + historiesManifests + " on the local stack and keeps the histories of their workflows in\n" +
			historiesCorpus + "/VERSION. They are never changed afterwards: workflows that run in production look like this.",
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			return recordHistories(cmd.Context(), args[0], cmd.ErrOrStderr())
		},
	}
}

// historiesVersion is what a released version is called.
var historiesVersion = regexp.MustCompile(`^v[0-9]+\.[0-9]+\.[0-9]+$`)

func recordHistories(ctx context.Context, version string, progress io.Writer) (err error) {
	dir := filepath.Join(historiesCorpus, version)
	if !historiesVersion.MatchString(version) {
		return fmt.Errorf("version %q: histories are kept of released versions: make histories VERSION=v1.2.3", version)
	}
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s exists: what a version has done is not recorded twice", dir)
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
	r := &recorder{Fleet: f, server: server, dir: dir}
	for _, scenario := range historyScenarios {
		fmt.Fprintln(progress, "recording "+scenario.name)
		if err := r.record(ctx, scenario); err != nil {
			return fmt.Errorf("%s: %w", scenario.name, err)
		}
	}
	fmt.Fprintln(progress, "recording onboarding")
	if err := r.keepOnboarding(ctx); err != nil {
		return fmt.Errorf("onboarding: %w", err)
	}
	fmt.Fprintln(progress, "recording harbor")
	if err := r.keepHarbor(ctx); err != nil {
		return fmt.Errorf("harbor: %w", err)
	}
	if err := r.keepEntities(ctx); err != nil {
		return fmt.Errorf("entities: %w", err)
	}
	fmt.Fprintln(progress, "recording portals")
	if err := r.keepPortals(ctx); err != nil {
		return fmt.Errorf("portals: %w", err)
	}
	return nil
}

// recorder runs scenarios and keeps the histories of their workflows.
type recorder struct {
	*fleet.Fleet
	server client.Client
	dir    string
}

// record runs one scenario from the start of its rollout to the end, and saves its histories.
func (r *recorder) record(ctx context.Context, scenario historyScenario) error {
	if scenario.heldUp {
		if err := createHoldout(ctx, r.Spokes[0]); err != nil {
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
	if err := removeHoldout(ctx, r.Fleet, r.Spokes[0]); err != nil {
		return err
	}
	for _, spoke := range r.Spokes {
		if err := r.AwaitCleanup(ctx, spoke); err != nil {
			return err
		}
	}
	return r.keep(ctx, scenario.name, temporal.ClusterGroupUpgradeID("default", scenario.name))
}

// keep saves the histories of workflows and of their children.
func (r *recorder) keep(ctx context.Context, name string, workflowIDs ...string) error {
	var runs []history.Run
	for _, id := range workflowIDs {
		its, err := history.Read(ctx, r.server, id)
		if err != nil {
			return err
		}
		runs = append(runs, its...)
	}
	return history.Save(filepath.Join(r.dir, name+history.Suffix), runs)
}

// keepEntities saves the histories so far of the workflows that never end.
func (r *recorder) keepEntities(ctx context.Context) error {
	spoke := r.Spokes[0].Name
	for _, command := range [][]string{{"hold", "--cluster", spoke, "--reason", "a drill"}, {"release", "--cluster", spoke}} {
		if err := r.Run(ctx, io.Discard, command...); err != nil {
			return err
		}
	}
	return r.keep(ctx, "entities", temporal.WorkloadLockControllerID(spoke, "vrouter"), temporal.SweeperID(spoke),
		temporal.MaintenanceSchedulerID(spoke), temporal.EmergencyStopID)
}

// follow waits for the end of the rollout, in any state.
func (r *recorder) follow(ctx context.Context, name string) error {
	run := r.server.GetWorkflow(ctx, temporal.ClusterGroupUpgradeID("default", name), "")
	_ = run.Get(ctx, nil) // how it ends is in its history
	return ctx.Err()
}

// leaveAtThePlan cancels a rollout that is only planned, once it is.
func (r *recorder) leaveAtThePlan(ctx context.Context, name string) error {
	events := r.server.GetWorkflowHistory(ctx, temporal.ClusterGroupUpgradeID("default", name), "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT)
	for planned := false; !planned; {
		event, err := events.Next()
		if err != nil {
			return err
		}
		planned = event.GetActivityTaskCompletedEventAttributes() != nil
	}
	return errors.Join(r.Run(ctx, io.Discard, "upgrade", "cancel", name), r.follow(ctx, name))
}

// cancelInADrain cancels while a pod is terminating.
func (r *recorder) cancelInADrain(ctx context.Context, name string) error {
	if err := awaitHoldoutEvicted(ctx, r.Fleet, r.Spokes[0]); err != nil {
		return err
	}
	return errors.Join(r.Run(ctx, io.Discard, "upgrade", "cancel", name), r.follow(ctx, name))
}

// killInADrain kills the worker while a pod is terminating, and starts it again.
func (r *recorder) killInADrain(ctx context.Context, name string) error {
	if err := awaitHoldoutEvicted(ctx, r.Fleet, r.Spokes[0]); err != nil {
		return err
	}
	if err := r.Worker.Kill(); err != nil {
		return err
	}
	return errors.Join(r.Worker.Start(ctx), releaseHoldout(ctx, r.Spokes[0]), r.follow(ctx, name))
}
