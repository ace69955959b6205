package lockcontroller

import (
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitytest"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

func TestALockIsReleasedForADeletionAndStaysForADisabledNode(t *testing.T) {
	a := newApplication(t, 2)
	a.step()
	require.True(t, a.lock(a.nodes[0]).Spec.NodeDeletionRequestSupported)
	a.removePod(a.nodes[0])
	deletion := activitytest.Created(t, &lcmv1.NodeDeletionRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "deletion-" + a.nodes[0]}, Spec: lcmv1.NodeNameSpec{NodeName: a.nodes[0]},
	})
	a.stepUntil(func(report locks.Report) bool { return report.Inactive == 1 })
	require.Equal(t, lcmv1.LockInactive, a.lock(a.nodes[0]).Status.State)

	disabled := activitytest.Created(t, &lcmv1.NodeDisableNotification{
		ObjectMeta: metav1.ObjectMeta{Name: "disabled-" + a.nodes[1]}, Spec: lcmv1.NodeNameSpec{NodeName: a.nodes[1]},
	})
	require.NoError(t, a.cluster.Client.Delete(t.Context(), activitytest.GetNode(t, a.nodes[1])))
	require.NoError(t, a.cluster.Client.Delete(t.Context(), activitytest.GetNode(t, a.nodes[0])))
	a.withdraw(deletion)
	a.stepUntil(func(report locks.Report) bool {
		return report.Total == 1 && report.Nodes[0].Reason == locks.NodeDisabled
	})
	a.withdraw(disabled)
	a.stepUntil(func(report locks.Report) bool { return report.Total == 0 })
}
