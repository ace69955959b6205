package nodemaintenance

import (
	"errors"
	"fmt"
	"strings"

	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/util/validation"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// mostRequestors limits the requestors of a node: spec.requestorID and 64 additional ones.
const mostRequestors = 65

// listenForJoins registers the update that adds a requestor to the maintenance, like one of its additionalRequestors.
func (m *nodeMaintenance) listenForJoins(ctx workflow.Context) error {
	return workflow.SetUpdateHandlerWithOptions(ctx, temporal.UpdateJoin,
		func(_ workflow.Context, r temporal.SignalRequest) (maintenancev1.NodeMaintenanceStatus, error) {
			m.join(r)
			return m.state.Status, nil
		},
		workflow.UpdateHandlerOptions{
			Description: "Add a requestor: the node is not returned before it is also done.",
			Validator:   func(r temporal.SignalRequest) error { return kit.InvalidSpec(m.checkJoin(r.Requestor)) },
		})
}

// checkJoin refuses a requestor that cannot join.
func (m *nodeMaintenance) checkJoin(id string) error {
	known := m.state.requestor(id)
	switch problems := validation.IsDNS1123Subdomain(strings.ToLower(id)); {
	case id == "":
		return errors.New("requestor is required")
	case len(id) < 2 || len(id) > 63:
		return fmt.Errorf("requestor %s must have 2 to 63 characters", id)
	case len(problems) > 0:
		return fmt.Errorf("requestor %s: %s", id, strings.Join(problems, "; "))
	case m.in.Parent != "":
		return fmt.Errorf("the maintenance is part of rollout %s, which returns the node without waiting for others; start a maintenance that waits for the node", m.in.Parent)
	case m.state.Return.Begun == Yes || m.state.Status.State.Over():
		return errors.New("the node is being returned; start a maintenance that waits for the node")
	case m.state.Status.ReadyForRequestors && m.state.Readiness.Uncordoned:
		return fmt.Errorf("the node was uncordoned manually, and its pods may have come back; cordon it first (kubectl cordon %s)", m.node.Node)
	case known == nil && len(m.state.Requestors) >= mostRequestors:
		return fmt.Errorf("the maintenance has %d requestors, the most that are allowed", len(m.state.Requestors))
	}
	return nil
}

// join adds a requestor. A requestor that was done or has left needs the node again.
func (m *nodeMaintenance) join(r temporal.SignalRequest) {
	known := m.state.requestor(r.Requestor)
	switch {
	case known == nil:
		known = &Requestor{RequestorStatus: maintenancev1.RequestorStatus{RequestorID: r.Requestor}}
		m.state.Requestors = append(m.state.Requestors, known)
	case known.State.NeedsNode():
		return
	}
	known.Failure = nil
	m.setRequestor(known, maintenancev1.RequestorActive, "")
	m.record.note(r.Requestor + " joined" + kit.ActorSuffix(r))
	m.showFailure()
}
