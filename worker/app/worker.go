// Package app is a worker: it runs Drydock's workflows and activities, and the controllers of its objects.
package app

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/spf13/cobra"
	"go.temporal.io/sdk/worker"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/controller"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/tracing"
	"drydock.dev/drydock/internal/updategraph"
	buildversion "drydock.dev/drydock/internal/version"
	"drydock.dev/drydock/worker/fleetmetrics"
	"drydock.dev/drydock/workflows"
)

// NewCommand returns the command drydock-worker of a version.
func NewCommand(version string) *cobra.Command {
	o := NewOptions(version)
	cmd := &cobra.Command{
		Use:   "drydock-worker",
		Short: "Run Drydock's workflows and activities",
		Long: `Run Drydock's workflows and activities.

Clusters come from a clusters file (--clusters) or from contexts of a kubeconfig (--contexts, --hub-context). Inside a cluster, with
--cluster NAME, it runs only that cluster's activities, with its own ServiceAccount, and only polls and answers the task queue of that cluster.

On SIGTERM or Ctrl-C it stops taking work and releases its running activities, which other workers retry at once.`,
		Version:       buildversion.Running(version).String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE: func(cmd *cobra.Command, _ []string) error {
			o.complete(cmd.Flags())
			return Run(cmd.Context(), cmd.ErrOrStderr(), o)
		},
	}
	o.Connection.AddFlags(cmd.Flags())
	o.AddFlags(cmd.Flags())
	o.addPlacementFlags(cmd.Flags())
	return cmd
}

// Run runs a worker until ctx is done or the worker fails fatally. It logs to logs.
func Run(ctx context.Context, logs io.Writer, o *Options) error {
	log, err := o.Logger(logs)
	if err != nil {
		return err
	}
	limitMemory(ctx, log)
	if err := o.Check(); err != nil {
		return err
	}
	config, err := kube.ParseMaintenanceConfig(o.maintenanceConfig)
	if err != nil {
		return fmt.Errorf("--maintenance-config %w", err)
	}
	source, err := o.Source()
	if err != nil {
		return err
	}
	releases, err := updategraph.New(o.updateGraphHosts, o.updateGraphCA)
	if err != nil {
		return fmt.Errorf("--update-graph-ca: %w", err)
	}
	registry := prometheus.NewRegistry()
	registry.MustRegister(collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}), collectors.NewGoCollector())
	metrics, err := temporal.NewMetrics(registry, log)
	if err != nil {
		return err
	}
	var traces *tracing.Traces
	if o.traces {
		if traces, err = tracing.New(ctx, "drydock-worker", o.version, log); err != nil {
			return fmt.Errorf("--traces: %w", err)
		}
	}
	defer traces.Close()
	connection := o.Connection
	connection.Worker, connection.AnswersOnly = true, o.answersOnly()
	settings, err := connection.Options(log, metrics)
	if err != nil {
		return err
	}
	server, err := temporal.Dial(ctx, settings)
	if err != nil {
		return err
	}
	defer server.Close()
	access := kube.Options{QPS: o.qps, Burst: o.burst, Log: log, UserAgent: "drydock-worker/" + o.version, MaintenanceConfig: config}
	failed := make(chan error, 1)
	workerOptions := o.workerOptions(source.HasHub(), func(err error) { failed <- err })
	if traces != nil {
		access.Transport = traces.Requests
		workerOptions.Interceptors = slices.Insert(workerOptions.Interceptors, 0, traces.Interceptor())
	}
	clusters := kube.New(source, access)
	defer clusters.Close()

	w := worker.New(server, o.taskQueue(), workerOptions)
	workers := []worker.Worker{w}
	var accepts worker.ActivityRegistry
	if o.cluster == "" {
		workflows.Register(w, o.versioned())
		accepting := worker.New(server, temporal.RequestTaskQueue, acceptOptions(workerOptions))
		accepts, workers = accepting, append(workers, accepting)
	}
	defaults := rollouts.Defaults{PrecacheImage: o.precacheImage, BackupImage: o.backupImage, PolicyEnforcement: ranv1.PolicyEnforcement(o.policyEnforcement)}
	// What runs beside the worker ends with it, also when it fails.
	ctx, cancel := context.WithCancel(ctx)
	var beside sync.WaitGroup
	defer func() {
		cancel()
		beside.Wait()
	}()
	beside.Go(func() { clusters.Discover(ctx) })
	if o.cluster == "" {
		fleet := fleetmetrics.NewCollector(server, log)
		registry.MustRegister(fleet)
		beside.Go(func() { fleet.Run(ctx) })
	}
	if o.controllers {
		beside.Go(func() {
			controller.Run(ctx, controller.Options{
				Clusters: clusters, Temporal: server, Log: log, NodeAnnotations: o.nodeAnnotations,
			})
		})
	}
	if o.answersOnly() {
		registerClusterActivities(w, clusters, drain.NewMetrics(registry), o.version)
	} else {
		registerActivities(w, accepts, clusters, server, drain.NewMetrics(registry), defaults, releases, o.version)
	}

	ready := &readiness{temporal: server, namespace: settings.Namespace, clusters: clusters}
	health, err := serveHealth(o.healthAddress, ready, registry)
	if err != nil {
		return err
	}
	defer health.close()
	return work(ctx, workers, ready, failed, o.version, log.With("taskQueue", o.taskQueue(), "temporal", settings.HostPort, "health", health.address()))
}

// work runs the workers of the task queues until ctx is done or one fails fatally, and then releases their running activities.
func work(ctx context.Context, workers []worker.Worker, ready *readiness, failed <-chan error, version string, log *slog.Logger) error {
	for i, w := range workers {
		if err := w.Start(); err != nil {
			stopAll(workers[:i])
			return fmt.Errorf("start the worker: %w", err)
		}
	}
	ready.working.Store(true)
	log.Info("worker started", "version", version)
	var err error
	select {
	case <-ctx.Done():
	case err = <-failed:
		err = fmt.Errorf("the worker failed: %w", err)
	}
	ready.working.Store(false)
	log.Info("worker stopping: releasing running activities")
	stopAll(workers)
	log.Info("worker stopped")
	return err
}

// stopAll stops workers at the same time: each waits for its activities.
func stopAll(workers []worker.Worker) {
	var stopping sync.WaitGroup
	for _, w := range workers {
		stopping.Go(w.Stop)
	}
	stopping.Wait()
}
