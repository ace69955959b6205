package nodemaintenance

import (
	"errors"
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/edits"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// EditRequest changes the request of a maintenance without an object.
type EditRequest = edits.Request[maintenancev1.NodeMaintenanceSpec]

// editCheckLimit limits how long an edit waits for the check of the new spec. A person waits for the answer.
const editCheckLimit = time.Minute

// listenForEdits registers the update that changes the request, as an edit of an object does.
func (m *nodeMaintenance) listenForEdits(ctx workflow.Context) error {
	preview := func(r EditRequest) (edits.Preview[maintenancev1.NodeMaintenanceSpec], error) {
		return m.previewEdit(r), nil
	}
	return errors.Join(
		workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateEdit, m.edit, workflow.UpdateHandlerOptions{
			Description: "Change the spec of the request: {actor, reason, spec}. Steps that have ended stay as they are.",
			Validator: func(r EditRequest) error {
				_, err := m.checkEdit(r)
				return kit.InvalidSpec(err)
			},
		}),
		workflow.SetQueryHandlerWithOptions(ctx, temporal.QueryPreviewEdit, preview, workflow.QueryHandlerOptions{
			Description: "What an edit would do: {actor, spec}.",
		}),
	)
}

// previewEdit returns what an edit would do now. It does not check what only a worker knows, such as the images of Jobs that are allowed.
func (m *nodeMaintenance) previewEdit(r EditRequest) edits.Preview[maintenancev1.NodeMaintenanceSpec] {
	current := m.in.Object.Spec
	preview := edits.Preview[maintenancev1.NodeMaintenanceSpec]{Spec: current, Changed: edits.ChangedFields(current, r.Spec, "spec.")}
	_, err := m.checkEdit(r)
	if m.in.Source != nil { // the edit is one of its object
		_, err = edits.CheckMaintenance(current, r.Spec, m.state.Status.State)
	}
	if err != nil && len(preview.Changed) > 0 {
		preview.Refused = err.Error()
		return preview
	}
	preview.Effects = edits.MaintenanceEffects(current, r.Spec, preview.Changed, m.state.Status.State)
	return preview
}

func (m *nodeMaintenance) edit(ctx workflow.Context, r EditRequest) (edits.Answer, error) {
	object := m.in.Object
	object.Spec = r.Spec
	retrier := kit.HubRetrier(nil).Until(workflow.Now(ctx).Add(editCheckLimit))
	if err := retrier.Run(ctx, "check the edited request", m.hub.CheckNodeMaintenance, object, nil); err != nil {
		return edits.Answer{}, err
	}
	changed, err := m.checkEdit(r) // the maintenance may have gone on during the check
	if err != nil {
		return edits.Answer{}, kit.InvalidSpec(err)
	}
	if len(changed) > 0 {
		m.record.note("the request was edited" + kit.ActorSuffix(temporal.SignalRequest{Actor: r.Actor, Reason: r.Reason}))
		before := m.in.Object.Spec
		m.followRequestors(before.AdditionalRequestors, r.Spec.AdditionalRequestors)
		m.followSpec(before, r.Spec)
		m.in.Object.Spec.AdditionalRequestors = r.Spec.AdditionalRequestors
	}
	return edits.Answer{Changed: changed}, nil
}

// checkEdit returns the fields that an edit changes. It refuses an edit that is not possible now.
func (m *nodeMaintenance) checkEdit(r EditRequest) ([]string, error) {
	switch {
	case m.in.Parent != "":
		return nil, fmt.Errorf("the maintenance is part of rollout %s: its spec is that of the rollout", m.in.Parent)
	case m.in.Source != nil:
		return nil, fmt.Errorf("the maintenance follows the %s in the cluster: edit that (kubectl edit, or apply)", m.in.Source)
	case m.state.Return.Begun == Yes || m.state.Status.State.Over():
		return nil, errors.New("the node is being returned: start another maintenance")
	}
	current := m.in.Object.Spec
	changed, err := edits.CheckMaintenance(current, r.Spec, m.state.Status.State)
	for _, id := range missing(r.Spec.AdditionalRequestors, current.AdditionalRequestors) {
		err = errors.Join(err, m.checkJoin(id))
	}
	return changed, err
}
