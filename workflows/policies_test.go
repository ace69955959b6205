package workflows

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// policyWorld plays a hub that enforces policies: a cluster complies a minute after one is enforced on it, unless the test says otherwise.
type policyWorld struct {
	*world
	// compliance of the clusters; takes is how long a cluster takes to comply, or less than nothing: it never does.
	compliance map[string][]byte
	takes      func(cluster string, policy int) time.Duration
	soaks      []time.Duration
	// enforced are the clusters that have each policy, or manifest work, now; most is how many were at work at once at most.
	enforced map[int][]string
	most     int
	// watching are the activities that wait for news, and mostWatching how many there were at most for which somebody waited.
	watching     []watching
	mostWatching int
	// refuses says why clusters get no work, and stays are those from which the hub deletes none.
	refuses map[string]activities.RefusedPlacement
	stays   []string
	// bring makes a manifest work on a cluster.
	bring func(cluster string, item int)
}

type watching struct {
	id    int
	token []byte
	in    activities.AwaitComplianceInput
}

// newPolicyWorld plans a rollout of the policies kernel and network, with which no cluster complies.
func newPolicyWorld(t *testing.T, batches ...[]string) *policyWorld {
	w := &policyWorld{
		world: newWorld(t), compliance: map[string][]byte{}, enforced: map[int][]string{}, soaks: make([]time.Duration, 2),
		takes: func(string, int) time.Duration { return time.Minute },
	}
	w.plan = planOf(batches...)
	w.plan.ManagedPoliciesForUpgrade = []string{"kernel", "network"}
	w.plan.PolicyNamespaces = map[string]string{"kernel": "policies", "network": "policies"}
	w.plan.StartPolicyIndex = map[string]int{}
	for _, cluster := range slices.Concat(batches...) {
		w.compliance[cluster] = []byte("NN")
		w.plan.StartPolicyIndex[cluster] = 0
	}
	play(w.world, "PreparePolicies", func(in activities.PolicyRollout) any {
		var prepared []activities.PreparedPolicy
		for i, ref := range in.Policies {
			prepared = append(prepared, activities.PreparedPolicy{
				Ref: ref, Soak: w.soaks[i], SafeNames: map[string]string{"june-" + ref.Name: "safe-" + ref.Name}, Pin: "uid-of-" + ref.Name + "/3",
			})
		}
		return prepared
	})
	play(w.world, "PlacePolicies", w.place)
	play(w.world, "CleanUpPolicies", func(activities.PolicyRollout) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.enforced = map[int][]string{}
		return nil
	})
	play(w.world, "ChangedPolicies", func(activities.PolicyRollout) any { return nil })
	play(w.world, "ReadCompliance", func(in activities.ReadComplianceInput) any {
		w.mu.Lock()
		defer w.mu.Unlock()
		var seen []policies.ClusterCompliance
		for _, cluster := range in.Clusters {
			seen = append(seen, policies.ClusterCompliance{Cluster: cluster, Status: policies.ComplianceStatus(w.compliance[cluster])})
		}
		return seen
	})
	w.RegisterActivityWithOptions(func(ctx context.Context, in activities.AwaitComplianceInput) ([]policies.ClusterCompliance, error) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.inputs["AwaitCompliance"] = append(w.inputs["AwaitCompliance"], in)
		if fail := w.fail["AwaitCompliance"]; fail != nil {
			if err := fail(len(w.inputs["AwaitCompliance"])); err != nil {
				return nil, err
			}
		}
		if news := w.news(in); len(news) > 0 {
			return news, nil
		}
		w.watch(ctx, in)
		return nil, activity.ErrResultPending
	}, activity.RegisterOptions{Name: "AwaitCompliance"})
	return w
}

// watch takes in an activity that waits.
func (w *policyWorld) watch(ctx context.Context, in activities.AwaitComplianceInput) {
	info := activity.GetInfo(ctx)
	id, err := strconv.Atoi(info.ActivityID)
	require.NoError(w.t, err)
	w.watching = append(w.watching, watching{id: id, token: info.TaskToken, in: in})
	// Of those that watch a cluster which is not through, the last counts: nobody waits for the others.
	last := map[string]int{}
	for _, one := range w.watching {
		for _, known := range one.in.Clusters {
			if string(w.compliance[known.Cluster]) != "CC" {
				last[known.Cluster] = max(last[known.Cluster], one.id)
			}
		}
	}
	w.mostWatching = max(w.mostWatching, len(slices.Compact(slices.Sorted(maps.Values(last)))))
}

// lastWatch is the number of the last activity that waits.
func (w *policyWorld) lastWatch() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.watching[len(w.watching)-1].id
}

func (w *policyWorld) news(in activities.AwaitComplianceInput) []policies.ClusterCompliance {
	var news []policies.ClusterCompliance
	for _, known := range in.Clusters {
		now := policies.ComplianceStatus(w.compliance[known.Cluster])
		if slices.Contains(w.vanished, known.Cluster) {
			news = append(news, policies.ClusterCompliance{Cluster: known.Cluster, Status: now, Vanished: true})
		} else if policies.Changed(known.Status, now, known.Policy) {
			news = append(news, policies.ClusterCompliance{Cluster: known.Cluster, Status: now})
		}
	}
	return news
}

func (w *policyWorld) place(in activities.PlacePoliciesInput) any {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes, waiting := policies.Changes(in.Desired, [][]string{w.enforced[0], w.enforced[1]})
	for _, change := range changes {
		for _, cluster := range change.Added {
			if takes := w.takes(cluster, change.Item); takes >= 0 {
				w.simulateAfter(takes, func() { w.comply(cluster, change.Item, policies.Compliant) })
			}
		}
		w.enforced[change.Item] = change.Clusters
	}
	w.most = max(w.most, len(slices.Concat(w.enforced[0], w.enforced[1])))
	return activities.Placed{Waiting: waiting}
}

// comply changes the compliance of a cluster.
func (w *policyWorld) comply(cluster string, policy int, now policies.Compliance) {
	w.change(func() {
		w.compliance[cluster][policy] = byte(now)
		if now == policies.Unknown { // somebody has deleted the manifest work
			w.enforced[policy] = slices.DeleteFunc(w.enforced[policy], func(name string) bool { return name == cluster })
		}
	})
}

// vanish deletes the ManagedCluster of a cluster.
func (w *policyWorld) vanish(cluster string) {
	w.change(func() { w.world.vanished = append(w.world.vanished, cluster) })
}

// change changes something, and tells those who watch.
func (w *policyWorld) change(something func()) {
	w.mu.Lock()
	something()
	waiting := w.watching
	w.watching = nil
	var told []func()
	for _, one := range waiting {
		news := w.news(one.in)
		if len(news) == 0 {
			w.watching = append(w.watching, one)
			continue
		}
		told = append(told, func() { _ = w.CompleteActivity(one.token, news, nil) }) // one that was cancelled needs no news
	}
	w.mu.Unlock()
	for _, tell := range told {
		tell()
	}
}

func (w *policyWorld) run(changes ...func(*ranv1.ClusterGroupUpgradeSpec)) {
	object := policyRollout()
	for _, change := range changes {
		change(&object.Spec)
	}
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{Object: object})
}

func policyRollout() ranv1.ClusterGroupUpgrade {
	object := aRollout()
	object.Spec.NodeMaintenance, object.Spec.ManagedPolicies = nil, []string{"kernel", "network"}
	return object
}

// requireNothingEnforced requires that what the rollout made was removed, or at least that it lists no cluster.
func (w *policyWorld) requireNothingEnforced() {
	w.t.Helper()
	for policy, clusters := range w.enforced {
		require.Empty(w.t, clusters, "policy %d", policy)
	}
}

func TestPoliciesAreEnforcedInOrderOnEachClusterAndBatchAfterBatch(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.takes = func(cluster string, policy int) time.Duration {
		if cluster == "c2" {
			return 3 * time.Minute
		}
		return time.Minute
	}
	w.run()
	status := requireResult[groupStatus](w.world)
	requireCondition(t, status, ranv1.ConditionSucceeded, metav1.ConditionTrue, ranv1.ReasonCompleted)
	require.Equal(t, ranv1.ClusterCounts{Total: 3, Complete: 3}, status.Counts)
	require.Equal(t, map[string]string{"june-kernel": "safe-kernel", "june-network": "safe-network"}, status.SafeResourceNames)
	require.Equal(t, map[string]string{"kernel": "policies", "network": "policies"}, status.ManagedPoliciesNs)

	took := func(name string) time.Duration {
		c := status.Clusters[slices.IndexFunc(status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == name })]
		return c.CompletedAt.Sub(c.StartedAt.Time).Round(time.Minute)
	}
	require.Equal(t, 2*time.Minute, took("c1"), "one does not wait for the other")
	require.Equal(t, 6*time.Minute, took("c2"))
	require.Equal(t, 8*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))

	var story [][]policies.DesiredPlacement
	for _, in := range w.inputsOf("PlacePolicies") {
		story = append(story, in.(activities.PlacePoliciesInput).Desired)
	}
	require.Equal(t, []policies.DesiredPlacement{{Item: 0, Clusters: []string{"c1", "c2"}}}, story[0])
	require.Equal(t, []policies.DesiredPlacement{{Item: 0, Clusters: []string{"c2"}}, {Item: 1, Clusters: []string{"c1"}}}, story[1])
	require.Equal(t, 2, w.most)
	require.Len(t, w.inputsOf("CleanUpPolicies"), 1)
	require.Len(t, w.inputsOf("PreparePolicies"), 1)
}

// The activities of a worker are not without number: those that watch must leave some to those that enforce.
func TestARollingRolloutWatchesManyClustersWithFewActivities(t *testing.T) {
	var clusters []string
	for i := range 260 {
		clusters = append(clusters, fmt.Sprintf("c%03d", i))
	}
	w := newPolicyWorld(t, clusters[:130], clusters[130:])
	w.takes = func(cluster string, _ int) time.Duration { // one after the other, so that others come one after the other
		return time.Minute + time.Duration(slices.Index(clusters, cluster)%130)*time.Second
	}
	w.plan.ComputedMaxConcurrency = 130
	w.run(func(spec *ranv1.ClusterGroupUpgradeSpec) { spec.RemediationStrategy.Rollout = ranv1.Rolling })
	status := requireResult[groupStatus](w.world)
	require.Equal(t, int32(260), status.Counts.Complete)
	require.LessOrEqual(t, w.mostWatching, 3)
	for _, in := range w.inputsOf("PlacePolicies") {
		for _, placed := range in.(activities.PlacePoliciesInput).Desired {
			require.LessOrEqual(t, len(placed.Clusters), 130)
		}
	}
}

func TestWhatEnforcesAPolicyAndWasMadeAgainIsNotedOnce(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	play(w.world, "PlacePolicies", func(in activities.PlacePoliciesInput) any {
		placed := w.place(in).(activities.Placed)
		placed.Recreated = []string{"PlacementBinding ops/safe-kernel"}
		return placed
	})
	w.run()
	require.Equal(t, []string{"PlacementBinding ops/safe-kernel had been deleted, and was made again"}, requireResult[groupStatus](w.world).Notes)
}

// The hub finds that one has changed when a second batch comes to it, and the other at the end. The second batch has a run of its own.
func TestAPolicyThatHasChangedSinceTheRolloutBeganIsNotedOnce(t *testing.T) {
	for enforcement, means := range map[ranv1.PolicyEnforcement]string{
		ranv1.EnforceCopy:     "clusters are given the copy of that all the same, and must comply with what it says now",
		ranv1.EnforceOverride: "clusters that were done with it before are not brought to what it says now, the others are",
	} {
		t.Run(string(enforcement), func(t *testing.T) {
			object := policyRollout()
			object.Spec.PolicyEnforcement = enforcement
			in := &ClusterGroupUpgradeInput{Object: object}
			var w *policyWorld
			for runs := 0; in != nil; runs++ {
				before := w
				w = newPolicyWorld(t, []string{"c1"}, []string{"c2"})
				if before != nil {
					w.compliance, w.enforced = before.compliance, before.enforced
				} else {
					w.RegisterDelayedCallback(func() { w.SetContinueAsNewSuggested(true) }, time.Second)
				}
				play(w.world, "PlacePolicies", func(in activities.PlacePoliciesInput) any {
					require.Equal(t, []string{"uid-of-kernel/3", "uid-of-network/3"}, in.Rollout.Pins)
					placed := w.place(in).(activities.Placed)
					if runs > 0 && len(in.Desired) > 0 && in.Desired[0].Item == 0 {
						placed.Changed = []int{0}
					}
					return placed
				})
				play(w.world, "CleanUpPolicies", func(activities.PolicyRollout) any {
					return []int{0, 1}
				})
				w.ExecuteWorkflow(ClusterGroupUpgrade, *in)
				in = handedOn[ClusterGroupUpgradeInput](w.world)
			}
			note := func(policy string) string {
				return "policy policies/" + policy + " has been changed, or deleted, since the rollout began with its generation 3: " + means +
					"; to roll out what it says now on all of them, cancel the rollout if it still runs, and start it anew"
			}
			require.Equal(t, []string{note("kernel"), note("network")}, requireResult[groupStatus](w.world).Notes)
		})
	}
}

func TestAPolicySoaksAndARelapseRestartsTheClock(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"})
	w.soaks[0] = 10 * time.Minute
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.NonCompliant) }, 6*time.Minute)
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Compliant) }, 8*time.Minute)
	var soaking ranv1.ClusterStatus
	w.RegisterDelayedCallback(func() { soaking = statusOf[groupStatus](w.world).Clusters[0] }, 3*time.Minute)
	w.run()

	status := requireResult[groupStatus](w.world)
	require.Equal(t, ranv1.ClusterSoaking, soaking.State)
	require.Equal(t, "Soaking", soaking.Reason)
	require.Equal(t, &ranv1.PolicyStatus{Name: "kernel", Status: "Compliant"}, soaking.CurrentPolicy)
	require.Equal(t, 19*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute), "8 until it complied again, 10 of soak, 1 for the other policy")
	w.requireNothingEnforced()
}

// deaf lets what watches clusters hear nothing of its cancellation, as on a server, where that takes a while; the test environment ends it at once.
type deaf struct {
	interceptor.WorkerInterceptorBase
}

func (*deaf) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	in := &deafInbound{}
	in.Next = next
	return in
}

type deafInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

func (i *deafInbound) Init(next interceptor.WorkflowOutboundInterceptor) error {
	out := &deafOutbound{}
	out.Next = next
	return i.Next.Init(out)
}

type deafOutbound struct {
	interceptor.WorkflowOutboundInterceptorBase
}

func (o *deafOutbound) ExecuteActivity(ctx workflow.Context, name string, args ...any) workflow.Future {
	if name == "AwaitCompliance" {
		ctx, _ = workflow.NewDisconnectedContext(ctx)
	}
	return o.Next.ExecuteActivity(ctx, name, args...)
}

// The soak of c2 ends after 11 minutes, and c1 is watched anew while the watch before gathers changes still.
func TestARelapseThatOnlyAWatchHasSeenWhichIsOverRestartsTheClock(t *testing.T) {
	for name, test := range map[string]struct {
		relapsed time.Duration
		takes    time.Duration
	}{
		"while it soaks":                   {13 * time.Minute, 24 * time.Minute},
		"with a policy whose turn is over": {16*time.Minute + 30*time.Second, 17 * time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newPolicyWorld(t, []string{"c1", "c2"})
			w.SetWorkerOptions(worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&SignalOrder{}, &deaf{}}})
			w.soaks[0] = 10 * time.Minute
			w.takes = func(cluster string, policy int) time.Duration {
				if cluster == "c1" && policy == 0 {
					return 6 * time.Minute
				}
				return time.Minute
			}
			var before watching
			w.RegisterDelayedCallback(func() {
				w.mu.Lock()
				defer w.mu.Unlock()
				before = w.watching[len(w.watching)-1]
			}, 10*time.Minute)
			w.RegisterDelayedCallback(func() {
				require.Greater(t, w.lastWatch(), before.id, "another watches by now")
				require.NoError(t, w.CompleteActivity(before.token, []policies.ClusterCompliance{{Cluster: "c1", Status: "CN", Relapsed: true}}, nil))
			}, test.relapsed)
			w.run()
			c1 := statusOfCluster(requireResult[groupStatus](w.world), "c1")
			require.Equal(t, test.takes, c1.CompletedAt.Sub(c1.StartedAt.Time).Round(time.Minute))
		})
	}
}

func TestAClusterThatSoaksWithAPolicyIsAtWorkAndTimesOutAsSuch(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.soaks[0] = 10 * time.Hour
	var soaking groupStatus
	w.RegisterDelayedCallback(func() { soaking = statusOf[groupStatus](w.world) }, 3*time.Minute)
	w.run()
	require.Equal(t, ranv1.ReasonBatchInProgress, soaking.Wait.Reason)
	require.Contains(t, soaking.Wait.Message, "clusters at work: 1")
	late := statusOfCluster(requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut), "c1")
	require.Equal(t, "BatchTimedOut", late.Reason)
	require.Contains(t, late.Message, "at that moment: policy kernel: Soaking: must stay so until")
}

// However the batches end, what has complied meanwhile is complete.
func TestAClusterThatCompliesAfterItsTimeIsCompleteInARolloutThatStopsEarly(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"}, []string{"c3"})
	w.takes = func(cluster string, policy int) time.Duration { return -1 }
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Compliant) }, 21*time.Minute)
	w.RegisterDelayedCallback(func() { w.comply("c1", 1, policies.Compliant) }, 21*time.Minute)
	w.plan.ComputedMaxFailures = 2
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonAborted)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "timedout", "c3": "pending"}, clusterStates(status))
}

// What the watch has shown may be behind.
func TestTheEndOfASoakIsDecidedByAnotherLook(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"})
	w.soaks[0] = 10 * time.Minute
	w.RegisterDelayedCallback(func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.compliance["c1"][0] = byte(policies.NonCompliant) // and nobody is told
	}, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Compliant) }, 20*time.Minute)
	w.run()
	status := requireResult[groupStatus](w.world)
	require.Equal(t, 31*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
}

// One that knows the hub comes later.
func TestAWorkerThatKnowsNoHubIsHeldAgainstNoCluster(t *testing.T) {
	none := kube.New(kube.FromConfigs(nil, nil), kube.Options{})
	t.Cleanup(none.Close)
	_, noHub := none.Hub(t.Context())
	for activity, summary := range map[string]string{
		"PlanRollout":      "plan the rollout",
		"PreparePolicies":  "prepare the enforcement of policies",
		"PlacePolicies":    "enforce kernel on 1 clusters",
		"AwaitCompliance":  "watch the compliance of 1 clusters",
		"ReadCompliance":   "read the compliance of 1 clusters",
		"VanishedClusters": "check for deleted clusters of batch 1",
		"CleanUpPolicies":  "delete the objects that enforce policies",
		"SaveRollout":      "save the final status on the hub",
	} {
		t.Run(activity, func(t *testing.T) {
			w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
			w.soaks[0] = 10 * time.Minute
			var first time.Time
			said := false
			w.fail[activity] = func(call int) error {
				if activity == "SaveRollout" && call == 1 {
					return nil // nothing waits for the rollout to be known on the hub
				}
				if first.IsZero() {
					first = w.Now()
					w.RegisterDelayedCallback(func() {
						status := statusOf[groupStatus](w.world)
						require.NotNil(t, status.Wait)
						require.Equal(t, "NoHub: "+summary+": "+temporal.ErrorMessage(noHub), status.Wait.Reason+": "+status.Wait.Message)
						said = true
					}, time.Minute)
				}
				if w.Now().Before(first.Add(2 * time.Minute)) {
					return noHub
				}
				return nil
			}
			w.run()
			status := requireResult[groupStatus](w.world)
			require.True(t, said)
			require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, clusterStates(status))
			require.Empty(t, status.Notes)
			w.requireNothingEnforced()
		})
	}
}

func TestAClusterThatDoesNotComplyInTimeIsWithdrawnBeforeTheNextBatch(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.takes = func(cluster string, policy int) time.Duration {
		if cluster == "c2" && policy == 1 {
			return -1
		}
		return time.Minute
	}
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "timedout", "c3": "complete"}, clusterStates(status))
	late := status.Clusters[slices.IndexFunc(status.Clusters, func(c ranv1.ClusterStatus) bool { return c.Name == "c2" })]
	require.Equal(t, &ranv1.PolicyStatus{Name: "network", Status: "NonCompliant"}, late.CurrentPolicy)
	require.Contains(t, late.Message, "policy network: NonCompliant")
	require.Equal(t, 2, w.most, "the next batch starts when it is withdrawn")
	w.requireNothingEnforced()
}

func TestAClusterThatCompliesAfterItsTimeIsCompleteAtTheEnd(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.takes = func(cluster string, policy int) time.Duration {
		if cluster == "c1" {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() { w.comply("c1", 0, policies.Compliant) }, 31*time.Minute)
	w.RegisterDelayedCallback(func() { w.comply("c1", 1, policies.Compliant) }, 31*time.Minute)
	w.run()
	status := requireResult[groupStatus](w.world)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, clusterStates(status))
}

func TestAClusterThatIsUnboundFromWhatItTimedOutWithIsNotCompleteAtTheEnd(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.takes = func(cluster string, policy int) time.Duration {
		if cluster == "c1" && policy == 1 {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() { w.comply("c1", 1, policies.Unbound) }, 31*time.Minute)
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, clusterStates(status))

	next, err := rollout.Retry(status, nil, rollout.RetryRequest{})
	require.NoError(t, err)
	again := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	again.compliance["c1"] = []byte("C-")
	object := policyRollout()
	again.recalledRollout = activities.LoadedRollout{Object: object}
	again.recalledRollout.Object.Status = next
	again.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{
		Object: ranv1.ClusterGroupUpgrade{ObjectMeta: object.ObjectMeta}, Retry: &rollout.RetryRequest{},
	})
	retried := statusOfCluster(requireFailure[groupStatus](again.world, ranv1.ReasonFailed), "c1")
	require.Equal(t, ranv1.ClusterFailed, retried.State)
	require.Equal(t, "policy policies/network is not bound to the cluster any more: its compliance is unknown", retried.Message)
}

func TestACancelledRolloutOfPoliciesEnforcesNothingAnyMore(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1", "c2"}, []string{"c3"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) }, 90*time.Second)
	w.run()
	status := requireCancelled[groupStatus](w.world)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "cancelled", "c2": "cancelled", "c3": "pending"}, clusterStates(status))
	w.requireNothingEnforced()
	last := w.called()
	require.Equal(t, []string{"PlacePolicies", "CleanUpPolicies", "SaveRollout"}, last[len(last)-3:])
}

func TestACancelledRolloutOfPoliciesSaysWhatIsBeingTakenBack(t *testing.T) {
	for _, tt := range []struct {
		slow string
		call int
		says string
	}{
		{"PlacePolicies", 2, "batch 1 of 1: clusters that are taken off the placements of their policies: 2"},
		{"CleanUpPolicies", 1, "batch 1 of 1: cleaning up"},
	} {
		t.Run(tt.slow, func(t *testing.T) {
			w := newPolicyWorld(t, []string{"c1", "c2"})
			w.fail[tt.slow] = func(call int) error {
				if call == tt.call {
					return errors.New("the hub is away for a moment")
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{}) }, 30*time.Second)
			var cancelling *drydockv1.Wait
			w.RegisterDelayedCallback(func() { cancelling = statusOf[groupStatus](w.world).Wait }, 30*time.Second+100*time.Millisecond)
			w.run()
			requireCancelled[groupStatus](w.world)
			require.Equal(t, "Cancelling", cancelling.Reason)
			require.Equal(t, tt.says, cancelling.Message)
		})
	}
}

func TestAClusterThatIsUnboundFailsAndTheOthersGoOn(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1", "c2", "c3"})
	w.compliance["c3"] = []byte("--")
	w.RegisterDelayedCallback(func() { w.comply("c2", 1, policies.Unbound) }, 30*time.Second)
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonFailed)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "failed", "c3": "failed"}, clusterStates(status))
	messages := map[string]string{}
	for _, c := range status.Clusters {
		messages[c.Name] = c.Reason + ": " + c.Message
	}
	require.Contains(t, messages["c2"], "Unbound: policy policies/network is not bound to the cluster any more")
	require.Contains(t, messages["c3"], "Unbound: policy policies/kernel is not bound to the cluster any more")
	w.requireNothingEnforced()
}

// Somebody deletes a policy, or unbinds it, before the turn of a cluster has come that it was bound to when it was planned.
func TestAClusterThatHasLostAPolicyBeforeItsTurnHasFailed(t *testing.T) {
	play := func(notBound map[int][]int, pieces bool) groupStatus {
		w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
		w.plan.NotBound = notBound
		w.RegisterDelayedCallback(func() {
			w.comply("c2", 1, policies.Unbound)
			w.SetContinueAsNewSuggested(pieces)
		}, 30*time.Second)
		w.run()
		if in := handedOn[ClusterGroupUpgradeInput](w.world); in != nil {
			next := newPolicyWorld(t)
			next.compliance, next.enforced = w.compliance, w.enforced
			next.ExecuteWorkflow(ClusterGroupUpgrade, *in)
			w = next
		}
		w.requireNothingEnforced()
		if notBound != nil {
			return requireResult[groupStatus](w.world)
		}
		return requireFailure[groupStatus](w.world, ranv1.ReasonFailed)
	}
	for _, pieces := range []bool{false, true} {
		lost := play(nil, pieces)
		require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "failed"}, clusterStates(lost))
		require.Equal(t, "policy policies/network is not bound to the cluster any more: its compliance is unknown", statusOfCluster(lost, "c2").Message)
		never := play(map[int][]int{1: {1}}, pieces)
		require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "complete"}, clusterStates(never), "it never was")
	}
}

func TestAClusterThatTimedOutAndLostAPolicyThatShouldHaveFollowedIsNotComplete(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.takes = func(cluster string, policy int) time.Duration {
		if cluster == "c1" && policy == 0 {
			return -1
		}
		return time.Minute
	}
	w.RegisterDelayedCallback(func() {
		w.comply("c1", 0, policies.Compliant)
		w.comply("c1", 1, policies.Unbound)
	}, 31*time.Minute)
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonTimedOut)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "timedout", "c2": "complete"}, clusterStates(status))
}

func TestAClusterThatVanishesAtWorkHasFailed(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1", "c2"})
	w.RegisterDelayedCallback(func() { w.vanish("c2") }, 30*time.Second)
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonFailed)
	require.Equal(t, map[string]ranv1.ClusterState{"c1": "complete", "c2": "failed"}, clusterStates(status))
	require.Equal(t, ranv1.ReasonClusterVanished, statusOfCluster(status, "c2").Reason)
	require.Equal(t, 2*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute), "nobody waits for it")
}

func TestPausedNoOtherPolicyBegins(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalPause, temporal.SignalRequest{}) }, 30*time.Second)
	var paused ranv1.ClusterStatus
	w.RegisterDelayedCallback(func() { paused = statusOf[groupStatus](w.world).Clusters[0] }, 5*time.Minute)
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalResume, temporal.SignalRequest{}) }, 10*time.Minute)
	w.run()
	status := requireResult[groupStatus](w.world)
	require.Equal(t, "policy kernel", paused.Step)
	require.Equal(t, "Paused", paused.Reason)
	require.Equal(t, 11*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
}

// The batch was running before the stop: its policies could only not be prepared.
func TestPausedOrHeldNotEvenTheFirstPolicyBegins(t *testing.T) {
	signal := func(name string, what any) func(*policyWorld) {
		return func(w *policyWorld) { w.SignalWorkflow(name, what) }
	}
	all := emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll}}}
	tests := []struct {
		name       string
		stop, goOn func(*policyWorld)
		reason     string
	}{
		{"paused", signal(temporal.SignalPause, temporal.SignalRequest{}), signal(temporal.SignalResume, temporal.SignalRequest{}), "Paused"},
		{"held", signal(temporal.SignalHeld, all), signal(temporal.SignalHeld, emergency.State{Number: 3}), "Held"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			w := newPolicyWorld(t, []string{"c1", "c2"})
			w.compliance["c2"] = []byte("CN")
			back := w.Now().Add(5 * time.Minute)
			w.fail["PreparePolicies"] = func(int) error {
				if w.Now().Before(back) {
					return errors.New("the hub is away")
				}
				return nil
			}
			w.RegisterDelayedCallback(func() { test.stop(w) }, 2*time.Minute)
			var stopped groupStatus
			var placed int
			w.RegisterDelayedCallback(func() { stopped, placed = statusOf[groupStatus](w.world), len(w.inputsOf("PlacePolicies")) }, 9*time.Minute)
			w.RegisterDelayedCallback(func() { test.goOn(w) }, 10*time.Minute)
			w.run()
			require.Zero(t, placed, "nothing is enforced")
			first, second := statusOfCluster(stopped, "c1"), statusOfCluster(stopped, "c2")
			require.Equal(t, test.reason, first.Reason)
			require.Contains(t, first.Message, "the first may not begin")
			require.Equal(t, []string{"policy kernel", "policy network"}, []string{first.Step, second.Step})
			status := requireResult[groupStatus](w.world)
			require.Equal(t, 12*time.Minute, status.Status.CompletedAt.Sub(status.Status.StartedAt.Time).Round(time.Minute))
		})
	}
}

func TestPoliciesThatCannotBePreparedFailTheClustersWithTheReason(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"}, []string{"c2"})
	w.fail["PreparePolicies"] = always(temporal.Error(temporal.ErrNotFound, "policy policies/kernel is not on the hub any more", nil))
	w.run()
	status := requireFailure[groupStatus](w.world, ranv1.ReasonFailed)
	for _, c := range status.Clusters {
		require.Equal(t, ranv1.ClusterFailed, c.State)
		require.Equal(t, temporal.ErrNotFound, c.Reason)
		require.Equal(t, "policy policies/kernel is not on the hub any more", c.Message)
	}
	require.Len(t, w.inputsOf("CleanUpPolicies"), 1, "some may have been made")
	require.Empty(t, w.inputsOf("PlacePolicies"))
}

func TestWhatIsKeptButCouldNotBeTakenOffAClusterIsNoted(t *testing.T) {
	w := newPolicyWorld(t, []string{"c1"})
	w.fail["PlacePolicies"] = func(call int) error {
		if call < 3 {
			return nil
		}
		return errors.New("the hub does not answer")
	}
	w.run(func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	})
	require.Equal(t, []string{"the objects of the rollout on the hub were kept, but could not be removed from c1, where they still take effect"}, requireResult[groupStatus](w.world).Notes)
}

func TestWhatWasMadeIsKeptOnlyAfterSuccessAndOnRequest(t *testing.T) {
	keep := func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.Actions.AfterCompletion = &ranv1.AfterCompletion{DeleteObjects: new(false)}
	}
	w := newPolicyWorld(t, []string{"c1"})
	play(w.world, "ChangedPolicies", func(in activities.PolicyRollout) any {
		require.Len(t, in.Pins, 2)
		return []int{1}
	})
	w.run(keep)
	notes := requireResult[groupStatus](w.world).Notes
	require.Len(t, notes, 1)
	require.Contains(t, notes[0], "policy policies/network has been changed, or deleted, since the rollout began with its generation 3", "as where nothing is kept")
	require.Empty(t, w.inputsOf("CleanUpPolicies"))
	w.requireNothingEnforced()

	w = newPolicyWorld(t, []string{"c1"})
	w.fail["ChangedPolicies"] = always(errors.New("the hub does not answer"))
	w.run(keep)
	require.Equal(t, []string{"could not check whether policies were changed during the rollout: the hub does not answer"}, requireResult[groupStatus](w.world).Notes)

	w = newPolicyWorld(t, []string{"c1"})
	w.compliance["c1"] = []byte("--")
	w.run(keep)
	requireFailure[groupStatus](w.world, ranv1.ReasonFailed)
	require.Len(t, w.inputsOf("CleanUpPolicies"), 1)
}

func TestARetryEnforcesTheSamePoliciesOnWhatTimedOut(t *testing.T) {
	first := newPolicyWorld(t, []string{"c1", "c2"})
	first.takes = func(cluster string, policy int) time.Duration {
		if cluster == "c2" && policy == 1 {
			return -1
		}
		return time.Minute
	}
	first.run()
	over := requireFailure[groupStatus](first.world, ranv1.ReasonTimedOut)
	planned := first.inputsOf("PreparePolicies")[0].(activities.PolicyRollout)
	next, err := rollout.Retry(over, nil, rollout.RetryRequest{})
	require.NoError(t, err)

	w := newPolicyWorld(t, []string{"c1", "c2"})
	w.compliance = map[string][]byte{"c1": []byte("CC"), "c2": []byte("CN")}
	object := policyRollout()
	w.recalledRollout = activities.LoadedRollout{Object: object}
	w.recalledRollout.Object.Status = next
	w.ExecuteWorkflow(ClusterGroupUpgrade, ClusterGroupUpgradeInput{
		Object: ranv1.ClusterGroupUpgrade{ObjectMeta: object.ObjectMeta}, Retry: &rollout.RetryRequest{},
	})
	status := requireResult[groupStatus](w.world)
	require.Equal(t, ranv1.ClusterCounts{Total: 2, Complete: 2}, status.Counts)
	require.Equal(t, planned.Policies, w.inputsOf("PreparePolicies")[0].(activities.PolicyRollout).Policies, "by name and namespace")
	require.Equal(t, []policies.DesiredPlacement{{Item: 1, Clusters: []string{"c2"}}}, w.inputsOf("PlacePolicies")[0].(activities.PlacePoliciesInput).Desired)
}
