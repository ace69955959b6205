package locks_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/utils/ptr"

	"drydock.dev/drydock/internal/locks"
)

// reasonOf is why the lock of a node has its state.
func (w *world) reasonOf(node string) locks.Reason {
	for _, lock := range w.decide().Locks {
		if lock.Kind == locks.NodeLockKind && lock.Node == node {
			return lock.Reason
		}
	}
	return ""
}

func TestNodesThatWillBeDeletedAreReleasedOneAfterTheOther(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	w.settle()
	w.setPod("n1", false)
	w.removePod("n2")
	w.requestDeletion("n1")
	w.requestDeletion("n2")
	require.Equal(t, locks.DeletionRequested, w.reasonOf("n1"))
	w.settle()
	require.Equal(t, []string{"n1"}, w.inactive(), "its pod need not be ready: the application leaves it")
	require.Equal(t, locks.RequestStands, w.reasonOf("n1"))
	require.Equal(t, locks.MaxInactiveNodes, w.reasonOf("n2"))

	w.removeNode("n1")
	w.withdrawDeletion("n1")
	w.settle()
	require.Nil(t, w.lock("n1"))
	require.Equal(t, []string{"n2"}, w.inactive())

	w.withdrawDeletion("n2")
	w.request("n3")
	w.settle()
	require.Equal(t, locks.PodNotBack, w.reasonOf("n2"), "the node stays in the cluster")
	require.Equal(t, active, w.state("n3"))
	w.addPod("n2", true)
	w.settle()
	require.Equal(t, active, w.state("n2"))
	require.Equal(t, inactive, w.state("n3"))
}

func TestAFailedLockIsReleasedForTheDeletionOfItsNode(t *testing.T) {
	w := newWorld(t, "n1", "n2")
	w.policy.NodePodDeadlineSeconds = ptr.To[int32](60)
	w.settle()
	w.removePod("n1")
	w.request("n1")
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.settle()
	require.Equal(t, failed, w.state("n1"))
	w.requestDeletion("n1")
	w.settle()
	require.Equal(t, inactive, w.state("n1"))
	require.Empty(t, w.lock("n1").Status.ErrorMessage)
}

func TestTheLockOfADisabledNodeStays(t *testing.T) {
	w := newWorld(t, "n1", "n2", "n3")
	w.settle()
	w.request("n1")
	w.settle()
	w.disable("n1")
	w.disable("n2")
	w.removeNode("n1")
	w.removeNode("n2")
	w.request("n3")
	w.settle()
	require.Equal(t, inactive, w.state("n1"))
	require.Equal(t, active, w.state("n2"))
	require.Equal(t, locks.NodeDisabled, w.reasonOf("n2"))
	require.Equal(t, locks.MaxInactiveNodes, w.reasonOf("n3"), "n1 is still out of service")

	w.enable("n1")
	w.enable("n2")
	w.settle()
	require.Nil(t, w.lock("n1"))
	require.Nil(t, w.lock("n2"))
	w.settle()
	require.Equal(t, inactive, w.state("n3"))
}

func TestADeadlineOfZeroIsNone(t *testing.T) {
	w := newWorld(t, "n1")
	w.policy.NodePodDeadlineSeconds = ptr.To[int32](0)
	w.settle()
	w.removePod("n1")
	w.request("n1")
	w.settle()
	w.now = w.now.Add(time.Hour)
	w.settle()
	require.Equal(t, locks.PodNotReady, w.reasonOf("n1"))
	require.Equal(t, active, w.state("n1"))
}
