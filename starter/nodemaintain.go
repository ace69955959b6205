package main

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"regexp"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/safename"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
	"drydock.dev/drydock/workflows/preflight"
)

// maintainFlags are the flags of node maintain.
type maintainFlags struct {
	file, name, requestor, podSelector, onDrainTimeout, onFailure, completionSelector, lockRelease string

	additionalRequestors, resourceFilters, windows []string

	cordon, drain, force, deleteEmptyDir, wait, awaitCompletion bool

	drainTimeout, completionTimeout, skipWaitForDelete, healthTimeout, lockTimeout time.Duration
	// given reports whether a flag was set: for some, absent differs from zero.
	given func(flag string) bool
	start startFlags
	// describing are the flags that set fields of the request.
	describing *pflag.FlagSet
}

func newNodeMaintain(c *cli) *cobra.Command {
	var flags maintainFlags
	cmd := &cobra.Command{
		Use: "maintain NODE", Aliases: []string{"create"},
		Short: "Take a node out of service: cordon and drain it until it is ready for your work",
		Long: `Take a node out of service: cordon and drain it until it is ready for your work. When the work is done, run "drydock node done"; the node
is then checked and returned to service.

With -f the whole request comes from a NodeMaintenance, and no other flag may set its fields. Health checks, a pod order and a Job need a
file.

If another maintenance has the node, this one waits until the node is returned. To work on the node together with the other requestor
instead, join its maintenance: see "drydock node join".

A worker first checks that the cluster, the node and the windows exist, and previews the drain. The command starts nothing and fails if one does not
exist. It warns of a drain that could not finish unless a person acts.

With --wait the command follows the maintenance until the node is ready, or, if a Job does the work, until the node is back in service.`,
		Args: func(cmd *cobra.Command, args []string) error {
			if flags.file != "" {
				return cmp.Or(flags.besideFile(), operands()(cmd, args))
			}
			return operands("NODE")(cmd, args)
		},
		RunE: c.verb(func(ctx context.Context, args []string) error {
			if err := c.requireCluster(); err != nil {
				return err
			}
			object, err := c.requestedMaintenance(flags, args)
			if err != nil {
				return err
			}
			return c.startMaintenance(ctx, object, flags)
		}),
	}
	flags.add(cmd)
	_ = cmd.RegisterFlagCompletionFunc("maintenance-window", c.completeWindows)
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func (f *maintainFlags) add(cmd *cobra.Command) {
	f.given = cmd.Flags().Changed
	cmd.Flags().StringVarP(&f.file, "filename", "f", "", "file with the NodeMaintenance, instead of the flags that describe one; - is standard input")
	cmd.Flags().BoolVar(&f.wait, "wait", false, "wait until the node is ready")
	f.start.addWaitForIt(cmd)
	f.start.addRefuseIfBlocked(cmd)
	addReasonFlag(cmd, &f.start.reason)
	f.describing = pflag.NewFlagSet("", pflag.ContinueOnError)
	flags := f.describing
	flags.StringVar(&f.name, "name", "", "name of the maintenance (default: NODE-REQUESTOR)")
	flags.StringVar(&f.requestor, "requestor", defaultRequestor(), "requestor of the maintenance: 2 to 63 characters, like a DNS name")
	flags.Lookup("requestor").DefValue = "USER.cli.drydock" // the help reads the same for everybody
	flags.BoolVar(&f.cordon, "cordon", true, "cordon the node")
	flags.BoolVar(&f.drain, "drain", true, "drain the node")
	flags.DurationVar(&f.drainTimeout, "drain-timeout", 5*time.Minute, "time for the drain; 0 is no limit")
	flags.StringVar(&f.podSelector, "pod-selector", "", "evict only pods that match this label selector")
	flags.BoolVar(&f.force, "force", false, "also evict pods without a controller: they are not recreated")
	flags.BoolVar(&f.deleteEmptyDir, "delete-emptydir-data", false, "also evict pods with emptyDir volumes: their data is lost")
	flags.StringSliceVar(&f.resourceFilters, "pod-eviction-filter", nil, "evict only pods that request a resource whose name matches one of these regular expressions")
	flags.DurationVar(&f.skipWaitForDelete, "skip-wait-for-delete", 0, "do not wait for pods whose grace period ended longer ago than this")
	flags.BoolVar(&f.awaitCompletion, "wait-for-pods", false, "before the drain, wait until pods have completed")
	flags.StringVar(&f.completionSelector, "wait-for-pods-selector", "", "wait only for pods that match this label selector")
	flags.DurationVar(&f.completionTimeout, "wait-for-pods-timeout", 0, "wait no longer than this for them; 0 is no limit")
	flags.StringSliceVar(&f.additionalRequestors, "additional-requestor", nil, "another requestor: the node stays out of service until it is done, too")
	flags.StringSliceVar(&f.windows, "maintenance-window", nil, "window in which the maintenance may start, NAME or NAMESPACE/NAME; repeat it to allow several (default: at any time)")
	flags.DurationVar(&f.healthTimeout, "health-timeout", 10*time.Minute, "time for the node to become healthy after the work; 0 is no limit")
	flags.DurationVar(&f.lockTimeout, "lock-timeout", 0, "wait no longer than this for workload locks (default: no limit)")
	flags.StringVar(&f.lockRelease, "lock-release", "", "release that is installed: workload locks that report another one hold (default: any)")
	flags.StringVar(&f.onDrainTimeout, "on-drain-timeout", string(maintenancev1.DrainTimeoutFail), "Fail or Retry")
	flags.StringVar(&f.onFailure, "on-failure", string(maintenancev1.FailureUncordon), "Uncordon or KeepCordoned")
	cmd.Flags().AddFlagSet(flags)
	_ = cmd.MarkFlagFilename("filename", "yaml", "yml", "json")
	completeValues(cmd, "on-drain-timeout", string(maintenancev1.DrainTimeoutFail), string(maintenancev1.DrainTimeoutRetry))
	completeValues(cmd, "on-failure", string(maintenancev1.FailureUncordon), string(maintenancev1.FailureKeepCordoned))
}

// defaultRequestor is the user who runs the command, as a valid requestor name.
func defaultRequestor() string {
	name := strings.Trim(regexp.MustCompile(`[^a-z0-9]+`).ReplaceAllString(strings.ToLower(actor()), "-"), "-")
	return safename.Join(".", strings.TrimPrefix(name+".cli", "."), "drydock")
}

// requestedMaintenance returns the complete and valid request from a file or from the flags.
func (c *cli) requestedMaintenance(flags maintainFlags, args []string) (*maintenancev1.NodeMaintenance, error) {
	object := &maintenancev1.NodeMaintenance{}
	var err error
	if flags.file != "" {
		object, err = manifest.LoadOne[*maintenancev1.NodeMaintenance](flags.file, c.In)
	} else {
		object = flags.object(args[0])
		err = cmp.Or(flags.contradictions(), flags.inFlags(manifest.Complete(object)))
	}
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

func (f maintainFlags) object(node string) *maintenancev1.NodeMaintenance {
	object := &maintenancev1.NodeMaintenance{
		TypeMeta:   metav1.TypeMeta{APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{Name: f.name},
		Spec: maintenancev1.NodeMaintenanceSpec{
			RequestorID:          f.requestor,
			AdditionalRequestors: f.additionalRequestors,
			NodeName:             node,
			Cordon:               &f.cordon,
			HealthTimeoutSeconds: new(wholeSeconds(f.healthTimeout)),
			OnDrainTimeout:       maintenancev1.DrainTimeoutAction(f.onDrainTimeout),
			OnFailure:            maintenancev1.FailureAction(f.onFailure),
		},
	}
	if object.Name == "" {
		object.Name = safename.Join("-", node, f.requestor)
	}
	if f.drain {
		timeout := wholeSeconds(f.drainTimeout)
		object.Spec.DrainSpec = &maintenancev1.DrainSpec{
			Force: f.force, PodSelector: f.podSelector, TimeoutSeconds: &timeout, DeleteEmptyDir: f.deleteEmptyDir,
		}
		for _, expression := range f.resourceFilters {
			object.Spec.DrainSpec.PodEvictionFilters = append(object.Spec.DrainSpec.PodEvictionFilters,
				maintenancev1.PodEvictionFilter{ByResourceNameRegex: &expression})
		}
		if f.given("skip-wait-for-delete") {
			object.Spec.DrainSpec.SkipWaitForDeleteSeconds = new(wholeSeconds(f.skipWaitForDelete))
		}
	}
	for _, window := range f.windows {
		object.Spec.MaintenanceWindows = append(object.Spec.MaintenanceWindows, drydockv1.WindowName(window))
	}
	if f.awaitCompletion {
		object.Spec.WaitForPodCompletion = &maintenancev1.WaitForPodCompletionSpec{
			PodSelector: f.completionSelector, TimeoutSeconds: wholeSeconds(f.completionTimeout),
		}
	}
	object.Spec.LockRelease = f.lockRelease
	if f.given("lock-timeout") {
		object.Spec.LockTimeoutSeconds = new(wholeSeconds(f.lockTimeout))
	}
	return object
}

// wholeSeconds rounds away from 0, which means no limit in the API, and is at most the largest int32.
func wholeSeconds(d time.Duration) int32 {
	seconds := math.Ceil(math.Abs(d.Seconds()))
	return int32(math.Copysign(min(seconds, math.MaxInt32), d.Seconds()))
}

func (c *cli) startMaintenance(ctx context.Context, object *maintenancev1.NodeMaintenance, flags maintainFlags) error {
	if drain := object.Spec.DrainSpec; drain != nil {
		drain.RefuseIfBlocked = drain.RefuseIfBlocked || flags.start.refuseIfBlocked
		flags.start.refuseIfBlocked = drain.RefuseIfBlocked
	} else if flags.start.refuseIfBlocked {
		return usagef("--refuse-if-blocked has no effect: the maintenance does not drain the node")
	}
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	target := nodeMaintenance(c.cluster, object.Namespace, object.Name)
	if err := c.preflight(ctx, s, target, preflight.Input{Cluster: c.cluster, Maintenance: object}, flags.start); err != nil {
		return err
	}
	run, err := s.start(ctx, target, flags.start.reason, temporal.NodeMaintenanceOptions(c.cluster, object.Spec.NodeName, object.Spec.RequestorID), temporal.NodeMaintenance,
		nodemaintenance.Input{Cluster: c.cluster, Object: *object})
	if err != nil {
		return err
	}
	if flags.wait {
		last, err := c.watchMaintenance(ctx, s, target, readyForRequestor(object))
		if err == nil && last.State == maintenancev1.NodeRequestorFailed {
			return fmt.Errorf("%s: the work failed%s", target, failureText(last.Failure))
		}
		if err == nil && last.State == maintenancev1.NodeReady {
			c.warn("node %s is ready for your work; when it is done, return the node: `drydock node done %s/%s --cluster %s`",
				object.Spec.NodeName, object.Namespace, object.Name, c.cluster)
		}
		return err
	}
	started := workflowStarted{Metadata: observe.RefOf(target.workflowID, run.GetRunID())}
	return c.print(started, func(w *page) {
		fmt.Fprintf(w, "%s of node %s started; follow it with `%s --watch`\n", target, object.Spec.NodeName, target.show)
	}, target.workflowID)
}

// readyForRequestor reports whether the requestor has to act: the node is ready for its work, or a Job has failed on it.
func readyForRequestor(object *maintenancev1.NodeMaintenance) func(maintenancev1.NodeState) bool {
	byJob := object.Spec.Action != nil && object.Spec.Action.Type == maintenancev1.ActionJob
	return func(state maintenancev1.NodeState) bool {
		return state == maintenancev1.NodeReady && !byJob || state == maintenancev1.NodeRequestorFailed
	}
}
