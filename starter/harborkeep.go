package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	harboractivities "drydock.dev/drydock/activities/harbor"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/harbor"
	"drydock.dev/drydock/workflows/preflight"
)

// harborCluster names a HarborCluster.
func harborCluster(cluster, namespace, name string) subject {
	return subject{
		noun: "HarborCluster", name: namespace + "/" + name + " in cluster " + cluster,
		workflowID: temporal.HarborClusterID(cluster, namespace, name),
		show:       fmt.Sprintf("drydock harbor status %s/%s --cluster %s", namespace, name, cluster),
		list:       "drydock harbor list --cluster " + cluster,
	}
}

// namedHarborCluster parses the name of a HarborCluster: NAME, NAMESPACE/NAME, or the workflow id.
func (c *cli) namedHarborCluster(name string) (subject, error) {
	parts := strings.Split(name, "/")
	if len(parts) == 4 && parts[0] == "harbor" {
		return harborCluster(parts[1], parts[2], parts[3]), nil
	}
	if err := c.requireCluster(); err != nil {
		return subject{}, err
	}
	switch len(parts) {
	case 1:
	case 2:
		if err := c.inNamespace(parts[0]); err != nil {
			return subject{}, err
		}
	default:
		return subject{}, usagef("%q is not the name of a HarborCluster: give NAME, NAMESPACE/NAME or harbor/CLUSTER/NAMESPACE/NAME", name)
	}
	return harborCluster(c.cluster, c.objectNamespace(), parts[len(parts)-1]), nil
}

func newHarborApply(c *cli) *cobra.Command {
	var file string
	var wait bool
	var flags startFlags
	cmd := &cobra.Command{
		Use: "apply -f FILE", Aliases: []string{"create", "edit"},
		Short: "Create or change the Harbor that a HarborCluster describes",
		Long: `Create or change the Harbor that a HarborCluster describes, and reconcile it continuously. The command writes the HarborCluster to the
cluster, where you can also change and delete it.

With --wait the command returns when Harbor is healthy.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			hc, err := manifest.LoadOne[*goharborv1.HarborCluster](file, c.In)
			if err != nil {
				return inputError(err)
			}
			if err := c.requireCluster(); err != nil {
				return err
			}
			if hc.Namespace != "" {
				if err := c.inNamespace(hc.Namespace); err != nil {
					return err
				}
			}
			hc.Namespace = c.objectNamespace()
			return c.applyHarbor(ctx, hc, wait, flags)
		}),
	}
	addFileFlag(cmd, &file, "file with the HarborCluster")
	addReasonFlag(cmd, &flags.reason)
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until Harbor is healthy")
	flags.addWaitForIt(cmd)
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	c.addOutputFlag(cmd)
	return cmd
}

func (c *cli) applyHarbor(ctx context.Context, hc *goharborv1.HarborCluster, wait bool, flags startFlags) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	target := harborCluster(c.cluster, hc.Namespace, hc.Name)
	if err := c.preflight(ctx, s, target, preflight.Input{Cluster: c.cluster}, flags); err != nil {
		return err
	}
	var applied harboractivities.ApplyClusterResult
	runID, err := s.changeHarbor(ctx, target, hc, temporal.UpdateApply, harbor.ApplyRequest{Actor: actor(), Reason: flags.reason, Object: *hc}, &applied)
	if err != nil {
		return err
	}
	started := workflowStarted{Metadata: observe.RefOf(target.workflowID, runID)}
	if wait {
		return c.awaitHarbor(ctx, s, target, applied.Generation)
	}
	return c.print(started, func(w *page) { fmt.Fprintf(w, "%s applied; see `%s`\n", target, target.show) }, target.workflowID)
}

// harborTimeout limits an update, which writes to the cluster before it answers.
const harborTimeout = 30 * time.Second

// changeHarbor sends an update to the workflow of a HarborCluster, and starts it if it is not running. If the run is about to end, it waits
// and sends the update to the next one. It returns the run that answered.
func (s *server) changeHarbor(ctx context.Context, target subject, hc *goharborv1.HarborCluster, update string, request, answer any) (runID string, err error) {
	waiting, cancel := context.WithTimeout(ctx, harborTimeout)
	defer cancel()
	runID, err = s.updateHarbor(waiting, target, hc, update, request, answer)
	for temporal.ErrorType(err) == temporal.ErrEnding && waiting.Err() == nil {
		if _ = s.GetWorkflow(waiting, target.workflowID, runID).Get(waiting, nil); waiting.Err() != nil { // however it ends
			break
		}
		runID, err = s.updateHarbor(waiting, target, hc, update, request, answer)
	}
	switch _, unknown := errors.AsType[*serviceerror.NotFound](err); {
	case err == nil:
		return runID, nil
	case !unknown && temporal.ErrorType(err) != "":
		return "", errors.New(about(fmt.Sprintf("%s %s", update, target), hc.Namespace+"/"+hc.Name, temporal.ErrorMessage(err)))
	case ctx.Err() == nil && (timeIsUp(waiting) || observe.NoWorker(err)):
		return "", unanswered(fmt.Sprintf("%s %s", update, target), target.show, err)
	}
	return "", s.explain(update, target, err)
}

// about says what a message is about, unless it has that name.
func about(what, name, message string) string {
	if strings.Contains(message, name) {
		return message
	}
	return what + ": " + message
}

// updateHarbor sends the update once. It returns the run that received it, even if that run refuses it.
func (s *server) updateHarbor(ctx context.Context, target subject, hc *goharborv1.HarborCluster, update string, request, answer any) (runID string, err error) {
	ref := observe.RefOf(target.workflowID, "")
	options := temporal.HarborClusterOptions(ref.Cluster, hc.Namespace, hc.Name)
	options.ID, options.TaskQueue = target.workflowID, temporal.TaskQueue
	options.WorkflowIDConflictPolicy = enumspb.WORKFLOW_ID_CONFLICT_POLICY_USE_EXISTING
	options.WorkflowIDReusePolicy = enumspb.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE
	input := harbor.Input{Cluster: ref.Cluster, Namespace: hc.Namespace, Name: hc.Name}
	sent, err := s.UpdateWithStartWorkflow(ctx, client.UpdateWithStartWorkflowOptions{
		StartWorkflowOperation: s.NewWithStartWorkflowOperation(options, temporal.HarborCluster, input),
		UpdateOptions:          client.UpdateWorkflowOptions{UpdateName: update, Args: []any{request}, WaitForStage: client.WorkflowUpdateStageCompleted},
	})
	if err != nil {
		return "", err
	}
	return sent.RunID(), sent.Get(ctx, answer)
}

func newHarborDelete(c *cli) *cobra.Command {
	var reason string
	var wait bool
	cmd := &cobra.Command{
		Use: "delete NAME", ValidArgsFunction: c.completeNamed(temporal.HarborCluster, false),
		Short: "Delete a HarborCluster and its objects; its data only if its deletionPolicy allows it",
		Args:  operands("NAME"),
		RunE: c.subjectVerb(c.namedHarborCluster, func(ctx context.Context, s *server, target subject) error {
			return c.deleteHarbor(ctx, s, target, reason, wait)
		}),
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until everything is deleted")
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	addReasonFlag(cmd, &reason)
	return cmd
}

func (c *cli) deleteHarbor(ctx context.Context, s *server, target subject, reason string, wait bool) error {
	// The workflow may have ended while the object still exists.
	ref, named := observe.RefOf(target.workflowID, ""), &goharborv1.HarborCluster{}
	named.Namespace, named.Name = ref.Namespace, ref.Name
	runID, err := s.changeHarbor(ctx, target, named, temporal.UpdateDelete, temporal.SignalRequest{Actor: actor(), Reason: reason}, nil)
	if err != nil {
		return err
	}
	if !wait {
		return c.say("%s is being deleted; see `%s`", target, target.show)
	}
	var last harbor.Status
	if err := s.GetWorkflow(ctx, target.workflowID, runID).Get(ctx, &last); err != nil {
		target.noun = "deletion of " + target.noun
		return cmp.Or(stillRunning(ctx, target), fmt.Errorf("%s failed: %s", target, temporal.ErrorMessage(err)))
	}
	_ = c.say("%s is deleted", target)
	for _, note := range last.Notes { // about its data and about objects that remain
		_ = c.say("note: %s", note)
	}
	return nil
}

func newHarborCancel(c *cli) *cobra.Command {
	cmd := newSignal(c, workflowSignal{
		name: temporal.SignalCancel, short: "Stop managing a Harbor; its objects stay unchanged", result: "is no longer managed: its objects stay unchanged",
	}, c.namedHarborCluster)
	cmd.ValidArgsFunction = c.completeNamed(temporal.HarborCluster, true)
	c.addClusterFlag(cmd)
	c.addNamespaceFlag(cmd)
	return cmd
}
