package node_test

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	nodeactivities "drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestANodeIsCordonedWithMarksAndFullyRestored(t *testing.T) {
	ref := activitytest.TestNode(t)
	found := activitytest.GetNode(t, ref.Node)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	require.Equal(t, corev1.ConditionTrue, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned).Status)

	require.Equal(t, nodeactivities.CordonResult{CordonedByUs: true, NodeUID: found.UID}, activitytest.Cordon(t, ref))
	node := activitytest.GetNode(t, ref.Node)
	require.True(t, node.Spec.Unschedulable)
	require.Equal(t, ref.Owner, kube.Owner(node))
	require.Equal(t, kube.FormerSchedulable, kube.FormerStateOf(node))
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned))
	require.Equal(t, corev1.ConditionTrue, kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress).Status)

	require.Equal(t, nodeactivities.ReturnNodeResult{Uncordoned: true}, activitytest.ReturnNode(t, ref))
	activitytest.RequireNoTrace(t, ref.Node)
	returned := activitytest.GetNode(t, ref.Node)
	require.Equal(t, found.Annotations, returned.Annotations)
	require.False(t, returned.Spec.Unschedulable)
}

func TestARepeatedCordonChangesNothing(t *testing.T) {
	tests := []struct {
		name   string
		before func(*corev1.Node)
		cordon bool
		want   nodeactivities.CordonResult
	}{
		{"a node that we cordoned", activitytest.Uncordoned, true, nodeactivities.CordonResult{CordonedByUs: true}},
		{"a node that is only marked", activitytest.Uncordoned, false, nodeactivities.CordonResult{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			activitytest.Changed(t, ref.Node, tt.before)
			in := nodeactivities.CordonInput{NodeRef: ref, Cordon: tt.cordon}
			first, err := activitytest.Nodes().Cordon(t.Context(), in)
			require.NoError(t, err)
			tt.want.NodeUID = activitytest.GetNode(t, ref.Node).UID
			require.Equal(t, tt.want, first)
			version := activitytest.GetNode(t, ref.Node).Annotations

			second, err := activitytest.Nodes().Cordon(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, first, second)
			require.Equal(t, version, activitytest.GetNode(t, ref.Node).Annotations)
			require.Equal(t, tt.cordon, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
		})
	}
}

func TestACordonOfAnotherOwnerIsKept(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Changed(t, ref.Node, activitytest.Cordoned)
	for range 2 {
		result := activitytest.Cordon(t, ref)
		require.False(t, result.CordonedByUs)
		require.Contains(t, result.Note, "was cordoned by someone else before")
	}
	result := activitytest.ReturnNode(t, ref)
	require.Equal(t, nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: someone else had cordoned it before"}, result)
	require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestANodeInAnotherMaintenanceIsBusyAndNotTouched(t *testing.T) {
	ref := activitytest.TestNode(t)
	other := ref
	other.Owner = "cgu/default/other/spoke/run"
	activitytest.Cordon(t, other)
	before := activitytest.GetNode(t, ref.Node)

	_, err := activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true})
	require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err))
	require.ErrorContains(t, err, "is under maintenance by cgu/default/other/spoke")
	result := activitytest.ReturnNode(t, ref)
	require.Equal(t, "the node is left as it is: it is under maintenance by cgu/default/other/spoke", result.Note)
	require.False(t, result.LeftCordoned, "the other maintenance has cordoned it")
	after := activitytest.GetNode(t, ref.Node)
	require.Equal(t, before.Spec.Unschedulable, after.Spec.Unschedulable)
	require.Equal(t, before.Annotations, after.Annotations)
	require.NotNil(t, kube.FindNodeCondition(after, kube.ConditionMaintenanceInProgress))
}

func TestACordonKeepsThePlannedConditionOfAnotherMaintenance(t *testing.T) {
	ref := activitytest.TestNode(t)
	other := ref
	other.Owner = "node/spoke/default/other/run"
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), other))
	activitytest.Cordon(t, ref)
	activitytest.ReturnNode(t, ref)
	planned := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned)
	require.NotNil(t, planned)
	require.True(t, kube.ConditionOwnedBy(*planned, other.Owner))
	activitytest.Cordon(t, other)
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned))
	activitytest.ReturnNode(t, other)
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestAReactivatedLockRefusesTheCordon(t *testing.T) {
	ref := activitytest.TestNode(t)
	cluster := activitytest.TestCluster(t)
	lock := &lcmv1.NodeWorkloadLock{
		ObjectMeta: metav1.ObjectMeta{Name: "app-" + ref.Node},
		Spec:       lcmv1.NodeWorkloadLockSpec{ControllerName: "app", NodeName: ref.Node},
	}
	require.NoError(t, cluster.Client.Create(t.Context(), lock))
	t.Cleanup(func() { require.NoError(t, cluster.Client.Delete(context.Background(), lock)) })
	set := func(state lcmv1.LockState) {
		patch := client.MergeFrom(lock.DeepCopy())
		lock.Status.State = state
		require.NoError(t, cluster.Client.Status().Patch(t.Context(), lock, patch))
	}
	in := nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Locked: true}

	set(lcmv1.LockActive)
	_, err := activitytest.Nodes().Cordon(t.Context(), in)
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "NodeWorkloadLock app-"+ref.Node+": app holds it")
	require.Len(t, temporal.Blockers(err), 1)
	require.False(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)

	set(lcmv1.LockInactive)
	result, err := activitytest.Nodes().Cordon(t.Context(), in)
	require.NoError(t, err)
	set(lcmv1.LockActive)
	again, err := activitytest.Nodes().Cordon(t.Context(), in)
	require.NoError(t, err, "locks are ignored once the node is cordoned")
	result.LockProgress, again.LockProgress = nil, nil // each call reads it again
	require.Equal(t, result, again)
}

// clustersWithChange returns clusters in which a change happens right before the first patch of that path.
func clustersWithChange(t *testing.T, path string, change func()) *kube.Clusters {
	t.Helper()
	var before sync.Once
	return clustersBehind(t, func(request *http.Request) error {
		if request.Method == http.MethodPatch && request.URL.Path == path {
			before.Do(change)
		}
		return nil
	})
}

// clustersBehind returns clusters whose requests pass a function first. They fail with its error.
func clustersBehind(t *testing.T, pass func(*http.Request) error) *kube.Clusters {
	t.Helper()
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.SpokeName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return activitytest.Transport(func(request *http.Request) (*http.Response, error) {
			if err := pass(request); err != nil {
				return nil, err
			}
			return next.RoundTrip(request)
		})
	})
	clusters := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: config}), kube.Options{})
	t.Cleanup(clusters.Close)
	return clusters
}

func TestACordonThatIsTooLateLeavesTheNodePlanned(t *testing.T) {
	for name, test := range map[string]struct {
		change func(*testing.T, activitykit.NodeRef)
		want   string
		// inProgress is the owner of MaintenanceInProgress afterwards.
		inProgress []string
	}{
		"another maintenance has cordoned the node": {
			change: func(t *testing.T, ref activitykit.NodeRef) {
				ref.Owner = "node/spoke/default/other/run"
				activitytest.Cordon(t, ref)
			},
			want: temporal.ErrNodeBusy, inProgress: []string{"node/spoke/default/other/run"},
		},
		"a lock became active and the node has changed": {
			change: func(t *testing.T, ref activitykit.NodeRef) {
				activitytest.HeldNode(t, "late", ref.Node)
				activitytest.Changed(t, ref.Node, activitytest.Annotated("changed", "yes"))
			},
			want: temporal.ErrLockRefused,
		},
	} {
		t.Run(name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
			nodes := nodeactivities.Activities{Clusters: clustersWithChange(t, "/api/v1/nodes/"+ref.Node, func() { test.change(t, ref) })}
			_, err := nodes.Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Locked: true})
			require.Equal(t, test.want, temporal.ErrorType(err), "%v", err)

			node := activitytest.GetNode(t, ref.Node)
			require.False(t, kube.OwnedBy(node, ref.Owner))
			planned := kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned)
			require.NotNil(t, planned)
			require.True(t, kube.ConditionOwnedBy(*planned, ref.Owner))
			var owners []string
			if progress := kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress); progress != nil {
				owners = kube.ConditionOwners(*progress)
			}
			require.Equal(t, test.inProgress, owners)
		})
	}
}

func TestANodeIsNotGoneBecauseItsRequestIsNotAccepted(t *testing.T) {
	ref := activitytest.TestNode(t)
	nodes := nodeactivities.Activities{Clusters: clustersBehind(t, func(request *http.Request) error {
		if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/nodemaintenancerequests") {
			return apierrors.NewNotFound(lcmv1.GroupVersion.WithResource("nodemaintenancerequests").GroupResource(), "")
		}
		return nil
	})}
	_, err := nodes.AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	require.ErrorContains(t, err, "create maintenance request")
	require.False(t, temporal.Final(err), "%v", err)
	node := activitytest.GetNode(t, ref.Node)
	require.False(t, node.Spec.Unschedulable)
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress))
	require.NotNil(t, kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned))
}

func TestARefusedAttemptReplacesTheConditionOfAnEarlierOneByAPlan(t *testing.T) {
	acquire := func(t *testing.T, ref activitykit.NodeRef) (nodeactivities.AcquireNodeResult, error) {
		return activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true})
	}
	for name, attempt := range map[string]func(*testing.T, activitykit.NodeRef){
		"a lock refuses the cordon": func(t *testing.T, ref activitykit.NodeRef) {
			activitytest.HeldNode(t, "ceph", ref.Node)
			_, err := activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true, Locked: true})
			require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err), "%v", err)
		},
		"the maintenance waits for a lock": func(t *testing.T, ref activitykit.NodeRef) {
			activitytest.HeldNode(t, "ceph", ref.Node)
			result, err := acquire(t, ref)
			require.NoError(t, err)
			require.Nil(t, result.Cordon)
		},
		"another program maintains the node": func(t *testing.T, ref activitykit.NodeRef) {
			activitytest.Created(t, &lcmv1.NodeMaintenanceRequest{
				ObjectMeta: metav1.ObjectMeta{Name: "other-" + ref.Node}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: ref.Node, Scope: lcmv1.ScopeOS},
			})
			_, err := acquire(t, ref)
			require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err), "%v", err)
		},
	} {
		t.Run(name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			node := activitytest.GetNode(t, ref.Node)
			require.NoError(t, activitytest.TestCluster(t).UpdateNodeConditions(t.Context(), node, ref.Owner, kube.AnyNode,
				kube.NodeCondition(kube.ConditionMaintenanceInProgress, corev1.ConditionTrue, "the worker stopped before the cordon")))
			activitytest.Settled(t, activitytest.SpokeName, node)

			attempt(t, ref)
			left := activitytest.GetNode(t, ref.Node)
			require.Nil(t, kube.FindNodeCondition(left, kube.ConditionMaintenanceInProgress))
			require.NotNil(t, kube.FindNodeCondition(left, kube.ConditionMaintenancePlanned))
		})
	}
}
