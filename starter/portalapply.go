package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	temporalclient "go.temporal.io/sdk/client"
	"sigs.k8s.io/controller-runtime/pkg/client"

	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/temporal"
	portalworkflow "drydock.dev/drydock/workflows/portal"
)

func newPortalApply(c *cli) *cobra.Command {
	var file, reason string
	cmd := &cobra.Command{
		Use: "apply -f FILE", Aliases: []string{"create", "edit"},
		Short: "Show or change Components and Maintenances on their portals",
		Long: `Show or change Components and Maintenances on their portals, which spec.portalRef names.

Objects that you applied earlier and that are not in the file stay. The command validates all objects before it changes a portal. A portal
accepts all of its objects or none. An object with a new portalRef moves to that portal.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			objects, err := manifest.Load[client.Object](file, c.In)
			if err != nil {
				return inputError(err)
			}
			requests, err := c.portalRequests(objects)
			if err != nil {
				return err
			}
			for i := range requests {
				requests[i].Request = portal.Request{Actor: actor(), Reason: reason}
			}
			return c.applyToPortals(ctx, requests)
		}),
	}
	addFileFlag(cmd, &file, "file with Components and Maintenances")
	c.addNamespaceFlag(cmd)
	addReasonFlag(cmd, &reason)
	c.addOutputFlag(cmd)
	return cmd
}

// portalRequest holds the objects for one portal.
type portalRequest struct {
	name string
	portal.ApplyRequest
}

// portalRequests groups objects by portal and sets their namespaces.
func (c *cli) portalRequests(objects []client.Object) ([]portalRequest, error) {
	var requests []portalRequest
	seen := map[string]bool{}
	for _, object := range objects {
		var name, kind string
		switch object := object.(type) {
		case *sreportalv1.Component:
			name, kind = object.Spec.PortalRef, "Component"
		case *sreportalv1.Maintenance:
			name, kind = object.Spec.PortalRef, "Maintenance"
		default:
			return nil, inputError(fmt.Errorf("%s %s is neither a Component nor a Maintenance", object.GetObjectKind().GroupVersionKind().Kind, object.GetName()))
		}
		if given := object.GetNamespace(); given != "" && c.namespace != "" && given != c.namespace {
			return nil, usagef("namespace %q contradicts -n %s", given, c.namespace)
		}
		object.SetNamespace(cmp.Or(object.GetNamespace(), c.objectNamespace()))
		full := kind + " " + object.GetNamespace() + "/" + object.GetName()
		if seen[full] {
			return nil, inputError(fmt.Errorf("%s appears twice", full))
		}
		seen[full] = true
		i := slices.IndexFunc(requests, func(r portalRequest) bool { return r.name == name })
		if i < 0 {
			i = len(requests)
			requests = append(requests, portalRequest{name: name})
		}
		requests[i].add(object)
	}
	slices.SortFunc(requests, func(a, b portalRequest) int { return strings.Compare(a.name, b.name) })
	return requests, nil
}

func (r *portalRequest) add(object client.Object) {
	switch object := object.(type) {
	case *sreportalv1.Component:
		r.Components = append(r.Components, *object)
	case *sreportalv1.Maintenance:
		r.Maintenances = append(r.Maintenances, *object)
	}
}

// portalAnswers is the output of -o json: the answers of the portals.
type portalAnswers struct {
	Items []portal.Answer `json:"items"`
}

// applyToPortals applies objects to one portal after another. If one fails, the error names the portals that succeeded.
func (c *cli) applyToPortals(ctx context.Context, requests []portalRequest) error {
	s, err := c.dial(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	answers := portalAnswers{Items: []portal.Answer{}}
	var ids []string
	var failed error
	for _, request := range requests {
		target := portalSubject(request.name)
		answer, err := s.applyToPortal(ctx, target, request.ApplyRequest)
		if err != nil {
			failed = err
			break
		}
		for _, warning := range answer.Warnings {
			c.warn("warning: portal %s: %s", answer.Portal, warning)
		}
		answers.Items, ids = append(answers.Items, answer), append(ids, target.workflowID)
	}
	if failed != nil && len(ids) == 0 {
		return failed
	}
	err = c.print(answers, func(w *page) {
		for _, answer := range answers.Items {
			renderPortalAnswer(w, answer)
		}
	}, ids...)
	return cmp.Or(failed, err)
}

// applyToPortal sends objects to a portal, and starts it if it is not running.
func (s *server) applyToPortal(ctx context.Context, target subject, request portal.ApplyRequest) (portal.Answer, error) {
	var answer portal.Answer
	err := s.answered(ctx, target, "apply to", &answer, func(ctx context.Context) (temporalclient.WorkflowUpdateHandle, error) {
		options := temporal.StatusPortalOptions(target.name)
		return s.UpdateWithStartWorkflow(ctx, temporalclient.UpdateWithStartWorkflowOptions{
			StartWorkflowOperation: s.NewWithStartWorkflowOperation(options, temporal.StatusPortal, portalworkflow.Input{}),
			UpdateOptions: temporalclient.UpdateWorkflowOptions{
				WorkflowID: options.ID, UpdateName: temporal.UpdateApply, Args: []any{request}, WaitForStage: temporalclient.WorkflowUpdateStageCompleted,
			},
		})
	})
	return answer, err
}
