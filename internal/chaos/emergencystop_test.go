package chaos

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/sdk/converter"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/holds"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/temporal"
)

// emergencyStops are scenarios of the emergency stop.
func emergencyStops() []scenario {
	return []scenario{
		{name: "the emergency stop is terminated while a cluster is held", run: emergencyStopTerminated},
		{name: "a cluster is held while a cordon is retried", run: heldDuringCordonRetries},
	}
}

// heldDuringCordonRetries: Drydock does not send the cordon again before the release.
func heldDuringCordonRetries(t *testing.T, s *scenarioRun) {
	at := s.targets(t, 1)[0]
	refused := s.inject(at.spoke, faultproxy.Rule{
		Match: faultproxy.Match{Verbs: []string{"patch"}, Resource: "nodes", Name: at.node}, Fault: faultproxy.Refuse(apierrors.NewServiceUnavailable("injected fault")),
	})
	w := s.maintain(t, at, maintenancev1.NodeMaintenanceSpec{Action: job(nil)})
	require.Eventually(t, func() bool { return refused.Injected() > 0 }, waitLimit, 10*time.Millisecond, "the cordon is retried")
	s.drydock(t, "hold", "--cluster", at.spoke.Name, "--reason", s.name)
	s.awaitHeld(t, w, at.spoke.Name)
	refused.Remove()
	s.awaitReason(t, w.workflow, emergency.ReasonHeld)
	node, err := at.spoke.Client.CoreV1().Nodes().Get(t.Context(), at.node, metav1.GetOptions{})
	require.NoError(t, err)
	require.False(t, node.Spec.Unschedulable)
	s.drydock(t, "release", "--cluster", at.spoke.Name)
	s.requireEnd(t, w)
}

// emergencyStopTerminated: the hold applies to a maintenance that starts after the termination, and the release reaches one that started before.
func emergencyStopTerminated(t *testing.T, s *scenarioRun) {
	free := s.targets(t, workers*(spokes-1))
	free = slices.DeleteFunc(free, func(p target) bool { return p.spoke != s.Spokes[1] })
	at, spec := free[0].spoke, maintenancev1.NodeMaintenanceSpec{Action: job(nil)}
	s.requireEnd(t, s.maintain(t, free[2], spec)) // the scheduler of the cluster subscribes to holds now
	s.drydock(t, "hold", "--cluster", at.Name, "--reason", s.name)
	before := s.maintain(t, free[0], spec)
	s.awaitHeld(t, before, at.Name)
	require.NoError(t, s.Await(t.Context(), s.Hub, "the hold is saved", []client.Object{&corev1.ConfigMap{}}, func(ctx context.Context, hub client.Reader) (bool, error) {
		var saved corev1.ConfigMap
		err := hub.Get(ctx, client.ObjectKey{Namespace: holds.SavedHoldsNamespace, Name: holds.SavedHoldsName}, &saved)
		return strings.Contains(saved.Data[holds.SavedHoldsKey], s.name), client.IgnoreNotFound(err)
	}))

	require.NoError(t, s.temporal.TerminateWorkflow(t.Context(), temporal.EmergencyStopID, "", s.name))
	after := s.maintain(t, free[1], spec)
	s.awaitHeld(t, after, at.Name)
	s.drydock(t, "release", "--cluster", at.Name)
	s.requireEnd(t, before)
	s.requireEnd(t, after)
}

// awaitHeld waits until a workflow has received the hold of its cluster.
func (s *scenarioRun) awaitHeld(t *testing.T, w *work, cluster string) {
	t.Helper()
	s.awaitEvent(t, w.workflow, "it receives the hold of "+cluster, func(event *historypb.HistoryEvent) bool {
		signal := event.GetWorkflowExecutionSignaledEventAttributes()
		if signal.GetSignalName() != temporal.SignalHeld {
			return false
		}
		var state emergency.State
		err := converter.GetDefaultDataConverter().FromPayloads(signal.Input, &state)
		return err == nil && slices.ContainsFunc(state.Holds, func(h drydockv1.Hold) bool { return h.Scope.Cluster() == cluster })
	})
}
