package locks

import (
	"errors"
	"fmt"
	"slices"

	"go.temporal.io/sdk/workflow"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// EditRequest changes the policy of a controller without an object.
type EditRequest = edits.Request[drydockv1.WorkloadLockPolicySpec]

// listenForEdits registers the update that changes the policy, as an edit of an object does.
func (c *lockController) listenForEdits(ctx workflow.Context) error {
	preview := func(r EditRequest) (edits.Preview[drydockv1.WorkloadLockPolicySpec], error) {
		return c.previewEdit(r), nil
	}
	return errors.Join(workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryPreviewEdit, preview, workflow.QueryHandlerOptions{
		Description: "What an edit would do: {actor, spec}.",
	}), workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateEdit, c.edit, workflow.UpdateHandlerOptions{
		Description: "Change the policy: {actor, reason, spec}.",
		Validator: func(r EditRequest) error {
			_, err := c.checkEdit(r)
			return kit.InvalidSpec(err)
		},
	}))
}

// previewEdit returns what an edit would do now, also one of the object in the cluster.
func (c *lockController) previewEdit(r EditRequest) edits.Preview[drydockv1.WorkloadLockPolicySpec] {
	current := c.in.Policy.Spec
	preview := edits.Preview[drydockv1.WorkloadLockPolicySpec]{Spec: current, Changed: edits.ChangedFields(current, r.Spec, "spec.")}
	_, err := c.checkEdit(r)
	if c.in.Source != nil {
		_, err = edits.CheckLockPolicy(current, r.Spec)
	}
	if err != nil && len(preview.Changed) > 0 {
		preview.Refused = err.Error()
	}
	return preview
}

func (c *lockController) edit(_ workflow.Context, r EditRequest) (edits.Answer, error) {
	changed, err := c.checkEdit(r) // two updates may pass the validation together
	if err != nil {
		return edits.Answer{}, kit.InvalidSpec(err)
	}
	if len(changed) > 0 {
		c.signals++
		note := "the policy was edited" + kit.ActorSuffix(temporal.SignalRequest{Actor: r.Actor, Reason: r.Reason})
		if !slices.Contains(c.status.Notes, note) {
			c.status.Notes = append(c.status.Notes, note)
		}
		c.follows(r.Spec)
	}
	return edits.Answer{Changed: changed}, nil
}

// checkEdit returns the fields that an edit changes. It refuses an edit that is not possible now.
func (c *lockController) checkEdit(r EditRequest) ([]string, error) {
	switch {
	case c.in.Source != nil:
		return nil, fmt.Errorf("the lock controller follows the %s in the cluster: edit that (kubectl edit, or apply)", c.in.Source)
	case c.cancelled != nil || c.status.State != Running:
		return nil, errors.New("the lock controller is ending: start it again")
	}
	return edits.CheckLockPolicy(c.in.Policy.Spec, r.Spec)
}
