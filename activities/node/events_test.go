package node_test

import (
	"context"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authorizationv1 "k8s.io/api/authorization/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/events"
	"drydock.dev/drydock/activities/health"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/node"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

func TestEachStateHasOneNodeEventDespiteRetries(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	job := jobs.RunJobInput{NodeRef: ref, Maintenance: "fw", Job: activitytest.Firmware(t, activitytest.TestNode(t), nil).Job, Deadline: activitytest.InSeconds(600)}
	drains := &drain.Activities{Clusters: activitytest.Clusters}
	ended := &node.MaintenanceEnd{State: maintenancev1.NodeCompleted, Message: "the maintenance is completed"}
	for _, activity := range []func() error{
		func() error { return activitytest.PlanMaintenance(t.Context(), ref) },
		func() error {
			_, err := activitytest.Nodes().AcquireNode(t.Context(), node.AcquireNodeInput{NodeRef: ref, Cordon: true})
			return err
		},
		func() error {
			spec := maintenancev1.WaitForPodCompletionSpec{PodSelector: "app=none"}
			_, err := drains.AwaitPodCompletion(t.Context(), drain.AwaitPodCompletionInput{NodeRef: ref, Spec: spec})
			return err
		},
		func() error { _, err := drains.Drain(t.Context(), drain.Input{NodeRef: ref, Attempt: 1}); return err },
		func() error { return activitytest.Jobs().RunJob(t.Context(), job) },
		func() error {
			in := node.AnnounceStateInput{NodeRef: ref, State: maintenancev1.NodeRequestorFailed, Occurrence: 1, Message: "the work on the node has failed"}
			return activitytest.Nodes().AnnounceState(t.Context(), in)
		},
		func() error {
			_, err := (&health.Activities{Clusters: activitytest.Clusters}).AwaitNodeHealthy(t.Context(), health.AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120)})
			return err
		},
		func() error {
			_, err := activitytest.Nodes().ReturnNode(t.Context(), node.ReturnNodeInput{NodeRef: ref, FinishedJob: &job, Withdraw: true, Ended: ended})
			return err
		},
	} {
		require.NoError(t, activity())
		require.NoError(t, activity())
	}

	events := activitytest.EventsOf(t, ref.Node)
	require.Equal(t, []string{
		"Normal Pending: a maintenance of the node waits for its slot",
		"Normal Cordon: the node is cordoned for maintenance",
		"Normal WaitForPodCompletion: no pod has to end by itself",
		"Normal Draining: pods are being evicted",
		"Normal Drained: every pod that had to leave has left; evicted: 1",
		"Normal Ready: the node is ready, and its job works on it",
		"Normal JobStarted: job " + job.Job.Namespace + "/" + jobs.NameOfJob(job) + " works on the node",
		"Warning RequestorFailed: the work on the node has failed",
		"Normal Completed: the maintenance is completed; the node is uncordoned",
	}, activitytest.EventLines(events))
	for _, e := range events {
		require.Equal(t, int32(1), e.Count)
		require.Equal(t, "drydock", e.ReportingController)
		require.Equal(t, "default", e.Namespace)
		require.True(t, strings.HasSuffix(e.Message, " (node/spoke/default/"+ref.Node+")"), "%s names the maintenance", e.Message)
	}
}

func TestANodeWithoutWorkGetsAReadyEventWithItsChecks(t *testing.T) {
	ref := activitytest.TestNode(t)
	require.Eventually(t, func() bool { return activitytest.NodeReady(t, ref.Node) }, activitytest.EventTimeout, 20*time.Millisecond)
	activitytest.Settled(t, activitytest.SpokeName, activitytest.GetNode(t, ref.Node))
	readyAt := time.Now().Add(-time.Minute).Truncate(time.Second)
	in := health.AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(120)}
	in.Ready = &node.AnnounceStateInput{NodeRef: ref, State: maintenancev1.NodeReady, Message: "the node is ready, and has no work to wait for", At: readyAt}
	_, err := (&health.Activities{Clusters: activitytest.Clusters}).AwaitNodeHealthy(t.Context(), in)
	require.NoError(t, err)
	recorded := activitytest.EventsOf(t, ref.Node)
	require.Equal(t, []string{
		"Normal Ready: the node is ready, and has no work to wait for",
	}, activitytest.EventLines(recorded))
	require.True(t, recorded[0].FirstTimestamp.Time.Equal(readyAt), "it shows when the node was ready, not when that was recorded")
}

func TestFailuresAreWarningEventsWithAReason(t *testing.T) {
	tests := []struct {
		name string
		run  func(t *testing.T, ref activitykit.NodeRef, shop activitytest.Tenant)
		want string
	}{
		{
			"pods that do not complete",
			func(t *testing.T, ref activitykit.NodeRef, shop activitytest.Tenant) {
				shop.Pod(t, ref.Node, "training")
				result, err := (&drain.Activities{Clusters: activitytest.Clusters}).AwaitPodCompletion(t.Context(), drain.AwaitPodCompletionInput{NodeRef: ref, Deadline: activitytest.InSeconds(0.3)})
				require.NoError(t, err)
				require.Len(t, result.Remaining, 1)
			},
			"Warning PodCompletionTimedOut: continues without waiting longer for pods that have not completed: NAMESPACE/training",
		},
		{
			"each timed-out attempt of a drain",
			func(t *testing.T, ref activitykit.NodeRef, shop activitytest.Tenant) {
				shop.Pod(t, ref.Node, "web")
				shop.Budget(t, "web", 1, 1)
				attempts, blockers := 0, 0
				for enough := 0.5; enough < 60 && (attempts < 2 || blockers == 0); enough *= 2 { // until it has tried the eviction
					attempts++
					_, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: int32(attempts), Deadline: activitytest.InSeconds(enough)})
					require.Equal(t, temporal.ErrDrainTimedOut, temporal.ErrorType(err))
					blockers = len(temporal.Blockers(err))
				}
				timedOut := slices.DeleteFunc(activitytest.EventsOf(t, ref.Node), func(e corev1.Event) bool { return e.Reason != temporal.ErrDrainTimedOut })
				require.Len(t, timedOut, attempts)
				require.Contains(t, timedOut[attempts-1].Message, "PodDisruptionBudget "+shop.Namespace+"/web")
			},
			"Warning DrainTimedOut: ",
		},
		{
			"a pod that may not be evicted",
			func(t *testing.T, ref activitykit.NodeRef, shop activitytest.Tenant) {
				shop.Pod(t, ref.Node, "alone", func(pod *corev1.Pod) { pod.OwnerReferences = nil })
				_, err := activitytest.DrainNode(t, drain.Input{NodeRef: ref, Attempt: 1})
				require.Equal(t, temporal.ErrPodsNotEvictable, temporal.ErrorType(err))
			},
			"Warning PodsNotEvictable: drain NODE: ",
		},
		{
			"a job that fails",
			func(t *testing.T, ref activitykit.NodeRef, _ activitytest.Tenant) {
				err := activitytest.Jobs().RunJob(t.Context(), activitytest.Firmware(t, ref, map[string]string{devstack.AnnotationExitCode: "3"}))
				require.Equal(t, temporal.ErrJobFailed, temporal.ErrorType(err))
			},
			"Warning JobFailed: ",
		},
		{
			"a node that stays unhealthy",
			func(t *testing.T, ref activitykit.NodeRef, _ activitytest.Tenant) {
				activitytest.Changed(t, ref.Node, activitytest.Annotated(devstack.AnnotationNotReady, "rebooting"))
				require.Eventually(t, func() bool { return !activitytest.NodeReady(t, ref.Node) }, activitytest.EventTimeout, 20*time.Millisecond)
				_, err := (&health.Activities{Clusters: activitytest.Clusters}).AwaitNodeHealthy(t.Context(), health.AwaitNodeHealthyInput{NodeRef: ref, Since: time.Now(), Deadline: activitytest.InSeconds(0.3)})
				require.Equal(t, temporal.ErrHealthGateFailed, temporal.ErrorType(err))
			},
			"Warning HealthGateFailed: health gate of node NODE failed: ",
		},
		{
			"work that has failed",
			func(t *testing.T, ref activitykit.NodeRef, _ activitytest.Tenant) {
				in := node.AnnounceStateInput{NodeRef: ref, State: maintenancev1.NodeRequestorFailed, Occurrence: 2, Message: "the work on the node has failed by ann"}
				require.NoError(t, activitytest.Nodes().AnnounceState(t.Context(), in))
			},
			"Warning RequestorFailed: the work on the node has failed by ann",
		},
		{
			"a failed maintenance that leaves the node cordoned",
			func(t *testing.T, ref activitykit.NodeRef, _ activitytest.Tenant) {
				activitytest.Cordon(t, ref)
				ended := &node.MaintenanceEnd{State: maintenancev1.NodeFailed, Message: "the maintenance has failed: JobFailed: exit code 3"}
				_, err := activitytest.Nodes().ReturnNode(t.Context(), node.ReturnNodeInput{NodeRef: ref, KeepCordoned: true, Ended: ended})
				require.NoError(t, err)
			},
			"Warning Failed: the maintenance has failed: JobFailed: exit code 3; left cordoned after the failure, as onFailure requires; return it with kubectl uncordon NODE",
		},
		{
			"a node that the sweeper returns",
			func(t *testing.T, ref activitykit.NodeRef, _ activitytest.Tenant) {
				activitytest.Cordon(t, ref)
				activitytest.ReturnNode(t, ref)
			},
			"Warning CleanedUp: the maintenance had ended, and the node still had its marks; the node is uncordoned",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
			tt.run(t, ref, shop)
			lines := activitytest.EventLines(activitytest.EventsOf(t, ref.Node))
			require.Contains(t, lines[len(lines)-1], strings.NewReplacer("NAMESPACE", shop.Namespace, "NODE", ref.Node).Replace(tt.want))
		})
	}
}

func TestAnEventOfADeletedNodeNamesTheNode(t *testing.T) {
	ref := activitykit.NodeRef{Cluster: activitytest.SpokeName, Node: "never-there", Owner: "node/spoke/default/gone/run"}
	ended := &node.MaintenanceEnd{State: maintenancev1.NodeGone, Message: "the maintenance has failed: NodeGone"}
	_, err := activitytest.Nodes().ReturnNode(t.Context(), node.ReturnNodeInput{NodeRef: ref, Ended: ended})
	require.NoError(t, err)
	list, err := activitytest.TestCluster(t).Clientset.CoreV1().Events("default").List(t.Context(), metav1.ListOptions{FieldSelector: "involvedObject.name=never-there"})
	require.NoError(t, err)
	require.Equal(t, []string{"Warning NodeGone: the maintenance has failed: NodeGone; the node is gone"}, activitytest.EventLines(list.Items))
}

func TestACancelledAttemptWritesNoEvent(t *testing.T) {
	ref := activitytest.TestNode(t)
	cluster, err := activitytest.Clusters.Cluster(t.Context(), activitytest.SpokeName)
	require.NoError(t, err)
	over, cancel := context.WithCancel(t.Context())
	cancel()
	events.Announce(over, cluster, ref, events.Event{Reason: events.Drained, Message: "every pod that had to leave has left"})
	require.Empty(t, activitytest.EventsOf(t, ref.Node))
}

// silent does not answer requests that create an Event.
type silent struct{ http.RoundTripper }

func (s silent) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPost && strings.HasSuffix(request.URL.Path, "/events") {
		<-request.Context().Done()
		return nil, request.Context().Err()
	}
	return s.RoundTripper.RoundTrip(request)
}

func TestARejectedEventDelaysTheMaintenanceOnlyBriefly(t *testing.T) {
	forbidden, err := activitytest.Stack.Cluster(activitytest.SpokeName).UserConfig("without-events")
	require.NoError(t, err)
	_, err = activitytest.TestCluster(t).Clientset.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: "without-events"},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "drydock-initiator"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.UserKind, Name: "without-events"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	devstacktest.Granted(t, activitytest.Stack.Cluster(activitytest.SpokeName), "without-events", authorizationv1.ResourceAttributes{Verb: "patch", Resource: "nodes"})
	unanswered := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.SpokeName).Config)
	unanswered.Wrap(func(next http.RoundTripper) http.RoundTripper { return silent{next} })

	limit := events.Timeout
	events.Timeout = time.Second
	t.Cleanup(func() { events.Timeout = limit })
	for name, config := range map[string]*rest.Config{"forbidden": forbidden, "unanswered": unanswered} {
		t.Run(name, func(t *testing.T) {
			ref := activitytest.TestNode(t)
			theirs := kube.New(kube.FromConfigs(nil, map[string]*rest.Config{activitytest.SpokeName: config}), kube.Options{})
			t.Cleanup(theirs.Close)
			begin := time.Now()
			result, err := (&node.Activities{Clusters: theirs}).Cordon(t.Context(), node.CordonInput{NodeRef: ref, Cordon: true})
			require.NoError(t, err)
			require.True(t, result.CordonedByUs)
			require.Less(t, time.Since(begin), time.Minute, "the rejected Event has its own limit")
			require.Empty(t, activitytest.EventsOf(t, ref.Node))
		})
	}
}
