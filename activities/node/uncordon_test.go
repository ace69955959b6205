package node_test

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/health"
	nodeactivities "drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/objects"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

func TestReturningANodeRemovesOnlyOurMarks(t *testing.T) {
	tests := []struct {
		name          string
		meanwhile     func(*corev1.Node)
		keepCordoned  bool
		want          nodeactivities.ReturnNodeResult
		unschedulable bool
	}{
		{
			name:      "a person keeps it cordoned",
			meanwhile: activitytest.Annotated(kube.AnnotationKeepCordoned, "true"), unschedulable: true,
			want: nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: annotation drydock.dev/keep-cordoned asks for it; return it with kubectl uncordon "},
		},
		{
			name:      "keep-cordoned false has no effect",
			meanwhile: activitytest.Annotated(kube.AnnotationKeepCordoned, "false"),
			want:      nodeactivities.ReturnNodeResult{Uncordoned: true},
		},
		{
			name:      "the failed node stays cordoned",
			meanwhile: func(*corev1.Node) {}, keepCordoned: true, unschedulable: true,
			want: nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned after the failure, as onFailure requires; return it with kubectl uncordon "},
		},
		{
			name:      "a person has uncordoned it",
			meanwhile: activitytest.Uncordoned,
			want:      nodeactivities.ReturnNodeResult{Note: "someone else had uncordoned the node meanwhile"},
		},
		{
			name:      "a person also cordoned it",
			meanwhile: activitytest.Cordoned,
			want:      nodeactivities.ReturnNodeResult{Uncordoned: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			activitytest.Cordon(t, ref)
			activitytest.Changed(t, ref.Node, tt.meanwhile)
			result, err := activitytest.Nodes().ReturnNode(t.Context(), nodeactivities.ReturnNodeInput{NodeRef: ref, KeepCordoned: tt.keepCordoned})
			require.NoError(t, err)
			if tt.unschedulable {
				tt.want.Note += ref.Node
			}
			require.Equal(t, tt.want, result)
			require.Equal(t, tt.unschedulable, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
			activitytest.RequireNoTrace(t, ref.Node)
		})
	}
}

func TestANodeOfUnknownOutcomeIsMarkedToStayCordoned(t *testing.T) {
	for name, tt := range map[string]struct {
		ended *nodeactivities.MaintenanceEnd
		keep  bool
	}{
		"returned by the sweeper":                  {nil, true},
		"returned by a maintenance that completed": {&nodeactivities.MaintenanceEnd{State: maintenancev1.NodeCompleted}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, KeepOnFailure: true, Scope: lcmv1.ScopeOS})
			require.NoError(t, err)
			require.True(t, kube.KeptOnFailure(activitytest.GetNode(t, ref.Node)))
			in := nodeactivities.ReturnNodeInput{NodeRef: ref, Ended: tt.ended, Withdraw: true}
			result, err := activitytest.Nodes().ReturnNode(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, tt.keep, result.LeftCordoned)
			require.Equal(t, tt.keep, strings.HasPrefix(result.Note, "left cordoned, as onFailure requires: "), result.Note)
			require.Equal(t, tt.keep, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
			activitytest.RequireNoTrace(t, ref.Node)
		})
	}
}

func TestACordonWithoutOurMarkIsManual(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	activitytest.Changed(t, ref.Node, activitytest.Unannotated(kube.AnnotationOwner))
	result := activitytest.ReturnNode(t, ref)
	require.Equal(t, "the node is left as it is: someone has removed our mark, annotation drydock.dev/owner", result.Note)
	require.False(t, result.Uncordoned)
	node := activitytest.GetNode(t, ref.Node)
	require.True(t, node.Spec.Unschedulable)
	require.NotContains(t, node.Labels, kube.LabelMaintenance, "a late Job must not be scheduled to the node")
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress), "the condition is outdated")
}

func TestARepeatedManualCordonIsManual(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	activitytest.Changed(t, ref.Node, activitytest.Uncordoned)
	activitytest.Changed(t, ref.Node, activitytest.Cordoned)
	require.Equal(t, nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: someone else had uncordoned it meanwhile, and cordoned it again"}, activitytest.ReturnNode(t, ref))
	require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestACordonOfTheOriginalOperatorIsUndoneUnlessItIsRepeated(t *testing.T) {
	for name, tt := range map[string]struct {
		meanwhile  []func(*corev1.Node)
		uncordoned bool
	}{
		"nothing happens":                      {nil, true},
		"a person uncordons and cordons again": {[]func(*corev1.Node){activitytest.Uncordoned, activitytest.Cordoned}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			activitytest.Changed(t, ref.Node, activitytest.Cordoned)
			in := nodeactivities.CordonInput{NodeRef: ref, Cordon: true, TakeOver: true}
			for range 2 { // the first result may be lost
				result, err := activitytest.Nodes().Cordon(t.Context(), in)
				require.NoError(t, err)
				require.True(t, result.CordonedByUs)
			}
			for _, change := range tt.meanwhile {
				activitytest.Changed(t, ref.Node, change)
			}
			require.Equal(t, tt.uncordoned, activitytest.ReturnNode(t, ref).Uncordoned)
			require.Equal(t, !tt.uncordoned, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
			activitytest.RequireNoTrace(t, ref.Node)
		})
	}
}

func TestReturningANodeIsIdempotent(t *testing.T) {
	ref := activitytest.TestNode(t)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	require.Empty(t, activitytest.ReturnNode(t, ref))
	activitytest.RequireNoTrace(t, ref.Node)
	activitytest.Cordon(t, ref)
	require.True(t, activitytest.ReturnNode(t, ref).Uncordoned)
	require.Empty(t, activitytest.ReturnNode(t, ref))
}

// toScheduler records the signals to the scheduler.
type toScheduler struct {
	refuses bool
	sent    []any
}

func (s *toScheduler) SignalWorkflow(_ context.Context, workflowID, _, signal string, payload any) error {
	if s.refuses {
		return errors.New("workflow not found")
	}
	s.sent = append(s.sent, workflowID, signal, payload)
	return nil
}

func TestTheSlotReturnsWithTheNodeUnlessALockIsInactive(t *testing.T) {
	slot := &scheduling.HeldSlot{Owner: scheduling.SlotOwner{WorkflowID: "cgu/ops/june/c1", FirstRunID: "run"}, Number: 7}
	returned := func(in nodeactivities.ReturnNodeInput, server *toScheduler) nodeactivities.ReturnNodeResult {
		in.Slot = slot
		result, err := (&nodeactivities.Activities{Clusters: activitytest.Clusters, Waits: activitykit.Waits{Temporal: server}}).ReturnNode(t.Context(), in)
		require.NoError(t, err)
		return result
	}
	server, ref := &toScheduler{}, activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	require.True(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}, server).SlotReturned)
	require.Equal(t, []any{temporal.MaintenanceSchedulerID(ref.Cluster), temporal.SignalSlotReturn, slot.Return(false)}, server.sent)

	server, ref = &toScheduler{}, activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	require.False(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref}, &toScheduler{refuses: true}).SlotReturned, "the workflow returns it later")
	require.True(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref}, server).SlotReturned, "a second attempt has the same result")

	server, ref = &toScheduler{}, activitytest.TestNode(t)
	activitytest.WriteLockState(t, activitytest.HeldNode(t, "tf", ref.Node), lcmv1.LockInactive, "")
	require.False(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}, server).SlotReturned)
	require.Empty(t, server.sent, "its lock is not active yet")
}

func TestADeletedObjectIsReleasedWhenAllIsDoneForItsNode(t *testing.T) {
	ref, spoke := activitytest.TestNode(t), activitytest.TestCluster(t)
	activitytest.Cordon(t, ref)
	object := activitytest.Create(t, spoke, &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: ref.Node, Finalizers: []string{objects.Finalizer}},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "gpu.example.com", NodeName: ref.Node},
	})
	key := client.ObjectKeyFromObject(object)
	require.NoError(t, spoke.Client.Delete(t.Context(), object))
	require.EventuallyWithT(t, func(c *assert.CollectT) { // the cache follows
		cached := &maintenancev1.NodeMaintenance{}
		assert.NoError(c, spoke.Cache.Get(t.Context(), key, cached))
		assert.NotNil(c, cached.DeletionTimestamp)
	}, time.Minute, 10*time.Millisecond)
	in := nodeactivities.ReturnNodeInput{
		NodeRef: ref, Slot: &scheduling.HeldSlot{Owner: scheduling.SlotOwner{WorkflowID: "node/spoke/default/" + ref.Node, FirstRunID: "run"}, Number: 1},
		Release: &temporal.Object{
			Cluster: ref.Cluster, APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance", Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
	}
	for _, tt := range []struct{ slotRefused, released bool }{{true, false}, {false, true}} {
		waits := activitykit.Waits{Temporal: &toScheduler{refuses: tt.slotRefused}}
		result, err := (&nodeactivities.Activities{Clusters: activitytest.Clusters, Waits: waits}).ReturnNode(t.Context(), in)
		require.NoError(t, err)
		require.Equal(t, tt.released, result.Released, "slot refused: %t", tt.slotRefused)
		require.Equal(t, tt.released, apierrors.IsNotFound(spoke.Client.Get(t.Context(), key, object)))
	}
}

func TestANodeReturnsEvenIfItsLockRequestCannotBeWithdrawn(t *testing.T) {
	failing := clustersBehind(t, func(r *http.Request) error {
		if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "nodemaintenancerequests") {
			return errors.New("no answer")
		}
		return nil
	})
	ref := activitytest.TestNode(t)
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	in := nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true}
	result, err := (&nodeactivities.Activities{Clusters: failing}).ReturnNode(t.Context(), in)
	require.NoError(t, err, "the state of the node must be known")
	require.Equal(t, nodeactivities.ReturnNodeResult{Uncordoned: true, NotWithdrawn: true}, result)
	activitytest.RequireNoTrace(t, ref.Node)
	result, err = activitytest.Nodes().ReturnNode(t.Context(), in)
	require.NoError(t, err)
	require.False(t, result.NotWithdrawn)
}

func TestADeletedNodeNeedsNoReturn(t *testing.T) {
	ref := activitytest.TestNode(t)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	require.NoError(t, activitytest.TestCluster(t).Client.Delete(t.Context(), activitytest.GetNode(t, ref.Node)))

	_, err := activitytest.Nodes().Cordon(t.Context(), nodeactivities.CordonInput{NodeRef: ref, Cordon: true})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
	require.Equal(t, "the node is gone", activitytest.ReturnNode(t, ref).Note)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		return temporal.ErrorType(activitytest.PlanMaintenance(ctx, ref)) == temporal.ErrNodeGone
	}, activitytest.EventTimeout, 20*time.Millisecond)
}

func TestAHealthyNodeThatAPersonHasCordonedAgainStaysCordoned(t *testing.T) {
	cordonAgain := func(node string) {
		activitytest.Changed(t, node, activitytest.Uncordoned)
		activitytest.Changed(t, node, activitytest.Cordoned)
	}
	healthyAndReturned := func(ref activitykit.NodeRef, clusters *kube.Clusters) {
		result, err := (&health.Activities{Clusters: clusters}).AwaitNodeHealthy(t.Context(), health.AwaitNodeHealthyInput{
			NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120), Return: &nodeactivities.ReturnNodeInput{NodeRef: ref},
		})
		require.NoError(t, err)
		require.Equal(t, &nodeactivities.ReturnNodeResult{
			LeftCordoned: true, Note: "left cordoned: someone else had uncordoned it meanwhile, and cordoned it again",
		}, result.Returned)
		require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
		activitytest.RequireNoTrace(t, ref.Node)
	}
	t.Run("right before it would be uncordoned", func(t *testing.T) {
		ref := activitytest.TestNode(t)
		activitytest.Cordon(t, ref)
		healthyAndReturned(ref, clustersWithChange(t, "/api/v1/nodes/"+ref.Node, func() { cordonAgain(ref.Node) }))
	})
	t.Run("before the checks, with the conditions of the maintenance removed", func(t *testing.T) {
		ref := activitytest.TestNode(t)
		activitytest.Cordon(t, ref)
		cordonAgain(ref.Node)
		var node *corev1.Node
		require.NoError(t, kube.RetryOnConflict(func() error {
			node = activitytest.GetNode(t, ref.Node)
			return activitytest.TestCluster(t).RemoveNodeConditions(t.Context(), node, ref.Owner)
		}))
		activitytest.Settled(t, activitytest.SpokeName, node)
		healthyAndReturned(ref, activitytest.Clusters)
	})
}

func TestAHealthyNodeIsReadOnceForItsChecksAndItsReturn(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	var reads atomic.Int32
	clusters := clustersBehind(t, func(request *http.Request) error {
		if request.Method == http.MethodGet && request.URL.Path == "/api/v1/nodes/"+ref.Node {
			reads.Add(1)
		}
		return nil
	})
	result, err := (&health.Activities{Clusters: clusters}).AwaitNodeHealthy(t.Context(), health.AwaitNodeHealthyInput{
		NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120), Return: &nodeactivities.ReturnNodeInput{NodeRef: ref},
	})
	require.NoError(t, err)
	require.True(t, result.Returned.Uncordoned)
	require.EqualValues(t, 1, reads.Load())
}
