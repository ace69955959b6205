package workflows

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// hubWorld plays a hub whose clusters become Available, and their rollouts.
type hubWorld struct {
	*world
	rollouts *children
	// isNew are the clusters that are to be onboarded, with their policies.
	isNew map[string][]string
	// settled are those that failed and of which something new is known.
	settled []string
	started []ranv1.ClusterGroupUpgrade
	// watching is the wait for new clusters that is under way, by one that knows those.
	watching   []byte
	watchedFor activities.AwaitNewClustersInput
}

func newHubWorld(t *testing.T) *hubWorld {
	h := &hubWorld{world: newWorld(t), rollouts: newChildren(), isNew: map[string][]string{}}
	h.registerAs(temporal.ClusterGroupUpgrade, func(ctx workflow.Context, in ClusterGroupUpgradeInput) error {
		h.started = append(h.started, in.Object)
		err := h.rollouts.run(ctx, in.Object.Name)
		if err == nil {
			h.mu.Lock()
			defer h.mu.Unlock()
			delete(h.isNew, in.Object.Name) // it is labelled
		}
		return err
	})
	h.RegisterActivityWithOptions(func(ctx context.Context, in activities.AwaitNewClustersInput) (activities.NewClusters, error) {
		h.mu.Lock()
		defer h.mu.Unlock()
		found, any := h.look(in)
		if !any {
			h.watching, h.watchedFor = activity.GetInfo(ctx).TaskToken, in
			return found, activity.ErrResultPending
		}
		return found, nil
	}, activity.RegisterOptions{Name: "AwaitNewClusters"})
	play(h.world, "AwaitRollout", func(run activities.RolloutRun) any {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.isNew, run.Name) // it is labelled
		return activities.RolloutEnd{Succeeded: true}
	})
	return h
}

// look is what the hub shows to one that knows these clusters.
func (h *hubWorld) look(in activities.AwaitNewClustersInput) (found activities.NewClusters, any bool) {
	for _, name := range h.settled {
		if slices.Contains(in.Failed, name) {
			found.Settled = append(found.Settled, name)
		}
	}
	for name, policies := range h.isNew {
		if !slices.Contains(in.AtWork, name) && !slices.Contains(in.Failed, name) && len(found.Found) < 100 {
			found.Found = append(found.Found, activities.NewCluster{Name: name, Policies: policies})
		}
	}
	slices.SortFunc(found.Found, func(a, b activities.NewCluster) int { return strings.Compare(a.Name, b.Name) })
	return found, len(found.Found)+len(found.Settled) > 0
}

// change changes what the hub has. Who watches it sees that.
func (h *hubWorld) change(change func()) {
	h.mu.Lock()
	change()
	token := h.watching
	found, any := h.look(h.watchedFor)
	h.mu.Unlock()
	if any && token != nil {
		require.NoError(h.t, h.CompleteActivity(token, found, nil))
	}
}

// available makes clusters new to the hub.
func (h *hubWorld) available(names ...string) {
	h.change(func() {
		for _, name := range names {
			h.isNew[name] = nil
		}
	})
}

// onboard runs the workflow until it is cancelled after that time.
func (h *hubWorld) onboard(until time.Duration) OnboardingStatus {
	h.t.Helper()
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, until)
	h.ExecuteWorkflow(Onboarding, OnboardingInput{})
	return requireCancelled[OnboardingStatus](h.world)
}

func TestEachNewClusterGetsARolloutOfItsPolicies(t *testing.T) {
	h := newHubWorld(t)
	h.isNew["c1"], h.isNew["c2"] = []string{"first", "second"}, nil
	status := h.onboard(time.Hour)

	require.Equal(t, 2, status.Onboarded)
	require.Empty(t, status.Clusters)
	require.Len(t, h.started, 2, "once each")
	for _, object := range h.started {
		require.Equal(t, "ztp-install", object.Namespace)
		if object.Name == "c1" {
			require.Equal(t, []string{"first", "second"}, object.Spec.ManagedPolicies)
		}
	}
}

func TestAClusterThatIsToBeOnboardedAgainIs(t *testing.T) {
	h := newHubWorld(t)
	h.available("c1")
	h.RegisterDelayedCallback(func() { h.available("c1") }, time.Hour)
	h.RegisterDelayedCallback(func() { h.available("c2") }, 2*time.Hour)
	require.Equal(t, 3, h.onboard(3*time.Hour).Onboarded)
}

func TestAFailedOnboardingIsSeenAndNotRepeatedBeforeSomethingNewIsKnown(t *testing.T) {
	h := newHubWorld(t)
	h.available("c1", "c2")
	h.rollouts.ends["c1"] = clusterFails
	h.RegisterDelayedCallback(func() {
		status := statusOf[OnboardingStatus](h.world)
		require.Equal(t, 1, status.Onboarded)
		require.Len(t, status.Clusters, 1)
		require.Equal(t, OnboardingFailed, status.Clusters[0].State)
		require.Equal(t, "JobFailed: node w0: exit code 3", status.Clusters[0].Reason+": "+status.Clusters[0].Message)
		require.Len(t, h.started, 2)
		delete(h.rollouts.ends, "c1")
		h.change(func() { h.settled = []string{"c1"} })
	}, time.Hour)
	status := h.onboard(2 * time.Hour)
	require.Equal(t, 2, status.Onboarded)
	require.Empty(t, status.Clusters)
}

func TestAClusterWhosePoliciesCannotBeOrderedHasFailed(t *testing.T) {
	w := newWorld(t)
	told := false
	beside(w, "AwaitNewClusters", func(activities.AwaitNewClustersInput) (any, bool) {
		first := !told
		told = true
		return activities.NewClusters{Found: []activities.NewCluster{{Name: "c1", Problem: "policy p: no whole number"}}}, first
	})
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) }, time.Hour)
	w.ExecuteWorkflow(Onboarding, OnboardingInput{})
	status := requireCancelled[OnboardingStatus](w)
	require.Equal(t, "policy p: no whole number", status.Clusters[0].Message)
	require.Equal(t, "stopped by ann", status.Message)
}

func TestHundredsOfClustersAreOnboardedNotAllAtOnce(t *testing.T) {
	h := newHubWorld(t)
	for i := range onboardedAtOnce + 50 {
		h.available(fmt.Sprintf("c%03d", i))
	}
	status := h.onboard(24 * time.Hour)
	require.Equal(t, onboardedAtOnce+50, status.Onboarded)
	require.Equal(t, onboardedAtOnce, h.rollouts.most)
	require.Len(t, h.started, onboardedAtOnce+50)
}

func TestARolloutThatSomebodyElseHasStartedIsFollowed(t *testing.T) {
	w := newWorld(t)
	play(w, "AwaitRollout", func(activities.RolloutRun) any { return activities.RolloutEnd{Reason: "TimedOut", Message: "too long"} })
	beside(w, "AwaitNewClusters", func(activities.AwaitNewClustersInput) (any, bool) { return nil, false })
	w.RegisterDelayedCallback(func() { w.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
	carried := &OnboardingStatus{Onboarded: 7, Clusters: []OnboardingCluster{{Name: "c1", State: OnboardingRunning, RunID: "run-1"}}}
	w.ExecuteWorkflow(Onboarding, OnboardingInput{Carried: carried})
	status := requireCancelled[OnboardingStatus](w)
	require.Equal(t, []any{activities.RolloutRun{Namespace: "ztp-install", Name: "c1", RunID: "run-1"}}, w.inputsOf("AwaitRollout"))
	require.Equal(t, OnboardingFailed, status.Clusters[0].State, "a run follows what the one before has started")
	require.Equal(t, 7, status.Onboarded)
}

func TestAHubThatCannotBeWatchedIsSaidAndTriedAgain(t *testing.T) {
	away := true
	w := newWorld(t)
	play(w, "AwaitNewClusters", func(activities.AwaitNewClustersInput) any { return activities.NewClusters{} })
	w.fail["AwaitNewClusters"] = func(int) error {
		if away {
			return temporal.Error(temporal.ErrNotFound, "there is no hub", errors.New("x"))
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, "there is no hub", statusOf[OnboardingStatus](w).Wait.Message)
		away = false
		w.blocked["AwaitNewClusters"] = true
	}, 10*time.Second)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, statusOf[OnboardingStatus](w).Wait)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, time.Minute)
	w.ExecuteWorkflow(Onboarding, OnboardingInput{})
	requireCancelled[OnboardingStatus](w)
}

// The attempt that gets through to the hub again waits, and says nothing. A watch that is begun anew says nothing of that outage any more.
func TestAHubThatAnswersAgainIsNotSaidToBeAwayByTheNextWatch(t *testing.T) {
	w := newWorld(t)
	away := true
	play(w, "AwaitNewClusters", func(activities.AwaitNewClustersInput) any { return activities.NewClusters{} })
	w.fail["AwaitNewClusters"] = func(int) error {
		if away {
			return temporal.Error(temporal.ErrClusterUnreachable, "its API server does not answer", nil)
		}
		return nil
	}
	w.RegisterDelayedCallback(func() {
		require.Equal(t, temporal.ErrClusterUnreachable, statusOf[OnboardingStatus](w).Wait.Reason)
		away = false
		w.blocked["AwaitNewClusters"] = true
	}, 2*time.Minute)
	w.RegisterDelayedCallback(func() {
		w.UpdateWorkflow(temporal.UpdateRetry, "again", &testsuite.TestUpdateCallback{
			OnAccept:   func() {},
			OnReject:   func(err error) { require.NoError(t, err) },
			OnComplete: func(_ any, err error) { require.NoError(t, err) },
		}, OnboardingRetry{Clusters: []string{"c1"}})
	}, time.Hour)
	w.RegisterDelayedCallback(func() {
		require.Nil(t, statusOf[OnboardingStatus](w).Wait)
		w.SignalWorkflow(temporal.SignalCancel, nil)
	}, 2*time.Hour)
	w.ExecuteWorkflow(Onboarding, OnboardingInput{Carried: &OnboardingStatus{Clusters: []OnboardingCluster{{Name: "c1", State: OnboardingFailed}}}})
	requireCancelled[OnboardingStatus](w)
}

func TestAFailedClusterIsOnboardedAgainWhenSomebodyAsks(t *testing.T) {
	h := newHubWorld(t)
	h.available("c1", "c2")
	h.rollouts.ends["c1"] = clusterFails
	var refused []error
	h.RegisterDelayedCallback(func() {
		delete(h.rollouts.ends, "c1")
		for _, clusters := range [][]string{{}, {"c1", "c2", "c3"}, {"c1"}} {
			h.UpdateWorkflow(temporal.UpdateRetry, fmt.Sprint(clusters), &testsuite.TestUpdateCallback{
				OnAccept:   func() {},
				OnReject:   func(err error) { refused = append(refused, err) },
				OnComplete: func(_ any, err error) { require.NoError(t, err) },
			}, OnboardingRetry{Actor: "ann", Clusters: clusters})
		}
	}, time.Hour)
	status := h.onboard(2 * time.Hour)
	require.Equal(t, 2, status.Onboarded)
	require.Empty(t, status.Clusters)
	require.Len(t, h.started, 3)
	require.Len(t, refused, 2)
	require.ErrorContains(t, refused[0], "clusters: name at least one")
	require.ErrorContains(t, refused[1], "clusters: not among those that failed: c2, c3")
}

func TestThousandsOfFailedClustersFitIntoTheNextRun(t *testing.T) {
	w := newWorld(t)
	w.ExecuteWorkflow(func(ctx workflow.Context, _ string) (OnboardingStatus, error) {
		r := newOnboardingRecord(ctx, nil)
		for i := range 10_000 {
			c := OnboardingCluster{Name: fmt.Sprintf("edge-site-%05d.example", i), Since: metav1.NewTime(workflow.Now(ctx))}
			r.fail(&c, ranv1.ReasonTimedOut, strings.Repeat("a long story ", 100))
			r.status.Clusters = append(r.status.Clusters, c)
		}
		return r.status, nil
	}, "")
	status := requireResult[OnboardingStatus](w)
	require.Equal(t, 10_000, status.Count(OnboardingFailed))
	text, err := json.Marshal(OnboardingInput{Carried: &status})
	require.NoError(t, err)
	require.Less(t, len(text), 2<<20)
	require.NotEmpty(t, status.Clusters[failuresExplained-1].Message)
	require.Empty(t, status.Clusters[failuresExplained].Message)
}
