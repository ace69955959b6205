package workflows

import (
	"context"
	"errors"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"

	"drydock.dev/drydock/activities"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
)

// harborWorld plays a cluster with a HarborCluster. What is applied is there at once, and ready as the test says.
type harborWorld struct {
	*world
	// object is the HarborCluster; nil: there is none.
	object *goharborv1.HarborCluster
	held   bool
	// there are the parts that were applied; down are those of them that are not ready.
	there, down map[harbor.Part]bool
	// edits is how often somebody has changed what was applied.
	edits map[harbor.Part]string
	// said are the words of the object's status, one after the other.
	said []goharborv1.ClusterStatus
	// begun and ended are the parts whose applying has, in order, and times when it has first. Slow ones take a second, and ten minutes to be removed.
	begun, ended []harbor.Part
	times        map[harbor.Part][]time.Time
	slow         map[harbor.Part]bool
	// hangs is how long applying a part takes that hangs. Its activity says so after a while.
	hangs   map[harbor.Part]time.Duration
	refused map[harbor.Part]error
	// undone: somebody undoes at once what is written of the object's status and finalizer.
	undone  bool
	removed []harbor.Part
	// foreign are objects that removing a part leaves.
	foreign map[harbor.Part]string
	// watching is the look that is under way, by one that knows this.
	watching   []byte
	watchedFor activities.AwaitHarborDueInput
}

func newHarborWorld(t *testing.T) *harborWorld {
	h := &harborWorld{
		world: newWorld(t), object: wholeHarborCluster(t), there: map[harbor.Part]bool{}, down: map[harbor.Part]bool{}, edits: map[harbor.Part]string{},
		slow: map[harbor.Part]bool{}, hangs: map[harbor.Part]time.Duration{}, refused: map[harbor.Part]error{}, times: map[harbor.Part][]time.Time{},
	}
	h.RegisterActivityWithOptions(h.awaitDue, activity.RegisterOptions{Name: "AwaitHarborDue"})
	h.RegisterActivityWithOptions(h.applyPart, activity.RegisterOptions{Name: "ApplyHarborPart"})
	play(h.world, "HoldHarborCluster", func(activities.HarborRef) any {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held = true
		if h.undone {
			h.after(0, func() { h.held = false })
		}
		return nil
	})
	play(h.world, "ReleaseHarborCluster", func(activities.ReleaseHarborClusterInput) any {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.held = false
		return nil
	})
	play(h.world, "WriteHarborStatus", func(in activities.WriteHarborStatusInput) any {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.object.Status = in.Status
		if len(h.said) == 0 || h.said[len(h.said)-1] != in.Status.Status {
			h.said = append(h.said, in.Status.Status)
		}
		if h.undone {
			h.after(0, func() { h.object.Status = goharborv1.HarborClusterStatus{} })
		}
		return nil
	})
	h.RegisterActivityWithOptions(h.removePart, activity.RegisterOptions{Name: "RemoveHarborPart"})
	play(h.world, "ApplyHarborCluster", func(in activities.ApplyHarborClusterInput) any {
		h.change(func() {
			generation := int64(1)
			if h.object != nil {
				generation = h.object.Generation + 1
			}
			h.object, h.held = in.Object.DeepCopy(), true
			h.object.UID, h.object.Generation = "uid-1", generation
		})
		h.mu.Lock()
		defer h.mu.Unlock()
		return activities.ApplyHarborClusterResult{Generation: h.object.Generation}
	})
	play(h.world, "DeleteHarborCluster", func(activities.HarborRef) any {
		h.change(func() { h.object.DeletionTimestamp, h.held = &metav1.Time{Time: h.Now()}, true })
		return nil
	})
	return h
}

func wholeHarborCluster(t *testing.T) *goharborv1.HarborCluster {
	t.Helper()
	text, err := os.ReadFile("../internal/harbor/testdata/incluster.yaml")
	require.NoError(t, err)
	objects, err := manifest.Decode("incluster.yaml", text)
	require.NoError(t, err)
	hc := objects[0].(*goharborv1.HarborCluster)
	hc.UID, hc.Generation = "uid-1", 1
	return hc
}

// applyPart applies a part to the played cluster.
func (h *harborWorld) applyPart(ctx context.Context, in activities.ApplyHarborPartInput) (harbor.Applied, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	require.Equal(h.t, count(h.begun, in.Part), count(h.ended, in.Part), "%s is applied twice at once", in.Part)
	h.begun = append(h.begun, in.Part)
	h.times[in.Part] = append(h.times[in.Part], h.Now())
	end := func() (harbor.Applied, error) {
		h.ended = append(h.ended, in.Part)
		h.times[in.Part] = append(h.times[in.Part], h.Now())
		if err := h.refused[in.Part]; err != nil {
			return harbor.Applied{}, err
		}
		h.there[in.Part] = true
		h.edits[in.Part] = "ours"
		return harbor.Applied{Wanted: in.Wanted, Versions: map[string]string{string(in.Part): "ours"}, At: h.Now()}, nil
	}
	takes := h.hangs[in.Part]
	switch {
	case takes > 0:
		h.RegisterDelayedCallback(func() {
			h.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "ApplyHarborPart", Part: string(in.Part)})
		}, hangSaidAfter)
	case h.slow[in.Part]:
		takes = time.Second
	default:
		return end()
	}
	token := activity.GetInfo(ctx).TaskToken
	h.RegisterDelayedCallback(func() {
		h.mu.Lock()
		applied, err := end()
		h.mu.Unlock()
		require.NoError(h.t, h.CompleteActivity(token, applied, err))
	}, takes)
	return harbor.Applied{}, activity.ErrResultPending
}

// hangSaidAfter is after how long an activity says that applying a part hangs.
const hangSaidAfter = 2500 * time.Millisecond

// awaitDue returns what is due, or will be.
func (h *harborWorld) awaitDue(ctx context.Context, in activities.AwaitHarborDueInput) (harbor.Look, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.inputs["AwaitHarborDue"] = append(h.inputs["AwaitHarborDue"], in)
	look := h.look(in)
	if look.Due() {
		return look, nil
	}
	h.watching, h.watchedFor = activity.GetInfo(ctx).TaskToken, in
	h.lookAgain(look)
	return look, activity.ErrResultPending
}

// lookAgain looks again when time alone makes something due.
func (h *harborWorld) lookAgain(look harbor.Look) {
	if again := look.Again(); again != nil {
		h.simulateAfter(again.Sub(h.Now()), func() { h.change(func() {}) })
	}
}

// look is what the played cluster shows to one that knows this.
func (h *harborWorld) look(in activities.AwaitHarborDueInput) harbor.Look {
	if h.object == nil {
		return harbor.LookAt(nil, harbor.Seen{}, in.UID, in.Known, h.Now())
	}
	hc := h.object.DeepCopy()
	if h.held {
		hc.Finalizers = []string{harbor.Finalizer}
	}
	seen := harbor.Seen{Observed: h.observed(), Versions: map[string]string{}}
	for part, version := range h.edits {
		seen.Versions[string(part)] = version
	}
	return harbor.LookAt(hc, seen, in.UID, in.Known, h.Now())
}

// removePart removes a part from the played cluster.
func (h *harborWorld) removePart(ctx context.Context, in activities.RemoveHarborPartInput) (activities.RemoveHarborPartResult, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.removed = append(h.removed, in.Part)
	result := activities.RemoveHarborPartResult{Foreign: h.foreign[in.Part], Gone: h.object == nil}
	if err := h.refused[in.Part]; err != nil || !h.slow[in.Part] {
		return result, err
	}
	token := activity.GetInfo(ctx).TaskToken
	h.RegisterDelayedCallback(func() { require.NoError(h.t, h.CompleteActivity(token, result, nil)) }, 10*time.Minute)
	return result, activity.ErrResultPending
}

// observed are the objects of the services, each there once it is applied, and ready unless it is down.
func (h *harborWorld) observed() harbor.Observed {
	o := harbor.Observed{Secrets: map[string]bool{}, Failures: map[goharborv1.ConditionType]harbor.Failure{}}
	object := func(name string, status map[string]any) *unstructured.Unstructured {
		made := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		made.SetName(name)
		made.SetCreationTimestamp(metav1.NewTime(h.Now()))
		return made
	}
	if h.there[harbor.PartDatabase] {
		o.Postgresql = object("db", map[string]any{"PostgresClusterStatus": map[bool]string{true: "Updating", false: "Running"}[h.down[harbor.PartDatabase]]})
		o.Secrets["harbor.db.credentials"] = true
	}
	if h.there[harbor.PartCache] {
		three, ready := int32(3), int32(3)
		if h.down[harbor.PartCache] {
			ready = 2
		}
		o.RedisFailover = object("main-redis", nil)
		o.RedisServers = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: appsv1.StatefulSetStatus{ReadyReplicas: ready}}
		o.Sentinels = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: appsv1.DeploymentStatus{ReadyReplicas: 3}}
	}
	if h.there[harbor.PartStorage] {
		state := map[bool]string{true: "Waiting", false: "Initialized"}[h.down[harbor.PartStorage]]
		o.Tenant = object("minio-main", map[string]any{"currentState": state, "availableReplicas": int64(2), "pools": []any{map[string]any{"state": "PoolInitialized"}}})
	}
	if h.there[harbor.PartBucket] {
		o.BucketJob = &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	}
	if h.there[harbor.PartHarbor] {
		status := map[bool]string{true: "True", false: "False"}[h.down[harbor.PartHarbor]]
		o.Harbor = object("main-harbor", map[string]any{"conditions": []any{
			map[string]any{"type": "Failed", "status": status, "reason": "Broken"}, map[string]any{"type": "InProgress", "status": "False"},
		}})
	}
	return o
}

// change changes what there is in the cluster. Who watches it sees that.
func (h *harborWorld) change(change func()) {
	h.mu.Lock()
	change()
	token, look := h.watching, h.look(h.watchedFor)
	if look.Due() {
		h.watching = nil
	} else {
		h.lookAgain(look)
	}
	h.mu.Unlock()
	if look.Due() && token != nil {
		require.NoError(h.t, h.CompleteActivity(token, look, nil))
	}
}

// after changes what there is in the cluster after that time.
func (h *harborWorld) after(delay time.Duration, change func()) {
	h.RegisterDelayedCallback(func() { h.change(change) }, delay)
}

func (h *harborWorld) keep(until time.Duration) HarborClusterStatus {
	h.t.Helper()
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) }, until)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	return requireCancelled[HarborClusterStatus](h.world)
}

func theHarborCluster() HarborClusterInput {
	return HarborClusterInput{Cluster: "c1", Namespace: "registry", Name: "main"}
}

func TestAHarborComesUpAfterItsServicesAndIsLeftAsItIsWhenNobodyKeepsIt(t *testing.T) {
	h := newHarborWorld(t)
	status := h.keep(time.Hour)
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
	require.Equal(t, []goharborv1.ClusterStatus{goharborv1.StatusCreating, goharborv1.StatusHealthy}, h.said)
	require.ElementsMatch(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}, h.begun[:3])
	require.Equal(t, []harbor.Part{harbor.PartBucket, harbor.PartHarbor}, h.begun[3:], "once each")
	require.Empty(t, h.removed)
	require.False(t, h.held, "who deletes it need not wait for us")
	require.Equal(t, HarborLeft, status.State)
	require.Equal(t, []string{"cancelled by ann: nobody keeps it any more"}, status.Notes)
}

func TestAServiceThatIsSlowOrRefusedHoldsUpNoOther(t *testing.T) {
	h := newHarborWorld(t)
	h.slow[harbor.PartCache], h.slow[harbor.PartStorage] = true, true
	h.refused[harbor.PartDatabase] = temporal.Error(temporal.ErrInvalidSpec, "postgresql is refused", nil)
	h.refused[harbor.PartStorage] = errors.New("the server is full")
	h.RegisterDelayedCallback(func() {
		status := statusOf[HarborClusterStatus](h.world)
		require.Contains(t, status.Failures, "database: postgresql is refused")
		require.Contains(t, status.Failures, "storage: the server is full")
	}, 3*time.Second)
	h.RegisterDelayedCallback(func() {
		status := statusOf[HarborClusterStatus](h.world)
		require.Equal(t, goharborv1.StatusUnhealthy, status.Harbor.Status)
		require.Equal(t, metav1.ConditionFalse, conditionIn(status, goharborv1.DatabaseReady).Status)
		require.Contains(t, conditionIn(status, goharborv1.DatabaseReady).Message, "postgresql is refused")
		require.Equal(t, metav1.ConditionTrue, conditionIn(status, goharborv1.CacheReady).Status, "what is known of the others stays")
		require.NotContains(t, h.begun, harbor.PartHarbor)
	}, time.Minute)
	h.after(2*time.Minute, func() {
		clear(h.refused)
		h.object.Spec.Database.Spec.Zalando.Version = "16"
		h.object.Spec.Storage.Spec.MinIO.VolumesPerServer = 8
		h.object.Generation++
	})
	require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
	require.ElementsMatch(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}, h.begun[:3])
	require.Equal(t, harbor.PartDatabase, h.ended[0], "what fails cancels nothing: the others ended later")
	for _, a := range h.begun[:3] {
		for _, b := range h.begun[:3] {
			require.False(t, h.times[a][0].After(h.times[b][1]), "%s began when %s was over", a, b)
		}
	}
	require.Equal(t, time.Second, h.times[harbor.PartCache][1].Sub(h.times[harbor.PartCache][0]))
}

func TestAFailureIsForgottenWithWhatCouldNotBeApplied(t *testing.T) {
	h := newHarborWorld(t)
	h.refused[harbor.PartCache] = temporal.Error(temporal.ErrInvalidSpec, "RedisFailover is refused", nil)
	h.after(time.Minute, func() {
		h.object.Spec.Cache = goharborv1.Cache{
			Kind: goharborv1.ExternalRedis, Spec: goharborv1.CacheSpec{Redis: &runtime.RawExtension{Raw: []byte(`{"host":"redis","port":6379}`)}},
		}
		h.object.Generation++
	})
	status := h.keep(time.Hour)
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
	require.Empty(t, status.Failures)
}

func conditionIn(status HarborClusterStatus, kind goharborv1.ConditionType) goharborv1.HarborClusterCondition {
	i := slices.IndexFunc(status.Harbor.Conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Type == kind })
	if i < 0 {
		return goharborv1.HarborClusterCondition{}
	}
	return status.Harbor.Conditions[i]
}

func TestTheStatusFollowsTheServicesAndHarborIsLookedAtAlsoWhileItMayNotBeApplied(t *testing.T) {
	h := newHarborWorld(t)
	h.after(time.Minute, func() { h.down[harbor.PartDatabase] = true })
	h.after(2*time.Minute, func() {
		h.down[harbor.PartHarbor] = true
		h.object.Spec.Version = "2.6.0"
		h.object.Generation++
	})
	h.RegisterDelayedCallback(func() {
		status := statusOf[HarborClusterStatus](h.world)
		require.Equal(t, "Broken", conditionIn(status, goharborv1.ServiceReady).Reason)
		require.Equal(t, int64(2), conditionIn(status, goharborv1.ServiceReady).ObservedGeneration)
		require.Equal(t, 1, count(h.begun, harbor.PartHarbor), "it is not applied while the database is down")
	}, 3*time.Minute)
	h.after(4*time.Minute, func() { clear(h.down) })
	status := h.keep(time.Hour)
	require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy", "unhealthy", "creating", "healthy"}, h.said, "not healthy before the new version is applied")
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
	require.Equal(t, 2, count(h.begun, harbor.PartHarbor))
}

func count(parts []harbor.Part, part harbor.Part) int {
	return len(slices.DeleteFunc(slices.Clone(parts), func(p harbor.Part) bool { return p != part }))
}

func TestWhatSomebodyChangesIsPutRight(t *testing.T) {
	h := newHarborWorld(t)
	h.after(time.Minute, func() { h.edits[harbor.PartCache] = "theirs" })
	h.after(2*time.Minute, func() { h.object.Status = goharborv1.HarborClusterStatus{} })
	h.after(3*time.Minute, func() { h.held = false })
	h.RegisterDelayedCallback(func() { require.True(t, h.held) }, 4*time.Minute)
	h.keep(time.Hour)
	require.Equal(t, 2, count(h.begun, harbor.PartCache))
	require.Equal(t, 1, count(h.begun, harbor.PartDatabase))
	require.Equal(t, goharborv1.StatusHealthy, h.object.Status.Status)
}

func TestAnObjectThatIsMadeAnewBeginsAnew(t *testing.T) {
	h := newHarborWorld(t)
	h.after(time.Minute, func() {
		h.object.UID, h.object.Status = "uid-2", goharborv1.HarborClusterStatus{}
		clear(h.there)
	})
	status := h.keep(time.Hour)
	require.Equal(t, 2, count(h.begun, harbor.PartDatabase))
	require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy", "creating", "healthy"}, h.said, "never unhealthy: nothing was ready before")
	require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
}

// answerTo asks the workflow for a change.
func answerTo(h *harborWorld, update string, payload any) *string {
	said := "no answer"
	h.UpdateWorkflow(update, "", &testsuite.TestUpdateCallback{
		OnAccept: func() {},
		OnReject: func(err error) { said = "rejected: " + err.Error() },
		OnComplete: func(_ any, err error) {
			said = "done"
			if err != nil {
				said = temporal.ErrorMessage(err)
			}
		},
	}, payload)
	return &said
}

func TestAHarborClusterIsAppliedChangedAndDeletedByRequest(t *testing.T) {
	h := newHarborWorld(t)
	wanted := *h.object
	h.object = nil
	var made, wrong, changed, deleted *string
	h.RegisterDelayedCallback(func() { made = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: wanted}) }, 0)
	h.RegisterDelayedCallback(func() {
		other := *wanted.DeepCopy()
		other.Name = "other"
		wrong = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: other})
		other = *wanted.DeepCopy()
		other.Spec.Version = "2.6.0"
		changed = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: other})
	}, time.Minute)
	h.RegisterDelayedCallback(func() { deleted = answerTo(h, temporal.UpdateDelete, temporal.SignalRequest{Actor: "ann"}) }, time.Hour)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	status := requireResult[HarborClusterStatus](h.world)

	require.Equal(t, []string{"done", "done", "done"}, []string{*made, *changed, *deleted})
	require.Contains(t, *wrong, "rejected: object: is HarborCluster registry/other, not registry/main")
	require.Equal(t, 2, count(h.begun, harbor.PartHarbor))
	require.Equal(t, harbor.PartHarbor, h.removed[0], "Harbor goes before what it needs")
	require.ElementsMatch(t, []harbor.Part{harbor.PartDatabase, harbor.PartCache, harbor.PartStorage}, h.removed[1:])
	require.False(t, h.held)
	require.Equal(t, HarborDeleted, status.State)
	require.Equal(t, []string{"deleted by ann", "what belonged to it is removed; its data: Retain"}, status.Notes)
}

func TestNothingIsAppliedOrRemovedWhileTheClusterIsHeldAndTheStatusSaysSo(t *testing.T) {
	h := newHarborWorld(t)
	stop := emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}}}
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalHeld, stop) }, time.Minute)
	h.after(2*time.Minute, func() {
		h.edits[harbor.PartCache] = "theirs"
		h.down[harbor.PartDatabase] = true
	})
	h.RegisterDelayedCallback(func() {
		status := statusOf[HarborClusterStatus](h.world)
		require.Equal(t, "flood", status.Held.Reason)
		require.Equal(t, goharborv1.StatusUnhealthy, status.Harbor.Status, "it is looked at")
		require.Equal(t, goharborv1.StatusUnhealthy, h.object.Status.Status)
		require.Equal(t, 1, count(h.begun, harbor.PartCache))
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
	}, 10*time.Minute)
	h.RegisterDelayedCallback(func() {
		require.Equal(t, 2, count(h.begun, harbor.PartCache))
		require.Nil(t, statusOf[HarborClusterStatus](h.world).Held)
		stop.Number = 4
		h.SignalWorkflow(temporal.SignalHeld, stop)
	}, 20*time.Minute)
	h.after(30*time.Minute, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.RegisterDelayedCallback(func() {
		require.Empty(t, h.removed)
		require.Equal(t, emergency.ReasonHeld, statusOf[HarborClusterStatus](h.world).Wait.Reason)
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 5})
	}, 40*time.Minute)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Equal(t, HarborDeleted, requireResult[HarborClusterStatus](h.world).State)
	require.Len(t, h.removed, 4)
}

func TestWhatFindsTheClusterHeldWhenItComesToBeAppliedIsNoFailureAndIsAppliedLater(t *testing.T) {
	h := newHarborWorld(t)
	h.after(time.Minute, func() { h.slow[harbor.PartCache], h.edits[harbor.PartCache] = true, "theirs" })
	h.RegisterDelayedCallback(func() {
		h.refused[harbor.PartCache] = temporal.Error(temporal.ErrHeld, "held by ann: flood", nil)
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 2, Holds: []drydockv1.Hold{{Scope: drydockv1.HoldAll, By: "ann", Reason: "flood"}}})
	}, time.Minute+time.Second/2)
	h.RegisterDelayedCallback(func() {
		status := statusOf[HarborClusterStatus](h.world)
		require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
		require.Empty(t, status.Failures)
		require.Nil(t, status.Wait)
		require.Equal(t, 2, count(h.begun, harbor.PartCache))
		clear(h.refused)
		h.SignalWorkflow(temporal.SignalHeld, emergency.State{Number: 3})
	}, 10*time.Minute)
	h.keep(time.Hour)
	require.Equal(t, 3, count(h.begun, harbor.PartCache))
	require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy"}, h.said)
}

func TestWhatIsLeftSinceItIsSomebodyElsesIsNoted(t *testing.T) {
	h := newHarborWorld(t)
	h.foreign = map[harbor.Part]string{harbor.PartCache: "RedisFailover registry/main-redis"}
	h.after(time.Minute, func() { h.object.DeletionTimestamp = &metav1.Time{Time: h.Now()} })
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Equal(t, "RedisFailover registry/main-redis is not of this HarborCluster: it was left, and so were the Secrets and the claims of the cache",
		requireResult[HarborClusterStatus](h.world).Notes[0])
}

func TestWhoeverAsksForAChangeWhileTheRunEndsIsToldToTryAgain(t *testing.T) {
	for _, together := range []bool{false, true} {
		h := newHarborWorld(t)
		h.fail["ReleaseHarborCluster"] = func(call int) error {
			if call < 3 {
				return errors.New("conflict")
			}
			return nil
		}
		cancel := h.SignalWorkflow
		if together {
			cancel = h.SignalWorkflowSkippingWorkflowTask
		}
		var said *string
		h.RegisterDelayedCallback(func() {
			cancel(temporal.SignalCancel, nil)
			said = answerTo(h, temporal.UpdateDelete, temporal.SignalRequest{})
		}, time.Minute)
		h.ExecuteWorkflow(HarborCluster, theHarborCluster())
		requireCancelled[HarborClusterStatus](h.world)
		require.Contains(t, *said, "the workflow is about to end: try again")
		require.Nil(t, h.object.DeletionTimestamp)
	}
}

func TestWhoeverAsksForAChangeOnAClusterThatIsNotFoundIsToldSo(t *testing.T) {
	h := newHarborWorld(t)
	h.fail["LocateCluster"] = always(temporal.Error(temporal.ErrNotFound, "there is no cluster spoke-9", nil))
	var said *string
	h.RegisterDelayedCallback(func() { said = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: *h.object.DeepCopy()}) }, 0)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	requireFailure[HarborClusterStatus](h.world, temporal.ErrNotFound)
	require.Equal(t, "there is no cluster spoke-9", *said)

	h = newHarborWorld(t)
	h.fail["LocateCluster"] = always(errors.New("the hub is away"))
	h.RegisterDelayedCallback(func() { said = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: *h.object.DeepCopy()}) }, 0)
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, time.Minute)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	requireCancelled[HarborClusterStatus](h.world)
	require.Equal(t, "the workflow is about to end: try again", *said)
}

func TestWithoutAnObjectThereIsNothingToKeep(t *testing.T) {
	h := newHarborWorld(t)
	wanted := *h.object
	h.object = nil
	h.fail["ApplyHarborCluster"] = always(temporal.Error(temporal.ErrInvalidSpec, "spec.version: invalid", nil))
	var made *string
	h.RegisterDelayedCallback(func() { made = answerTo(h, temporal.UpdateApply, HarborApplyRequest{Object: wanted}) }, 0)
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Equal(t, "spec.version: invalid", *made)
	require.Equal(t, HarborFailed, requireFailure[HarborClusterStatus](h.world, temporal.ErrNotFound).State)

	h = newHarborWorld(t)
	h.after(time.Minute, func() { h.object = nil })
	h.ExecuteWorkflow(HarborCluster, theHarborCluster())
	require.Contains(t, requireResult[HarborClusterStatus](h.world).Notes[0], "what belonged to it was left as it is")
	require.Empty(t, h.removed)
}

func TestAWorkerThatStopsAtAnyStepIsNoFailureOfTheHarbor(t *testing.T) {
	for _, step := range []string{"HoldHarborCluster", "WriteHarborStatus"} {
		h := newHarborWorld(t)
		h.fail[step] = func(call int) error {
			if call <= 3 {
				return sdktemporal.NewApplicationError("the worker stops", temporal.ErrHandedOver)
			}
			return nil
		}
		require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
		require.Equal(t, []goharborv1.ClusterStatus{"creating", "healthy"}, h.said)
	}
	for _, errType := range []string{temporal.ErrHandedOver, emergency.ReasonUnknown} {
		for _, part := range []harbor.Part{harbor.PartDatabase, harbor.PartBucket, harbor.PartHarbor} {
			h := newHarborWorld(t)
			h.refused[part] = sdktemporal.NewApplicationError("the worker stops, or hears nothing", errType)
			h.after(time.Minute, func() { clear(h.refused) })
			require.Equal(t, goharborv1.StatusHealthy, h.keep(time.Hour).Harbor.Status)
			require.NotContains(t, h.said, goharborv1.StatusUnhealthy)
			require.Less(t, count(h.begun, part), 30, "it is not tried all the time")
		}
	}
}

func TestAStatusThatMayNotBeWrittenIsNotTriedAllTheTimeAndIsSaid(t *testing.T) {
	h := newHarborWorld(t)
	h.fail["WriteHarborStatus"] = always(temporal.Error(temporal.ErrClusterUnreachable, "its API server forbids what we ask", nil))
	h.RegisterDelayedCallback(func() {
		status := statusOf[HarborClusterStatus](h.world)
		require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
		require.Equal(t, temporal.ErrClusterUnreachable, status.Wait.Reason)
	}, 2*time.Minute)
	h.keep(5 * time.Minute)
	require.Less(t, len(h.inputsOf("WriteHarborStatus")), 150)
}

func TestAHarborInManyRunsIsKeptAsInOne(t *testing.T) {
	in := theHarborCluster()
	before, runs := newHarborWorld(t), 0
	for more := true; more; {
		runs++
		h := newHarborWorld(t)
		h.object, h.there, h.edits, h.held, h.said, h.begun = before.object, before.there, before.edits, before.held, before.said, before.begun
		if runs < 6 {
			h.RegisterDelayedCallback(func() {
				h.SetContinueAsNewSuggested(true)
				h.change(func() { h.down[harbor.PartDatabase] = true })
			}, time.Minute)
		} else {
			h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, nil) }, time.Hour)
		}
		h.ExecuteWorkflow(HarborCluster, in)
		next := handedOn[HarborClusterInput](h.world)
		if more = next != nil; more {
			in, before = *next, h
			continue
		}
		status := requireCancelled[HarborClusterStatus](h.world)
		require.Equal(t, goharborv1.StatusHealthy, status.Harbor.Status)
		require.Len(t, h.begun, 5, "nothing is applied anew by a new run: %v", h.begun)
	}
	require.Equal(t, 6, runs)
}
