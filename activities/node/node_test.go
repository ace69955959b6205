package node_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/marks"
	nodeactivities "drydock.dev/drydock/activities/node"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
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

	require.Equal(t, nodeactivities.ReturnNodeResult{Uncordoned: true}, activitytest.GiveBack(t, ref))
	activitytest.RequireNoTrace(t, ref.Node)
	returned := activitytest.GetNode(t, ref.Node)
	require.Equal(t, found.Annotations, returned.Annotations)
	require.False(t, returned.Spec.Unschedulable)
}

func TestOurConditionsKeepThoseOfTheKubelet(t *testing.T) {
	ref := activitytest.TestNode(t)
	kubelets := func() []corev1.NodeCondition {
		var conditions []corev1.NodeCondition
		for _, condition := range activitytest.GetNode(t, ref.Node).Status.Conditions {
			if condition.Reason != "Drydock" {
				condition.LastHeartbeatTime = metav1.Time{}
				conditions = append(conditions, condition)
			}
		}
		return conditions
	}
	before := kubelets()
	require.NotEmpty(t, before)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	activitytest.Cordon(t, ref)
	require.Equal(t, before, kubelets())
	activitytest.GiveBack(t, ref)
	require.Equal(t, before, kubelets())
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
	result := activitytest.GiveBack(t, ref)
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
	result := activitytest.GiveBack(t, ref)
	require.Equal(t, "the node is left as it is: it is under maintenance by cgu/default/other/spoke", result.Note)
	require.False(t, result.LeftCordoned, "that is the other's")
	after := activitytest.GetNode(t, ref.Node)
	require.Equal(t, before.Spec.Unschedulable, after.Spec.Unschedulable)
	require.Equal(t, before.Annotations, after.Annotations)
	require.NotNil(t, kube.FindNodeCondition(after, kube.ConditionMaintenanceInProgress))
}

func TestAMaintenanceWaitsUntilAnotherReturnsTheNode(t *testing.T) {
	ref := activitytest.TestNode(t)
	other := ref
	other.Owner = "node/spoke/default/other/run"
	activitytest.Cordon(t, other)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref), "it may be planned while somebody else has the node")
	free := make(chan error, 2)
	for _, of := range []string{"", "node/spoke/default/other"} {
		go func() {
			free <- activitytest.Nodes().AwaitNodeFree(t.Context(), nodeactivities.AwaitNodeFreeInput{NodeRef: ref, Of: of})
		}()
	}
	require.Eventually(t, func() bool {
		planned := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned)
		return planned != nil && kube.ConditionOwnedBy(*planned, ref.Owner)
	}, activitytest.NewsLimit, 20*time.Millisecond)
	require.Empty(t, free)
	require.NoError(t, activitytest.Nodes().AwaitNodeFree(t.Context(), nodeactivities.AwaitNodeFreeInput{NodeRef: ref, Of: "node/spoke/default/third"}), "that one has not got it")
	activitytest.GiveBack(t, other)
	require.NoError(t, <-free)
	require.NoError(t, <-free)
	require.NotNil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned), "returning a node leaves the plans of others")
	require.Empty(t, activitytest.GiveBack(t, ref))
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestACordonKeepsThePlannedConditionOfAnotherMaintenance(t *testing.T) {
	ref := activitytest.TestNode(t)
	other := ref
	other.Owner = "node/spoke/default/other/run"
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), other))
	activitytest.Cordon(t, ref)
	activitytest.GiveBack(t, ref)
	planned := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned)
	require.NotNil(t, planned)
	require.True(t, kube.ConditionOwnedBy(*planned, other.Owner))
	activitytest.Cordon(t, other)
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned))
	activitytest.GiveBack(t, other)
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestANodeIsPlannedWhileAnyMaintenanceWaitsForIt(t *testing.T) {
	ref := activitytest.TestNode(t)
	planners := func() []string {
		planned := kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned)
		if planned == nil {
			return nil
		}
		require.Equal(t, corev1.ConditionTrue, planned.Status)
		return kube.ConditionOwners(*planned)
	}
	waiting := []activitykit.NodeRef{ref, ref, ref, ref}
	for i := range waiting {
		waiting[i].Owner = fmt.Sprintf("node/spoke/default/waits-%d/run", i)
		require.NoError(t, activitytest.PlanMaintenance(t.Context(), waiting[i]))
		require.NoError(t, activitytest.PlanMaintenance(t.Context(), waiting[i]), "a lost reply adds nobody twice")
		activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	}
	require.Equal(t, []string{waiting[0].Owner, waiting[1].Owner, waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.GiveBack(t, waiting[1]) // it is cancelled
	require.Equal(t, []string{waiting[0].Owner, waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.Cordon(t, waiting[0])
	require.Equal(t, []string{waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.GiveBack(t, waiting[0])
	require.Equal(t, []string{waiting[2].Owner, waiting[3].Owner}, planners())
	activitytest.GiveBack(t, waiting[2])
	activitytest.GiveBack(t, waiting[3])
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestReturningANodeRemovesOnlyOurMarks(t *testing.T) {
	tests := []struct {
		name          string
		meanwhile     func(*corev1.Node)
		keepCordoned  bool
		want          nodeactivities.ReturnNodeResult
		unschedulable bool
	}{
		{
			name:      "a person wants it kept cordoned",
			meanwhile: activitytest.Annotated(kube.AnnotationKeepCordoned, "true"), unschedulable: true,
			want: nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: annotation drydock.dev/keep-cordoned asks for it; return it with kubectl uncordon "},
		},
		{
			name:      "keep-cordoned false asks for nothing",
			meanwhile: activitytest.Annotated(kube.AnnotationKeepCordoned, "false"),
			want:      nodeactivities.ReturnNodeResult{Uncordoned: true},
		},
		{
			name:      "the failure is to be looked at",
			meanwhile: func(*corev1.Node) {}, keepCordoned: true, unschedulable: true,
			want: nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned after the failure, as onFailure asks; return it with kubectl uncordon "},
		},
		{
			name:      "a person has uncordoned it",
			meanwhile: activitytest.Uncordoned,
			want:      nodeactivities.ReturnNodeResult{Note: "someone else had uncordoned the node meanwhile"},
		},
		{
			name:      "a person cordons it, too",
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
		kept  bool
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
			require.Equal(t, tt.kept, result.LeftCordoned)
			require.Equal(t, tt.kept, strings.HasPrefix(result.Note, "left cordoned, as onFailure asks: "), result.Note)
			require.Equal(t, tt.kept, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
			activitytest.RequireNoTrace(t, ref.Node)
		})
	}
}

func TestACordonWithoutOurMarkIsManual(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	activitytest.Changed(t, ref.Node, activitytest.Unannotated(kube.AnnotationOwner))
	result := activitytest.GiveBack(t, ref)
	require.Equal(t, "the node is left as it is: someone has removed our mark, annotation drydock.dev/owner", result.Note)
	require.False(t, result.Uncordoned)
	node := activitytest.GetNode(t, ref.Node)
	require.True(t, node.Spec.Unschedulable)
	require.NotContains(t, node.Labels, kube.LabelMaintenance, "a Job of ours that is late must not find the node")
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress), "it says nothing true any more")
}

func TestARepeatedManualCordonIsManual(t *testing.T) {
	ref := activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	activitytest.Changed(t, ref.Node, activitytest.Uncordoned)
	activitytest.Changed(t, ref.Node, activitytest.Cordoned)
	require.Equal(t, nodeactivities.ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: someone else had uncordoned it meanwhile, and cordoned it again"}, activitytest.GiveBack(t, ref))
	require.True(t, activitytest.GetNode(t, ref.Node).Spec.Unschedulable)
	activitytest.RequireNoTrace(t, ref.Node)
}

func TestReturningANodeIsIdempotent(t *testing.T) {
	ref := activitytest.TestNode(t)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	require.Empty(t, activitytest.GiveBack(t, ref))
	activitytest.RequireNoTrace(t, ref.Node)
	activitytest.Cordon(t, ref)
	require.True(t, activitytest.GiveBack(t, ref).Uncordoned)
	require.Empty(t, activitytest.GiveBack(t, ref))
}

// toScheduler hears what the scheduler is told.
type toScheduler struct {
	refuses bool
	told    []any
}

func (s *toScheduler) SignalWorkflow(_ context.Context, workflowID, _, signal string, payload any) error {
	if s.refuses {
		return errors.New("workflow not found")
	}
	s.told = append(s.told, workflowID, signal, payload)
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
	require.Equal(t, []any{temporal.MaintenanceSchedulerID(ref.Cluster), temporal.SignalSlotReturn, slot.Return(false)}, server.told)

	server, ref = &toScheduler{}, activitytest.TestNode(t)
	activitytest.Cordon(t, ref)
	require.False(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref}, &toScheduler{refuses: true}).SlotReturned, "the workflow does it")
	require.True(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref}, server).SlotReturned, "a second attempt says so again")

	server, ref = &toScheduler{}, activitytest.TestNode(t)
	activitytest.Say(t, activitytest.HeldNode(t, "tf", ref.Node), lcmv1.LockInactive, "")
	require.False(t, returned(nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}, server).SlotReturned)
	require.Empty(t, server.told, "its lock does not hold it yet")
}

func TestANodeReturnsEvenIfItsLockRequestCannotBeWithdrawn(t *testing.T) {
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.SpokeName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return activitytest.Transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "nodemaintenancerequests") {
				return nil, errors.New("no answer")
			}
			return next.RoundTrip(r)
		})
	})
	failing := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: config}), kube.Options{})
	t.Cleanup(failing.Close)
	ref := activitytest.TestNode(t)
	_, err := activitytest.Nodes().AcquireNode(t.Context(), nodeactivities.AcquireNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	in := nodeactivities.ReturnNodeInput{NodeRef: ref, Withdraw: true}
	result, err := (&nodeactivities.Activities{Clusters: failing}).ReturnNode(t.Context(), in)
	require.NoError(t, err, "what became of the node must be known")
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
	require.Equal(t, "the node is gone", activitytest.GiveBack(t, ref).Note)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return temporal.ErrorType(activitytest.PlanMaintenance(ctx, ref)) == temporal.ErrNodeGone
	}, activitytest.NewsLimit, 20*time.Millisecond)
}

func TestAPlannedConditionIsRemovedDespiteAConflict(t *testing.T) {
	ref := activitytest.TestNode(t)
	require.NoError(t, activitytest.PlanMaintenance(t.Context(), ref))
	looks := 0
	err := marks.Update(t.Context(), activitytest.TestCluster(t), ref.Node, func(node *corev1.Node) (client.Patch, error) {
		if looks++; looks == 1 {
			activitytest.Changed(t, ref.Node, activitytest.Annotated("interruption", "once"))
		}
		return nil, activitytest.TestCluster(t).RemoveNodeConditions(t.Context(), node, ref.Owner)
	})
	require.NoError(t, err)
	require.Equal(t, 2, looks)
	require.Nil(t, kube.FindNodeCondition(activitytest.GetNode(t, ref.Node), kube.ConditionMaintenancePlanned))
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
	require.NoError(t, err, "the node is cordoned: a lock taken now is too late")
	result.LockProgress, again.LockProgress = nil, nil // as of each call
	require.Equal(t, result, again)
}
