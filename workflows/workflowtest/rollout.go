package workflowtest

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	jobsactivities "drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/activities/rollouts"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/clusterupgrade"
)

// GroupStatus is the status of a rollout.
type GroupStatus = ranv1.ClusterGroupUpgradeStatus

// ARollout is a rollout of node maintenances with a timeout of 60 minutes.
func ARollout(canaries ...string) ranv1.ClusterGroupUpgrade {
	return ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: "ops", Name: "june"},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters:            []string{"c1"},
			NodeMaintenance:     &ranv1.NodeMaintenanceRemediation{},
			RemediationStrategy: ranv1.RemediationStrategy{Canaries: canaries, MaxConcurrency: intstr.FromInt32(2), Timeout: 60},
			BatchTimeoutAction:  ranv1.BatchTimeoutContinue,
		},
	}
}

// PlanOf returns a valid plan with those batches.
func PlanOf(batches ...[]string) rollouts.Plan {
	return rollouts.Plan{Plan: rollout.Plan{
		ComputedMaxConcurrency: 2, RemediationPlan: batches,
		Conditions: []metav1.Condition{
			{Type: ranv1.ConditionClustersSelected, Status: metav1.ConditionTrue, Reason: ranv1.ReasonClusterSelectionCompleted},
			{Type: ranv1.ConditionValidated, Status: metav1.ConditionTrue, Reason: ranv1.ReasonValidationCompleted},
		},
	}}
}

// NewGroupWorld returns a world with a plan of those batches, and simulated cluster upgrades.
func NewGroupWorld(t *testing.T, batches ...[]string) (*World, *Children) {
	w := NewWorld(t)
	w.Plan = PlanOf(batches...)
	c := newChildren()
	w.RegisterAs(temporal.ClusterUpgrade, func(ctx workflow.Context, in clusterupgrade.Input) (ranv1.ClusterStatus, error) {
		err := c.run(ctx, in.Cluster)
		result := ranv1.ClusterStatus{Name: in.Cluster, Batch: in.Batch, State: ranv1.ClusterComplete}
		if sdktemporal.IsCanceledError(err) {
			result.State = ranv1.ClusterCancelled
			return result, sdktemporal.NewCanceledError(result)
		}
		return result, err
	})
	return w, c
}

// UntilCancelled runs a cluster upgrade until it is cancelled. Its cleanup takes a minute.
func UntilCancelled(ctx workflow.Context) error {
	err := workflow.Sleep(ctx, 1000*time.Hour)
	cleanUp, _ := workflow.NewDisconnectedContext(ctx)
	_ = workflow.Sleep(cleanUp, time.Minute)
	return err
}

// ClusterFails fails a cluster upgrade.
func ClusterFails(workflow.Context) error {
	result := ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: temporal.ErrJobFailed, Message: "node w0: exit code 3"}
	return sdktemporal.NewApplicationErrorWithOptions(result.Message, result.Reason, sdktemporal.ApplicationErrorOptions{NonRetryable: true, Details: []any{result}})
}

// ClusterStates returns the state of each cluster.
func ClusterStates(s GroupStatus) map[string]ranv1.ClusterState {
	states := map[string]ranv1.ClusterState{}
	for _, c := range s.Clusters {
		states[c.Name] = c.State
	}
	return states
}

// RequireCondition requires the status and reason of a condition.
func RequireCondition(t *testing.T, s GroupStatus, conditionType string, status metav1.ConditionStatus, reason string) {
	t.Helper()
	condition := meta.FindStatusCondition(s.Conditions, conditionType)
	require.NotNil(t, condition, conditionType)
	require.Equal(t, status, condition.Status, condition.Message)
	require.Equal(t, reason, condition.Reason, condition.Message)
}

// WithActions adds actions: a label "begun" before the rollout, which "done" replaces on complete clusters.
func WithActions(object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.Actions = ranv1.Actions{
		BeforeEnable:    &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"begun": ""}},
		AfterCompletion: &ranv1.AfterCompletion{AddClusterLabels: map[string]string{"done": ""}, RemoveClusterLabels: []string{"begun"}},
	}
	return object
}

// LabelledClusters returns the clusters to which a label was added, by label.
func (w *World) LabelledClusters() map[string][]string {
	found := map[string][]string{}
	for _, in := range w.InputsOf("ChangeClusters") {
		in := in.(rollouts.ChangeClustersInput)
		for label, value := range in.Change.Labels {
			if value != nil {
				found[label] = append(found[label], in.Clusters...)
			}
		}
	}
	return found
}

// RefuseChanges refuses changes of afterCompletion on clusters until that time.
func (w *World) RefuseChanges(until time.Time, final bool, clusters ...string) {
	Simulate(w, "ChangeClusters", func(in rollouts.ChangeClustersInput) any {
		refused := []rollouts.RefusedChange{}
		for _, cluster := range in.Clusters {
			if _, after := in.Change.Labels["done"]; after && slices.Contains(clusters, cluster) && w.Now().Before(until) {
				refused = append(refused, rollouts.RefusedChange{Cluster: cluster, Message: "ManagedCluster " + cluster + ": frozen", Final: final})
			}
		}
		return refused
	})
}

// WithDefaults returns the rollout with its defaults.
func WithDefaults(t *testing.T, object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	require.NoError(t, manifest.Complete(&object))
	return object
}

// SimulateDefaults applies defaults when a rollout is planned or edited.
func (w *World) SimulateDefaults() {
	Simulate(w, "CheckRollout", func(object ranv1.ClusterGroupUpgrade) any { return WithDefaults(w.T, object) })
	Simulate(w, "PlanRollout", func(in rollouts.PlanInput) any {
		plan, spec := w.Plan, WithDefaults(w.T, in.Object).Spec
		if len(rollout.ChangedFields(in.Object.Spec, spec)) > 0 {
			plan.Spec = &spec
		}
		return plan
	})
}

// UpdateResult is the result of an update. Rejected is the error of the validator, Err that of the handler.
type UpdateResult struct {
	Result   any
	Rejected error
	Err      error
}

// SendUpdate sends an update. The returned result is filled in when the workflow answers.
func (w *World) SendUpdate(update string, request any) *UpdateResult {
	a := &UpdateResult{}
	w.sendUpdate(a, update, request)
	return a
}

func (w *World) sendUpdate(a *UpdateResult, update string, request any) {
	w.UpdateWorkflow(update, fmt.Sprintf("%p", a), &testsuite.TestUpdateCallback{
		OnAccept:   func() {},
		OnReject:   func(err error) { a.Rejected = err },
		OnComplete: func(result any, err error) { a.Result, a.Err = result, err },
	}, request)
}

// SendUpdateWhen sends an update as soon as the condition holds.
func SendUpdateWhen(w *World, condition func(GroupStatus) bool, update string, request any) *UpdateResult {
	a := &UpdateResult{}
	w.When(func() bool { return condition(StatusOf[GroupStatus](w)) }, func() { w.sendUpdate(a, update, request) })
	return a
}

// AwaitsApproval reports whether the rollout waits for an approval.
func AwaitsApproval(s GroupStatus) bool {
	return s.Wait != nil && s.Wait.Reason == ranv1.ReasonWaitingForApproval
}

// Takes runs a cluster upgrade for that time.
func Takes(duration time.Duration) func(workflow.Context) error {
	return func(ctx workflow.Context) error { return workflow.Sleep(ctx, duration) }
}

// NewPreparedWorld plans batches with images for precaching and backups. jobs are the errors of Jobs, by kind and cluster.
func NewPreparedWorld(t *testing.T, jobs map[string]error, batches ...[]string) (*World, *Children) {
	w, clusters := NewGroupWorld(t, batches...)
	w.Plan.Precaching, w.Plan.PreCacheImage, w.Plan.BackupImage = &ranv1.PrecachingSpec{SpaceRequired: "35"}, "pull:1", "backup:1"
	w.Jobs = jobs
	return w, clusters
}

// JobsOf returns the clusters on which a Job of the kind ran.
func (w *World) JobsOf(kind precache.Kind) []string {
	var clusters []string
	for _, in := range w.InputsOf("RunClusterJob") {
		if job := in.(jobsactivities.ClusterJob); job.Work.Kind == kind {
			clusters = append(clusters, job.Cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}

// PlannedOnly is a rollout with precaching that is not enabled.
func PlannedOnly() ranv1.ClusterGroupUpgrade {
	object := ARollout()
	object.Spec.PreCaching, object.Spec.Enable = true, new(bool)
	return object
}

// EditPlanned sends an edit of the rollout PlannedOnly.
func (w *World) EditPlanned(change func(*ranv1.ClusterGroupUpgradeSpec)) *UpdateResult {
	spec := PlannedOnly().Spec
	change(&spec)
	return w.SendUpdate(temporal.UpdateEdit, rollout.EditRequest{Actor: "bob", Spec: spec})
}

// ChangePlan changes what the hub has, so that the rollout would have another plan, and completes the call of AwaitOtherPlan that waits for that.
func (w *World) ChangePlan(plan rollouts.Plan) {
	w.Mu.Lock()
	w.Plan = plan
	wait := w.planWait
	w.Mu.Unlock()
	require.NoError(w.T, w.CompleteActivity(wait, nil, nil))
}

// PrecachingJobs returns the Jobs that clusters were prepared with, in order.
func (w *World) PrecachingJobs() []jobsactivities.ClusterJob {
	var jobs []jobsactivities.ClusterJob
	for _, in := range w.InputsOf("RunClusterJob") {
		jobs = append(jobs, in.(jobsactivities.ClusterJob))
	}
	return jobs
}
