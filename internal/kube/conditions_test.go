package kube_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/kube"
)

const owner = "node/spoke/default/maintenance/run"

// nodeWithConditions returns a node with a kubelet's condition and with a DrainInProgress that our owner set an hour ago.
func nodeWithConditions(t *testing.T, cluster *kube.Cluster) *corev1.Node {
	t.Helper()
	node := newNode(t, cluster)
	began := metav1.NewTime(time.Now().Add(-time.Hour).Truncate(time.Second))
	node.Status.Conditions = []corev1.NodeCondition{
		{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady", LastTransitionTime: began},
		{
			Type: kube.ConditionDrainInProgress, Status: corev1.ConditionTrue, Reason: "Drydock", Message: "first attempt (" + owner + ")",
			LastTransitionTime: began, LastHeartbeatTime: began,
		},
	}
	require.NoError(t, cluster.Client.Status().Update(t.Context(), node))
	return node
}

func reread(t *testing.T, cluster *kube.Cluster, node *corev1.Node) *corev1.Node {
	t.Helper()
	fresh := &corev1.Node{}
	require.NoError(t, cluster.Client.Get(t.Context(), client.ObjectKeyFromObject(node), fresh))
	return fresh
}

func TestAConditionKeepsItsTransitionTimeUntilItsStatusChanges(t *testing.T) {
	cluster := spoke(t)
	node := nodeWithConditions(t, cluster)
	began := node.Status.Conditions[1].LastTransitionTime

	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), node, owner, kube.AnyNode,
		kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionTrue, "second attempt")))
	condition := kube.FindNodeCondition(reread(t, cluster, node), kube.ConditionDrainInProgress)
	require.Equal(t, "second attempt ("+owner+")", condition.Message)
	require.True(t, began.Equal(&condition.LastTransitionTime))

	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), node, owner, kube.AnyNode,
		kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionFalse, "drained")))
	condition = kube.FindNodeCondition(reread(t, cluster, node), kube.ConditionDrainInProgress)
	require.True(t, began.Before(&condition.LastTransitionTime))
}

func TestUnchangedConditionsAreNotWrittenAgain(t *testing.T) {
	cluster := spoke(t)
	node := nodeWithConditions(t, cluster)
	before := reread(t, cluster, node).ResourceVersion
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), node, owner, kube.AnyNode,
		kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionTrue, "first attempt"),
		kube.NoNodeCondition(kube.ConditionDrained)))
	require.Equal(t, before, reread(t, cluster, node).ResourceVersion)
}

func TestAConditionThatTheCacheLacksIsRemoved(t *testing.T) {
	cluster := spoke(t)
	current := newNode(t, cluster)
	cached := current.DeepCopy()
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), current, owner, kube.AnyNode,
		kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionTrue, "pods are being evicted")))
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), cached, owner, kube.AnyNode,
		kube.NoNodeCondition(kube.ConditionDrainInProgress), kube.NoNodeCondition(kube.ConditionMaintenancePlanned),
		kube.NodeCondition(kube.ConditionDrained, corev1.ConditionTrue, "drained")))
	left := reread(t, cluster, current)
	require.Nil(t, kube.FindNodeCondition(left, kube.ConditionDrainInProgress))
	require.NotNil(t, kube.FindNodeCondition(left, kube.ConditionDrained))
}

func TestOnlyTheConditionsOfTheOwnerAreRemoved(t *testing.T) {
	cluster := spoke(t)
	node := nodeWithConditions(t, cluster)
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), node, "node/spoke/default/other/run", kube.AnyNode,
		kube.NodeCondition(kube.ConditionMaintenancePlanned, corev1.ConditionTrue, "planned")))
	require.NoError(t, cluster.RemoveNodeConditions(t.Context(), node, owner))
	left := reread(t, cluster, node)
	require.Nil(t, kube.FindNodeCondition(left, kube.ConditionDrainInProgress))
	require.NotNil(t, kube.FindNodeCondition(left, kube.ConditionMaintenancePlanned))
	require.NotNil(t, kube.FindNodeCondition(left, corev1.NodeReady))
}

func TestANewPlanOfAnotherOwnerSurvivesTheRemovalOfTheLastOne(t *testing.T) {
	cluster := spoke(t)
	node, other := newNode(t, cluster), "node/spoke/default/other/run"
	planned := kube.NodeCondition(kube.ConditionMaintenancePlanned, corev1.ConditionTrue, "planned")
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), node, owner, kube.AnyNode, planned))
	seen := node.DeepCopy()
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), node, other, kube.AnyNode, planned))

	err := cluster.RemoveNodeConditions(t.Context(), seen, owner)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	current := reread(t, cluster, node)
	require.NoError(t, cluster.RemoveNodeConditions(t.Context(), current, owner))
	require.Equal(t, []string{other}, kube.ConditionOwners(*kube.FindNodeCondition(reread(t, cluster, node), kube.ConditionMaintenancePlanned)))
}

func TestConditionsThatAnotherOwnerHasSetSinceAreNotRemoved(t *testing.T) {
	cluster := spoke(t)
	seen, other := nodeWithConditions(t, cluster), "node/spoke/default/other/run"
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), seen.DeepCopy(), other, kube.AnyNode,
		kube.NodeCondition(kube.ConditionDrainInProgress, corev1.ConditionTrue, "pods are being evicted")))
	err := cluster.RemoveNodeConditions(t.Context(), seen, owner)
	require.True(t, apierrors.IsConflict(err), "%v", err)
	left := kube.FindNodeCondition(reread(t, cluster, seen), kube.ConditionDrainInProgress)
	require.Equal(t, []string{other}, kube.ConditionOwners(*left))
}

func TestANewNodeWithTheSameNameGetsNoConditions(t *testing.T) {
	cluster := spoke(t)
	node := nodeWithConditions(t, cluster)
	require.NoError(t, cluster.Client.Delete(t.Context(), reread(t, cluster, node)))
	require.NoError(t, cluster.Client.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}))
	err := cluster.UpdateNodeConditions(t.Context(), node, owner, kube.AnyNode, kube.NodeCondition(kube.ConditionDrained, corev1.ConditionTrue, "drained"))
	require.True(t, apierrors.IsNotFound(err), "%v", err)

	err = cluster.SetNodeConditions(t.Context(), "none", owner, kube.AnyNode, kube.NodeCondition(kube.ConditionDrained, corev1.ConditionTrue, "drained"))
	require.True(t, apierrors.IsNotFound(err), "%v", err)
}

func TestLateConditionsAreNotSetOnANodeThatReturnedToService(t *testing.T) {
	cluster := spoke(t)
	node := nodeWithConditions(t, cluster)
	setOwner := func(owner string) {
		current := reread(t, cluster, node)
		metav1.SetMetaDataAnnotation(&current.ObjectMeta, kube.AnnotationOwner, owner)
		require.NoError(t, cluster.Client.Update(t.Context(), current))
	}
	setOwner(owner)
	seen := reread(t, cluster, node)
	drained := kube.NodeCondition(kube.ConditionDrained, corev1.ConditionTrue, "drained")

	setOwner("node/spoke/default/other/run")
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), seen.DeepCopy(), owner, kube.OwnedNode(owner), drained))
	require.Nil(t, kube.FindNodeCondition(reread(t, cluster, node), kube.ConditionDrained))

	setOwner(owner)
	require.NoError(t, cluster.UpdateNodeConditions(t.Context(), seen.DeepCopy(), owner, kube.OwnedNode(owner), drained))
	require.NotNil(t, kube.FindNodeCondition(reread(t, cluster, node), kube.ConditionDrained), "other changes of the node do not matter")
}

func TestTheOwnersOfAConditionAreReadFromItsMessage(t *testing.T) {
	tests := []struct {
		name      string
		condition corev1.NodeCondition
		owners    []string
	}{
		{"our condition", corev1.NodeCondition{Type: kube.ConditionDrained, Reason: "Drydock", Message: "drained (all of it) (" + owner + ")"}, []string{owner}},
		{"a plan with two owners", corev1.NodeCondition{Type: kube.ConditionMaintenancePlanned, Reason: "Drydock", Message: "planned (" + owner + ") (cgu/a/b/c/run)"}, []string{owner, "cgu/a/b/c/run"}},
		{"the kubelet's condition", corev1.NodeCondition{Type: corev1.NodeReady, Reason: "KubeletReady", Message: "it is posting ready status (" + owner + ")"}, nil},
		{"another program's condition of our type", corev1.NodeCondition{Type: kube.ConditionDrained, Reason: "ByHand", Message: "drained (" + owner + ")"}, nil},
		{"a condition without an owner", corev1.NodeCondition{Type: kube.ConditionDrained, Reason: "Drydock", Message: "drained"}, nil},
		{"a truncated message", corev1.NodeCondition{Type: kube.ConditionDrained, Reason: "Drydock", Message: "drained (node/spoke"}, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) { require.Equal(t, tt.owners, kube.ConditionOwners(tt.condition)) })
	}
}
