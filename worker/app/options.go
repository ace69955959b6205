package app

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"time"

	"github.com/spf13/pflag"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/allow"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/updategraph"
	"drydock.dev/drydock/workflows/kit"
)

// Options are the settings of the command line.
type Options struct {
	// Connection is the access to Temporal.
	Connection temporal.Connection

	version string

	clustersFile string
	kubeconfig   string
	contexts     []string
	hubContext   string
	cluster      string

	qps   float32
	burst int

	activities, workflowTasks, activityPollers, workflowPollers int

	stopTimeout time.Duration

	precacheImage, backupImage string
	policyEnforcement          string

	updateGraphHosts []string
	updateGraphCA    string

	controllers, nodeAnnotations bool
	maintenanceConfig            string

	deployment, buildID string

	healthAddress string
	traces        bool
	logLevel      string
	logFormat     string
}

// NewOptions returns the defaults for a worker of that version.
func NewOptions(version string) *Options {
	return &Options{
		version: version,
		// Each node under maintenance has a waiting activity, which costs a goroutine.
		activities: 1000, workflowTasks: 200, activityPollers: 5, workflowPollers: 16,
		// Activities are cancelled when the stop begins, so that other workers retry them; this limits the wait for them.
		stopTimeout:       20 * time.Second,
		controllers:       true,
		maintenanceConfig: kube.SystemNamespace,
		updateGraphHosts:  []string{updategraph.DefaultHost},
		healthAddress:     "127.0.0.1:9091",
		logLevel:          "info",
		logFormat:         "text",
	}
}

// AddFlags adds the flags of the clusters, and of the work. Those of Temporal are the Connection's.
func (o *Options) AddFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.clustersFile, "clusters", "", "clusters file: the hub and the clusters, with the access to each, and what requests may use; with --cluster only the latter")
	flags.StringVar(&o.kubeconfig, "kubeconfig", "", "kubeconfig file of --contexts and --hub-context (env KUBECONFIG; default ~/.kube/config); with --cluster, whose current context replaces the ServiceAccount")
	flags.StringSliceVar(&o.contexts, "contexts", nil, "kubeconfig contexts of the clusters; a cluster's name is its context's")
	flags.StringVar(&o.hubContext, "hub-context", "", "kubeconfig context of the hub")
	flags.Float32Var(&o.qps, "kube-qps", 0, "average requests per second to a cluster (default 300)")
	flags.IntVar(&o.burst, "kube-burst", 0, "burst of requests to a cluster (default 600)")
	flags.IntVar(&o.activities, "max-activities", o.activities, "concurrent activities; every node that is drained or waited for needs one")
	flags.IntVar(&o.workflowTasks, "max-workflow-tasks", o.workflowTasks, "concurrent workflow tasks, at least 2")
	flags.IntVar(&o.activityPollers, "activity-pollers", o.activityPollers, "concurrent polls for activities")
	flags.IntVar(&o.workflowPollers, "workflow-pollers", o.workflowPollers, "concurrent polls for workflow tasks, of cached workflows and of others each, at least 2")
	flags.DurationVar(&o.stopTimeout, "stop-timeout", o.stopTimeout, "time limit to release running activities on a stop")
	flags.StringVar(&o.precacheImage, "precache-image", "", "image of the Jobs that pre-cache images before a rollout, unless a PreCachingConfig sets one")
	flags.StringVar(&o.backupImage, "backup-image", "", "image of the Jobs that back up clusters before a rollout")
	flags.StringVar(&o.policyEnforcement, "policy-enforcement", "", "how rollouts without policyEnforcement enforce policies: Copy or Override (default: Override where the hub can)")
	flags.StringSliceVar(&o.updateGraphHosts, "update-graph-hosts", o.updateGraphHosts, "hosts of the update graphs in which rollouts with preCaching look up the image of a version; with another port host:port, *.example.com for all below, empty for no lookups")
	flags.StringVar(&o.updateGraphCA, "update-graph-ca", "", "file with CA certificates (PEM) of update graphs, in addition to those of the system")
	flags.BoolVar(&o.controllers, "controllers", o.controllers, "start and steer maintenances by the objects in the clusters, and rollouts and windows by those on the hub (with --cluster, default false)")
	flags.BoolVar(&o.nodeAnnotations, "node-annotations", false, "take the annotation drydock.dev/maintain of a node as a request for its maintenance")
	flags.StringVar(&o.maintenanceConfig, "maintenance-config", o.maintenanceConfig, "NAMESPACE, or NAMESPACE/NAME, of the MaintenanceOperatorConfig with the budgets of a cluster")
	flags.StringVar(&o.healthAddress, "health-address", o.healthAddress, "address of /healthz, /readyz and /metrics; with port 0 the log names the port")
	flags.BoolVar(&o.traces, "traces", false, "send traces to the OpenTelemetry collector that the environment variables OTEL_EXPORTER_OTLP_* name")
	flags.StringVar(&o.logLevel, "log-level", o.logLevel, "debug, info, warn or error")
	flags.StringVar(&o.logFormat, "log-format", o.logFormat, "text or json")
}

// addPlacementFlags adds the flags of a worker that is one of several.
func (o *Options) addPlacementFlags(flags *pflag.FlagSet) {
	flags.StringVar(&o.cluster, "cluster", "", "name of the cluster this worker runs in: it runs only the activities of that cluster, with its own ServiceAccount")
	flags.StringVar(&o.deployment, "deployment", "", "name of the worker deployment; with --build-id it turns on worker versioning")
	flags.StringVar(&o.buildID, "build-id", "", "version of the worker deployment")
}

// Logger writes as the flags say.
func (o *Options) Logger(to io.Writer) (*slog.Logger, error) {
	var level slog.Level
	if err := level.UnmarshalText([]byte(o.logLevel)); err != nil {
		return nil, fmt.Errorf("--log-level %q is not one of debug, info, warn, error", o.logLevel)
	}
	settings := &slog.HandlerOptions{Level: level}
	switch o.logFormat {
	case "text":
		return slog.New(calmHandler{slog.NewTextHandler(to, settings)}), nil
	case "json":
		return slog.New(calmHandler{slog.NewJSONHandler(to, settings)}), nil
	}
	return nil, fmt.Errorf("--log-format %q is neither text nor json", o.logFormat)
}

// complete sets the defaults that depend on other flags. Controllers start and signal workflows, which a worker inside a cluster needs no right for otherwise.
func (o *Options) complete(flags *pflag.FlagSet) {
	if o.cluster != "" && !flags.Changed("controllers") {
		o.controllers = o.nodeAnnotations
	}
}

// answersOnly reports whether this worker only polls its task queue and answers its tasks.
func (o *Options) answersOnly() bool { return o.cluster != "" && !o.controllers }

// Check refuses settings that have no effect, or that make the SDK exit.
func (o *Options) Check() error {
	switch {
	case o.workflowTasks < 2:
		return fmt.Errorf("--max-workflow-tasks %d: must be at least 2: one for cached workflows, one for others", o.workflowTasks)
	case o.workflowPollers < 2:
		return fmt.Errorf("--workflow-pollers %d: must be at least 2: one for cached workflows, one for others", o.workflowPollers)
	case o.activities < 1:
		return fmt.Errorf("--max-activities %d: must be at least 1", o.activities)
	case o.activityPollers < 1:
		return fmt.Errorf("--activity-pollers %d: must be at least 1", o.activityPollers)
	case o.qps < 0:
		return fmt.Errorf("--kube-qps %v: must not be negative", o.qps)
	case o.burst < 0:
		return fmt.Errorf("--kube-burst %d: must not be negative", o.burst)
	case o.stopTimeout < 0:
		return fmt.Errorf("--stop-timeout %s: must not be negative", o.stopTimeout)
	case o.healthAddress == "":
		return errors.New("--health-address: must not be empty: set host:port, such as 127.0.0.1:9091; with port 0 the log names the port")
	case !slices.Contains([]string{"", string(ranv1.EnforceCopy), string(ranv1.EnforceOverride)}, o.policyEnforcement):
		return fmt.Errorf("--policy-enforcement %q is neither Copy nor Override", o.policyEnforcement)
	case len(allow.Hosts(o.updateGraphHosts).Check(field.NewPath("--update-graph-hosts"))) > 0:
		return allow.Hosts(o.updateGraphHosts).Check(field.NewPath("--update-graph-hosts")).ToAggregate()
	case o.deployment != "" && o.buildID == "":
		return errors.New("--deployment also needs --build-id")
	case o.buildID != "" && o.deployment == "":
		return errors.New("--build-id also needs --deployment")
	case o.nodeAnnotations && !o.controllers:
		return errors.New("--node-annotations also needs --controllers")
	}
	return nil
}

// Source returns the clusters of this worker, and what the requests of users may make it do. With --cluster the clusters file says only the latter.
func (o *Options) Source() (kube.Source, error) {
	source, err := o.access()
	if err != nil {
		return kube.Source{}, err
	}
	allowed := source.Allowed()
	if o.cluster != "" && o.clustersFile != "" {
		file, err := kube.FromClustersFile(o.clustersFile)
		if err != nil {
			return kube.Source{}, err
		}
		allowed = file.Allowed()
	}
	for _, image := range []string{o.precacheImage, o.backupImage} {
		if image != "" {
			allowed.PreparationImages = append(allowed.PreparationImages, image)
		}
	}
	return source.Allowing(allowed), nil
}

// access returns the clusters of this worker. Exactly one way to name them must be used.
func (o *Options) access() (kube.Source, error) {
	byContext := len(o.contexts) > 0 || o.hubContext != ""
	switch {
	case byContext && (o.clustersFile != "" || o.cluster != ""):
		return kube.Source{}, errors.New("--contexts and --hub-context exclude --clusters and --cluster")
	case o.kubeconfig != "" && !byContext && o.cluster == "":
		return kube.Source{}, errors.New("--kubeconfig needs --contexts, --hub-context or --cluster: a clusters file names the kubeconfig of each cluster")
	case byContext:
		return kube.FromKubeconfig(o.kubeconfig, o.hubContext, o.contexts...)
	case o.cluster != "":
		source, err := kube.FromWithin(o.cluster, o.kubeconfig)
		if err != nil {
			err = fmt.Errorf("--cluster: %w", err)
		}
		return source, err
	case o.clustersFile != "":
		return kube.FromClustersFile(o.clustersFile)
	}
	return kube.Source{}, errors.New("no clusters: set --clusters, --contexts with --hub-context, or, inside a cluster, --cluster")
}

// taskQueue is the task queue that this worker polls.
func (o *Options) taskQueue() string {
	if o.cluster != "" {
		return temporal.ClusterTaskQueue(o.cluster)
	}
	return temporal.TaskQueue
}

// versioned reports whether this worker is a version of a worker deployment. It is off by default: a versioned queue dispatches nothing until
// an operator sets a current version.
func (o *Options) versioned() bool { return o.deployment != "" && o.buildID != "" }

func (o *Options) workerOptions(hub bool, onFatalError func(error)) worker.Options {
	settings := worker.Options{
		Identity:                               temporal.WorkerIdentity(hub, o.controllers, o.nodeAnnotations),
		MaxConcurrentActivityExecutionSize:     o.activities,
		MaxConcurrentWorkflowTaskExecutionSize: o.workflowTasks,
		MaxConcurrentActivityTaskPollers:       o.activityPollers,
		WorkerStopTimeout:                      o.stopTimeout,
		// A fixed number of pollers for both queues polls only for cached workflows while those have a backlog: the first tasks of others could wait.
		WorkflowTaskPollerBehavior: worker.NewPollerBehaviorAutoscaling(worker.PollerBehaviorAutoscalingOptions{
			InitialNumberOfPollers: o.workflowPollers / 2, MinimumNumberOfPollers: o.workflowPollers / 2, MaximumNumberOfPollers: o.workflowPollers,
		}),
		// A cancellation reaches an activity with the answer to a heartbeat, so heartbeats must not be throttled for long.
		MaxHeartbeatThrottleInterval:     2 * time.Second,
		DefaultHeartbeatThrottleInterval: 2 * time.Second,
		DisableWorkflowWorker:            o.cluster != "",
		Interceptors:                     []interceptor.WorkerInterceptor{&temporal.WorkerShutdown{}, &temporal.Lease{}, &temporal.Forbidden{}, &kit.SignalOrder{}, &kit.FirstRun{}},
		OnFatalError:                     onFatalError,
	}
	if o.answersOnly() {
		settings.Interceptors = append(settings.Interceptors, &temporal.AnswersOnly{})
	}
	if o.versioned() {
		settings.DeploymentOptions = worker.DeploymentOptions{
			UseVersioning:             true,
			Version:                   worker.WorkerDeploymentVersion{DeploymentName: o.deployment, BuildID: o.buildID},
			DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
		}
	}
	return settings
}

// acceptedAtOnce is the number of requests that a worker accepts at the same time. Each attempt sends several requests to Temporal within its 10 s, so thousands
// at once would all time out, and begin again.
const acceptedAtOnce = 32

// acceptOptions are the options for the task queue of requests.
func acceptOptions(settings worker.Options) worker.Options {
	settings.MaxConcurrentActivityExecutionSize = min(settings.MaxConcurrentActivityExecutionSize, acceptedAtOnce)
	settings.DisableWorkflowWorker = true
	return settings
}
