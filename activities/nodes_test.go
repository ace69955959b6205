package activities

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

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

func TestANodeIsCordonedWithItsMarksAndReturnedAsItWasFound(t *testing.T) {
	ref := testNode(t)
	found := getNode(t, ref.Node)
	require.NoError(t, planMaintenance(t.Context(), ref))
	require.Equal(t, corev1.ConditionTrue, kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned).Status)

	require.Equal(t, CordonResult{CordonedByUs: true, NodeUID: found.UID}, cordon(t, ref))
	node := getNode(t, ref.Node)
	require.True(t, node.Spec.Unschedulable)
	require.Equal(t, ref.Owner, kube.Owner(node))
	require.Equal(t, kube.FormerSchedulable, kube.FormerStateOf(node))
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenancePlanned))
	require.Equal(t, corev1.ConditionTrue, kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress).Status)

	require.Equal(t, ReturnNodeResult{Uncordoned: true}, giveBack(t, ref))
	requireNoTrace(t, ref.Node)
	returned := getNode(t, ref.Node)
	require.Equal(t, found.Annotations, returned.Annotations)
	require.False(t, returned.Spec.Unschedulable)
}

func TestOurConditionsStandBesideTheKubelets(t *testing.T) {
	ref := testNode(t)
	kubelets := func() []corev1.NodeCondition {
		var conditions []corev1.NodeCondition
		for _, condition := range getNode(t, ref.Node).Status.Conditions {
			if condition.Reason != "Drydock" {
				condition.LastHeartbeatTime = metav1.Time{}
				conditions = append(conditions, condition)
			}
		}
		return conditions
	}
	before := kubelets()
	require.NotEmpty(t, before)
	require.NoError(t, planMaintenance(t.Context(), ref))
	cordon(t, ref)
	require.Equal(t, before, kubelets())
	giveBack(t, ref)
	require.Equal(t, before, kubelets())
}

func TestASecondCordonAfterALostReplyChangesNothingAndSaysTheSame(t *testing.T) {
	tests := []struct {
		name   string
		before func(*corev1.Node)
		cordon bool
		want   CordonResult
	}{
		{"a node that we cordoned", uncordoned, true, CordonResult{CordonedByUs: true}},
		{"a node that is only marked", uncordoned, false, CordonResult{}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := testNode(t)
			changed(t, ref.Node, tt.before)
			in := CordonInput{NodeRef: ref, Cordon: tt.cordon}
			first, err := nodes().Cordon(t.Context(), in)
			require.NoError(t, err)
			tt.want.NodeUID = getNode(t, ref.Node).UID
			require.Equal(t, tt.want, first)
			version := getNode(t, ref.Node).Annotations

			second, err := nodes().Cordon(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, first, second)
			require.Equal(t, version, getNode(t, ref.Node).Annotations)
			require.Equal(t, tt.cordon, getNode(t, ref.Node).Spec.Unschedulable)
		})
	}
}

func TestSomeoneElsesCordonStaysTheirs(t *testing.T) {
	ref := testNode(t)
	changed(t, ref.Node, cordoned)
	for range 2 {
		result := cordon(t, ref)
		require.False(t, result.CordonedByUs)
		require.Contains(t, result.Note, "was cordoned by someone else before")
	}
	result := giveBack(t, ref)
	require.Equal(t, ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: someone else had cordoned it before"}, result)
	require.True(t, getNode(t, ref.Node).Spec.Unschedulable)
	requireNoTrace(t, ref.Node)
}

func TestANodeUnderAnothersMaintenanceIsBusyAndNotTouched(t *testing.T) {
	ref := testNode(t)
	other := ref
	other.Owner = "cgu/default/other/spoke/run"
	cordon(t, other)
	before := getNode(t, ref.Node)

	_, err := nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true})
	require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err))
	require.ErrorContains(t, err, "is under maintenance by cgu/default/other/spoke")
	result := giveBack(t, ref)
	require.Equal(t, "the node is left as it is: it is under maintenance by cgu/default/other/spoke", result.Note)
	require.False(t, result.LeftCordoned, "that is the other's")
	after := getNode(t, ref.Node)
	require.Equal(t, before.Spec.Unschedulable, after.Spec.Unschedulable)
	require.Equal(t, before.Annotations, after.Annotations)
	require.NotNil(t, kube.FindNodeCondition(after, kube.ConditionMaintenanceInProgress))
}

func TestAMaintenanceWaitsUntilTheOtherHasReturnedTheNode(t *testing.T) {
	ref := testNode(t)
	other := ref
	other.Owner = "node/spoke/default/other/run"
	cordon(t, other)
	require.NoError(t, planMaintenance(t.Context(), ref), "it may be planned while somebody else has the node")
	free := make(chan error, 2)
	for _, of := range []string{"", "node/spoke/default/other"} {
		go func() { free <- nodes().AwaitNodeFree(t.Context(), AwaitNodeFreeInput{NodeRef: ref, Of: of}) }()
	}
	require.Eventually(t, func() bool {
		planned := kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned)
		return planned != nil && kube.ConditionOwnedBy(*planned, ref.Owner)
	}, newsLimit, 20*time.Millisecond)
	require.Empty(t, free)
	require.NoError(t, nodes().AwaitNodeFree(t.Context(), AwaitNodeFreeInput{NodeRef: ref, Of: "node/spoke/default/third"}), "that one has not got it")
	giveBack(t, other)
	require.NoError(t, <-free)
	require.NoError(t, <-free)
	require.NotNil(t, kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned), "returning a node leaves the plans of others")
	require.Empty(t, giveBack(t, ref))
	requireNoTrace(t, ref.Node)
}

func TestTheTurnOfOneMaintenanceLeavesThePlanOfAnother(t *testing.T) {
	ref := testNode(t)
	other := ref
	other.Owner = "node/spoke/default/other/run"
	require.NoError(t, planMaintenance(t.Context(), other))
	cordon(t, ref)
	giveBack(t, ref)
	planned := kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned)
	require.NotNil(t, planned)
	require.True(t, kube.ConditionOwnedBy(*planned, other.Owner))
	cordon(t, other)
	require.Nil(t, kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned))
	giveBack(t, other)
	requireNoTrace(t, ref.Node)
}

func TestANodeIsPlannedUntilTheLastOfThoseThatWaitForItDoesNot(t *testing.T) {
	ref := testNode(t)
	planners := func() []string {
		planned := kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned)
		if planned == nil {
			return nil
		}
		require.Equal(t, corev1.ConditionTrue, planned.Status)
		return kube.ConditionOwners(*planned)
	}
	waiting := []NodeRef{ref, ref, ref, ref}
	for i := range waiting {
		waiting[i].Owner = fmt.Sprintf("node/spoke/default/waits-%d/run", i)
		require.NoError(t, planMaintenance(t.Context(), waiting[i]))
		require.NoError(t, planMaintenance(t.Context(), waiting[i]), "a lost reply adds nobody twice")
		settled(t, spokeName, getNode(t, ref.Node))
	}
	require.Equal(t, []string{waiting[0].Owner, waiting[1].Owner, waiting[2].Owner, waiting[3].Owner}, planners())
	giveBack(t, waiting[1]) // it is cancelled
	require.Equal(t, []string{waiting[0].Owner, waiting[2].Owner, waiting[3].Owner}, planners())
	cordon(t, waiting[0])
	require.Equal(t, []string{waiting[2].Owner, waiting[3].Owner}, planners())
	giveBack(t, waiting[0])
	require.Equal(t, []string{waiting[2].Owner, waiting[3].Owner}, planners())
	giveBack(t, waiting[2])
	giveBack(t, waiting[3])
	requireNoTrace(t, ref.Node)
}

func TestReturningANodeTakesBackOnlyWhatIsOurs(t *testing.T) {
	tests := []struct {
		name          string
		meanwhile     func(*corev1.Node)
		keepCordoned  bool
		want          ReturnNodeResult
		unschedulable bool
	}{
		{
			name:      "a person wants it kept cordoned",
			meanwhile: annotated(kube.AnnotationKeepCordoned, "true"), unschedulable: true,
			want: ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: annotation drydock.dev/keep-cordoned asks for it; return it with kubectl uncordon "},
		},
		{
			name:      "keep-cordoned false asks for nothing",
			meanwhile: annotated(kube.AnnotationKeepCordoned, "false"),
			want:      ReturnNodeResult{Uncordoned: true},
		},
		{
			name:      "the failure is to be looked at",
			meanwhile: func(*corev1.Node) {}, keepCordoned: true, unschedulable: true,
			want: ReturnNodeResult{LeftCordoned: true, Note: "left cordoned after the failure, as onFailure asks; return it with kubectl uncordon "},
		},
		{
			name:      "a person has uncordoned it",
			meanwhile: uncordoned,
			want:      ReturnNodeResult{Note: "someone else had uncordoned the node meanwhile"},
		},
		{
			name:      "a person cordons it, too",
			meanwhile: cordoned,
			want:      ReturnNodeResult{Uncordoned: true},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref := testNode(t)
			cordon(t, ref)
			changed(t, ref.Node, tt.meanwhile)
			result, err := nodes().ReturnNode(t.Context(), ReturnNodeInput{NodeRef: ref, KeepCordoned: tt.keepCordoned})
			require.NoError(t, err)
			if tt.unschedulable {
				tt.want.Note += ref.Node
			}
			require.Equal(t, tt.want, result)
			require.Equal(t, tt.unschedulable, getNode(t, ref.Node).Spec.Unschedulable)
			requireNoTrace(t, ref.Node)
		})
	}
}

func TestANodeRemembersToBeKeptWhenItsMaintenanceCannotSayThatItHasNotFailed(t *testing.T) {
	for name, tt := range map[string]struct {
		ended *MaintenanceEnd
		kept  bool
	}{
		"returned by the sweeper":                  {nil, true},
		"returned by a maintenance that completed": {&MaintenanceEnd{State: maintenancev1.NodeCompleted}, false},
	} {
		t.Run(name, func(t *testing.T) {
			ref := testNode(t)
			_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, KeepOnFailure: true, Scope: lcmv1.ScopeOS})
			require.NoError(t, err)
			require.True(t, kube.KeptOnFailure(getNode(t, ref.Node)))
			in := ReturnNodeInput{NodeRef: ref, Ended: tt.ended, Withdraw: true}
			result, err := nodes().ReturnNode(t.Context(), in)
			require.NoError(t, err)
			require.Equal(t, tt.kept, result.LeftCordoned)
			require.Equal(t, tt.kept, strings.HasPrefix(result.Note, "left cordoned, as onFailure asks: "), result.Note)
			require.Equal(t, tt.kept, getNode(t, ref.Node).Spec.Unschedulable)
			requireNoTrace(t, ref.Node)
		})
	}
}

func TestACordonWhoseMarkAPersonHasRemovedIsTheirs(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	changed(t, ref.Node, unannotated(kube.AnnotationOwner))
	result := giveBack(t, ref)
	require.Equal(t, "the node is left as it is: someone has removed our mark, annotation drydock.dev/owner", result.Note)
	require.False(t, result.Uncordoned)
	node := getNode(t, ref.Node)
	require.True(t, node.Spec.Unschedulable)
	require.NotContains(t, node.Labels, kube.LabelMaintenance, "a Job of ours that is late must not find the node")
	require.Nil(t, kube.FindNodeCondition(node, kube.ConditionMaintenanceInProgress), "it says nothing true any more")
}

func TestACordonThatAPersonHasMadeAnewIsTheirs(t *testing.T) {
	ref := testNode(t)
	cordon(t, ref)
	changed(t, ref.Node, uncordoned)
	changed(t, ref.Node, cordoned)
	require.Equal(t, ReturnNodeResult{LeftCordoned: true, Note: "left cordoned: someone else had uncordoned it meanwhile, and cordoned it again"}, giveBack(t, ref))
	require.True(t, getNode(t, ref.Node).Spec.Unschedulable)
	requireNoTrace(t, ref.Node)
}

func TestReturningANodeASecondTimeOrBeforeItWasCordonedIsFine(t *testing.T) {
	ref := testNode(t)
	require.NoError(t, planMaintenance(t.Context(), ref))
	require.Empty(t, giveBack(t, ref))
	requireNoTrace(t, ref.Node)
	cordon(t, ref)
	require.True(t, giveBack(t, ref).Uncordoned)
	require.Empty(t, giveBack(t, ref))
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

func TestTheSlotIsGivenBackWithTheNodeUnlessItsLocksHaveLetGo(t *testing.T) {
	slot := &scheduling.HeldSlot{Owner: scheduling.SlotOwner{WorkflowID: "cgu/ops/june/c1", FirstRunID: "run"}, Number: 7}
	returned := func(in ReturnNodeInput, server *toScheduler) ReturnNodeResult {
		in.Slot = slot
		result, err := (&Nodes{Clusters: clusters, Waits: Waits{Temporal: server}}).ReturnNode(t.Context(), in)
		require.NoError(t, err)
		return result
	}
	server, ref := &toScheduler{}, testNode(t)
	cordon(t, ref)
	require.True(t, returned(ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}, server).SlotReturned)
	require.Equal(t, []any{temporal.MaintenanceSchedulerID(ref.Cluster), temporal.SignalSlotReturn, slot.Return(false)}, server.told)

	server, ref = &toScheduler{}, testNode(t)
	cordon(t, ref)
	require.False(t, returned(ReturnNodeInput{NodeRef: ref}, &toScheduler{refuses: true}).SlotReturned, "the workflow does it")
	require.True(t, returned(ReturnNodeInput{NodeRef: ref}, server).SlotReturned, "a second attempt says so again")

	server, ref = &toScheduler{}, testNode(t)
	say(t, heldNode(t, "tf", ref.Node), lcmv1.LockInactive, "")
	require.False(t, returned(ReturnNodeInput{NodeRef: ref, Withdraw: true, AwaitLocks: true}, server).SlotReturned)
	require.Empty(t, server.told, "its lock does not hold it yet")
}

func TestANodeIsBackThoughTheRequestToItsLocksCannotBeWithdrawn(t *testing.T) {
	config := rest.CopyConfig(stack.Cluster(spokeName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return transport(func(r *http.Request) (*http.Response, error) {
			if r.Method == http.MethodDelete && strings.Contains(r.URL.Path, "nodemaintenancerequests") {
				return nil, errors.New("no answer")
			}
			return next.RoundTrip(r)
		})
	})
	failing := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{spokeName: config}), kube.Options{})
	t.Cleanup(failing.Close)
	ref := testNode(t)
	_, err := nodes().TakeNode(t.Context(), TakeNodeInput{NodeRef: ref, Cordon: true, Scope: lcmv1.ScopeOS})
	require.NoError(t, err)
	in := ReturnNodeInput{NodeRef: ref, Withdraw: true}
	result, err := (&Nodes{Clusters: failing}).ReturnNode(t.Context(), in)
	require.NoError(t, err, "what became of the node must be known")
	require.Equal(t, ReturnNodeResult{Uncordoned: true, NotWithdrawn: true}, result)
	requireNoTrace(t, ref.Node)
	result, err = nodes().ReturnNode(t.Context(), in)
	require.NoError(t, err)
	require.False(t, result.NotWithdrawn)
}

func TestANodeThatIsGoneIsGoneAndNeedsNoReturn(t *testing.T) {
	ref := testNode(t)
	require.NoError(t, planMaintenance(t.Context(), ref))
	require.NoError(t, testCluster(t).Client.Delete(t.Context(), getNode(t, ref.Node)))

	_, err := nodes().Cordon(t.Context(), CordonInput{NodeRef: ref, Cordon: true})
	require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
	require.Equal(t, "the node is gone", giveBack(t, ref).Note)
	require.Eventually(t, func() bool {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		return temporal.ErrorType(planMaintenance(ctx, ref)) == temporal.ErrNodeGone
	}, newsLimit, 20*time.Millisecond)
}

func TestAPlanIsTakenBackThoughTheNodeHasChangedInBetween(t *testing.T) {
	ref := testNode(t)
	require.NoError(t, planMaintenance(t.Context(), ref))
	looks := 0
	err := changeNode(t.Context(), testCluster(t), ref.Node, func(node *corev1.Node) (client.Patch, error) {
		if looks++; looks == 1 {
			changed(t, ref.Node, annotated("interruption", "once"))
		}
		return nil, testCluster(t).RemoveNodeConditions(t.Context(), node, ref.Owner)
	})
	require.NoError(t, err)
	require.Equal(t, 2, looks)
	require.Nil(t, kube.FindNodeCondition(getNode(t, ref.Node), kube.ConditionMaintenancePlanned))
}

func TestALockThatIsHeldAgainRefusesTheCordon(t *testing.T) {
	ref := testNode(t)
	cluster := testCluster(t)
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
	in := CordonInput{NodeRef: ref, Cordon: true, Locked: true}

	set(lcmv1.LockActive)
	_, err := nodes().Cordon(t.Context(), in)
	require.Equal(t, temporal.ErrLockRefused, temporal.ErrorType(err))
	require.ErrorContains(t, err, "NodeWorkloadLock app-"+ref.Node+": app holds it")
	require.Len(t, temporal.Blockers(err), 1)
	require.False(t, getNode(t, ref.Node).Spec.Unschedulable)

	set(lcmv1.LockInactive)
	result, err := nodes().Cordon(t.Context(), in)
	require.NoError(t, err)
	set(lcmv1.LockActive)
	again, err := nodes().Cordon(t.Context(), in)
	require.NoError(t, err, "the node is cordoned: a lock taken now is too late")
	result.LockProgress, again.LockProgress = nil, nil // as of each call
	require.Equal(t, result, again)
}
