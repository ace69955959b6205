package workflowtest

import (
	"context"
	"os"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/activity"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	harboractivities "drydock.dev/drydock/activities/harbor"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
)

// HarborWorld simulates a cluster with a HarborCluster. Applied objects exist immediately, and are ready unless NotReady says otherwise.
type HarborWorld struct {
	*World
	// Object is the HarborCluster; nil: it does not exist.
	Object       *goharborv1.HarborCluster
	HasFinalizer bool
	// Applied are the parts that exist. Those in NotReady are not ready.
	Applied, NotReady map[harbor.Part]bool
	// Edits are the resource versions of the parts; another user's change sets another one.
	Edits map[harbor.Part]string
	// Statuses are the distinct statuses that were written, in order.
	Statuses []goharborv1.ClusterStatus
	// Started and Finished are the parts in the order in which their apply began and ended, Times all these instants. A part in Slow
	// takes a second to apply, and ten minutes to remove.
	Started, Finished []harbor.Part
	Times             map[harbor.Part][]time.Time
	Slow              map[harbor.Part]bool
	// Hangs is how long a hanging apply of a part takes. Its activity reports that after hangReportDelay.
	Hangs   map[harbor.Part]time.Duration
	Refused map[harbor.Part]error
	// Reverted: another controller immediately reverts changes of the status and the finalizer.
	Reverted bool
	Removed  []harbor.Part
	// Foreign are the objects of other owners that remain when a part is removed.
	Foreign map[harbor.Part]string
	// waitToken and waitInput are the call of AwaitHarborDue that waits.
	waitToken []byte
	waitInput harboractivities.AwaitDueInput
}

// NewHarborWorld returns a world with a HarborCluster and no applied part.
func NewHarborWorld(t *testing.T) *HarborWorld {
	h := &HarborWorld{
		World: NewWorld(t), Object: exampleHarborCluster(t), Applied: map[harbor.Part]bool{}, NotReady: map[harbor.Part]bool{}, Edits: map[harbor.Part]string{},
		Slow: map[harbor.Part]bool{}, Hangs: map[harbor.Part]time.Duration{}, Refused: map[harbor.Part]error{}, Times: map[harbor.Part][]time.Time{},
	}
	h.RegisterActivityWithOptions(h.awaitDue, activity.RegisterOptions{Name: "AwaitHarborDue"})
	h.RegisterActivityWithOptions(h.applyPart, activity.RegisterOptions{Name: "ApplyHarborPart"})
	Simulate(h.World, "AddHarborFinalizer", func(harboractivities.Ref) any {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		h.HasFinalizer = true
		if h.Reverted {
			h.ChangeAfter(0, func() { h.HasFinalizer = false })
		}
		return nil
	})
	Simulate(h.World, "RemoveHarborFinalizer", func(harboractivities.RemoveFinalizerInput) any {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		h.HasFinalizer = false
		return nil
	})
	Simulate(h.World, "WriteHarborStatus", func(in harboractivities.WriteStatusInput) any {
		h.Mu.Lock()
		defer h.Mu.Unlock()
		h.Object.Status = in.Status
		if len(h.Statuses) == 0 || h.Statuses[len(h.Statuses)-1] != in.Status.Status {
			h.Statuses = append(h.Statuses, in.Status.Status)
		}
		if h.Reverted {
			h.ChangeAfter(0, func() { h.Object.Status = goharborv1.HarborClusterStatus{} })
		}
		return nil
	})
	h.RegisterActivityWithOptions(h.removePart, activity.RegisterOptions{Name: "RemoveHarborPart"})
	Simulate(h.World, "ApplyHarborCluster", func(in harboractivities.ApplyClusterInput) any {
		h.Change(func() {
			generation := int64(1)
			if h.Object != nil {
				generation = h.Object.Generation + 1
			}
			h.Object, h.HasFinalizer = in.Object.DeepCopy(), true
			h.Object.UID, h.Object.Generation = "uid-1", generation
		})
		h.Mu.Lock()
		defer h.Mu.Unlock()
		return harboractivities.ApplyClusterResult{Generation: h.Object.Generation}
	})
	Simulate(h.World, "DeleteHarborCluster", func(harboractivities.Ref) any {
		h.Change(func() { h.Object.DeletionTimestamp, h.HasFinalizer = &metav1.Time{Time: h.Now()}, true })
		return nil
	})
	return h
}

func exampleHarborCluster(t *testing.T) *goharborv1.HarborCluster {
	t.Helper()
	text, err := os.ReadFile("../../internal/harbor/testdata/incluster.yaml")
	require.NoError(t, err)
	objects, err := manifest.Decode("incluster.yaml", text)
	require.NoError(t, err)
	hc := objects[0].(*goharborv1.HarborCluster)
	hc.UID, hc.Generation = "uid-1", 1
	return hc
}

// applyPart applies a part to the simulated cluster.
func (h *HarborWorld) applyPart(ctx context.Context, in harboractivities.ApplyPartInput) (harbor.Applied, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	require.Equal(h.T, Count(h.Started, in.Part), Count(h.Finished, in.Part), "%s is applied twice in parallel", in.Part)
	h.Started = append(h.Started, in.Part)
	h.Times[in.Part] = append(h.Times[in.Part], h.Now())
	end := func() (harbor.Applied, error) {
		h.Finished = append(h.Finished, in.Part)
		h.Times[in.Part] = append(h.Times[in.Part], h.Now())
		if err := h.Refused[in.Part]; err != nil {
			return harbor.Applied{}, err
		}
		h.Applied[in.Part] = true
		h.Edits[in.Part] = "ours"
		return harbor.Applied{Wanted: in.Wanted, Versions: map[string]string{string(in.Part): "ours"}, At: h.Now()}, nil
	}
	takes := h.Hangs[in.Part]
	switch {
	case takes > 0:
		h.RegisterDelayedCallback(func() {
			h.SignalWorkflow(temporal.SignalObserved, temporal.Observation{Activity: "ApplyHarborPart", Part: string(in.Part)})
		}, hangReportDelay)
	case h.Slow[in.Part]:
		takes = time.Second
	default:
		return end()
	}
	token := activity.GetInfo(ctx).TaskToken
	h.RegisterDelayedCallback(func() {
		h.Mu.Lock()
		applied, err := end()
		h.Mu.Unlock()
		require.NoError(h.T, h.CompleteActivity(token, applied, err))
	}, takes)
	return harbor.Applied{}, activity.ErrResultPending
}

// hangReportDelay is the time after which an activity reports that an apply hangs.
const hangReportDelay = 3600 * time.Millisecond

// awaitDue waits until something is due.
func (h *HarborWorld) awaitDue(ctx context.Context, in harboractivities.AwaitDueInput) (harbor.Plan, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Inputs["AwaitHarborDue"] = append(h.Inputs["AwaitHarborDue"], in)
	plan := h.evaluate(in)
	if plan.Due() {
		return plan, nil
	}
	h.waitToken, h.waitInput = activity.GetInfo(ctx).TaskToken, in
	h.scheduleEvaluation(plan)
	return plan, activity.ErrResultPending
}

// scheduleEvaluation evaluates the cluster again when a time makes an action due.
func (h *HarborWorld) scheduleEvaluation(plan harbor.Plan) {
	if again := plan.Again(); again != nil {
		h.SimulateAfter(again.Sub(h.Now()), func() { h.Change(func() {}) })
	}
}

// evaluate decides what is due on the simulated cluster.
func (h *HarborWorld) evaluate(in harboractivities.AwaitDueInput) harbor.Plan {
	if h.Object == nil {
		return harbor.PlanFor(nil, harbor.Seen{}, in.UID, in.Known, h.Now())
	}
	hc := h.Object.DeepCopy()
	if h.HasFinalizer {
		hc.Finalizers = []string{harbor.Finalizer}
	}
	seen := harbor.Seen{Observed: h.observed(), Versions: map[string]string{}}
	for part, version := range h.Edits {
		seen.Versions[string(part)] = version
	}
	return harbor.PlanFor(hc, seen, in.UID, in.Known, h.Now())
}

// removePart removes a part from the simulated cluster.
func (h *HarborWorld) removePart(ctx context.Context, in harboractivities.RemovePartInput) (harboractivities.RemovePartResult, error) {
	h.Mu.Lock()
	defer h.Mu.Unlock()
	h.Removed = append(h.Removed, in.Part)
	result := harboractivities.RemovePartResult{Foreign: h.Foreign[in.Part], Gone: h.Object == nil}
	if err := h.Refused[in.Part]; err != nil || !h.Slow[in.Part] {
		return result, err
	}
	token := activity.GetInfo(ctx).TaskToken
	h.RegisterDelayedCallback(func() { require.NoError(h.T, h.CompleteActivity(token, result, nil)) }, 10*time.Minute)
	return result, activity.ErrResultPending
}

// observed returns the objects of the applied parts.
func (h *HarborWorld) observed() harbor.Observed {
	o := harbor.Observed{Secrets: map[string]bool{}, Failures: map[goharborv1.ConditionType]harbor.Failure{}}
	object := func(name string, status map[string]any) *unstructured.Unstructured {
		made := &unstructured.Unstructured{Object: map[string]any{"status": status}}
		made.SetName(name)
		made.SetCreationTimestamp(metav1.NewTime(h.Now()))
		return made
	}
	if h.Applied[harbor.PartDatabase] {
		o.Postgresql = object("db", map[string]any{"PostgresClusterStatus": map[bool]string{true: "Updating", false: "Running"}[h.NotReady[harbor.PartDatabase]]})
		o.Secrets["harbor.db.credentials"] = true
	}
	if h.Applied[harbor.PartCache] {
		three, ready := int32(3), int32(3)
		if h.NotReady[harbor.PartCache] {
			ready = 2
		}
		o.RedisFailover = object("main-redis", nil)
		o.RedisServers = &appsv1.StatefulSet{Spec: appsv1.StatefulSetSpec{Replicas: &three}, Status: appsv1.StatefulSetStatus{ReadyReplicas: ready}}
		o.Sentinels = &appsv1.Deployment{Spec: appsv1.DeploymentSpec{Replicas: &three}, Status: appsv1.DeploymentStatus{ReadyReplicas: 3}}
	}
	if h.Applied[harbor.PartStorage] {
		state := map[bool]string{true: "Waiting", false: "Initialized"}[h.NotReady[harbor.PartStorage]]
		o.Tenant = object("minio-main", map[string]any{"currentState": state, "availableReplicas": int64(2), "pools": []any{map[string]any{"state": "PoolInitialized"}}})
	}
	if h.Applied[harbor.PartBucket] {
		o.BucketJob = &batchv1.Job{Status: batchv1.JobStatus{Conditions: []batchv1.JobCondition{{Type: batchv1.JobComplete, Status: corev1.ConditionTrue}}}}
	}
	if h.Applied[harbor.PartHarbor] {
		status := map[bool]string{true: "True", false: "False"}[h.NotReady[harbor.PartHarbor]]
		o.Harbor = object("main-harbor", map[string]any{"conditions": []any{
			map[string]any{"type": "Failed", "status": status, "reason": "Broken"}, map[string]any{"type": "InProgress", "status": "False"},
		}})
	}
	return o
}

// Change changes the cluster, and completes the waiting activity if something is due now.
func (h *HarborWorld) Change(change func()) {
	h.Mu.Lock()
	change()
	token, plan := h.waitToken, h.evaluate(h.waitInput)
	if plan.Due() {
		h.waitToken = nil
	} else {
		h.scheduleEvaluation(plan)
	}
	h.Mu.Unlock()
	if plan.Due() && token != nil {
		require.NoError(h.T, h.CompleteActivity(token, plan, nil))
	}
}

// ChangeAfter changes the cluster after a delay.
func (h *HarborWorld) ChangeAfter(delay time.Duration, change func()) {
	h.RegisterDelayedCallback(func() { h.Change(change) }, delay)
}

// RunFor runs the workflow, cancels it after that time, and returns its status.
func (h *HarborWorld) RunFor(until time.Duration) harborworkflow.Status {
	h.T.Helper()
	h.RegisterDelayedCallback(func() { h.SignalWorkflow(temporal.SignalCancel, temporal.SignalRequest{Actor: "ann"}) }, until)
	h.ExecuteWorkflow(harborworkflow.HarborCluster, HarborInput())
	return RequireCancelled[harborworkflow.Status](h.World)
}

// HarborInput is the input of HarborCluster registry/main on cluster c1.
func HarborInput() harborworkflow.Input {
	return harborworkflow.Input{Cluster: "c1", Namespace: "registry", Name: "main"}
}

// ConditionIn returns the condition of that type; the zero value if there is none.
func ConditionIn(status harborworkflow.Status, kind goharborv1.ConditionType) goharborv1.HarborClusterCondition {
	i := slices.IndexFunc(status.Harbor.Conditions, func(c goharborv1.HarborClusterCondition) bool { return c.Type == kind })
	if i < 0 {
		return goharborv1.HarborClusterCondition{}
	}
	return status.Harbor.Conditions[i]
}

// Count returns how often a part is in the list.
func Count(parts []harbor.Part, part harbor.Part) int {
	return len(slices.DeleteFunc(slices.Clone(parts), func(p harbor.Part) bool { return p != part }))
}

// RequireConditionAfter requires the status of a condition after a delay.
func (h *HarborWorld) RequireConditionAfter(after time.Duration, kind goharborv1.ConditionType, status metav1.ConditionStatus) {
	h.RegisterDelayedCallback(func() {
		require.Equal(h.T, status, ConditionIn(StatusOf[harborworkflow.Status](h.World), kind).Status, "%s after %s", kind, after)
	}, after)
}
