// Package rollouts holds the activities of a rollout on the hub: load, plan, select clusters, save.
package rollouts

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/controller-runtime/pkg/client"
	kjson "sigs.k8s.io/json"

	"drydock.dev/drydock/activities/activitykit"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// Activities plans rollouts, saves them and changes ManagedClusters on the hub.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
	// Workflows answers for the rollouts that are retried.
	Workflows activitykit.Querier
	Defaults  Defaults
	// Releases looks up releases of the platform.
	Releases ReleaseFinder
}

// Defaults are the defaults of this worker for rollouts.
type Defaults struct {
	// PrecacheImage and BackupImage are the images of the Jobs that prepare clusters.
	PrecacheImage, BackupImage string
	// PolicyEnforcement is how policies are enforced; empty: as the hub can.
	PolicyEnforcement ranv1.PolicyEnforcement
}

// Plan is a plan with the task queues of its clusters.
type Plan struct {
	// Plan as `drydock upgrade plan -o json` prints it.
	rollout.Plan
	// PolicyNamespaces are the namespaces of the policies for the upgrade, by name.
	PolicyNamespaces map[string]string `json:"policyNamespaces,omitempty"`
	// PolicyContent lists the Subscriptions of the policies for the upgrade as JSON, by the name of the policy.
	PolicyContent map[string]string `json:"policyContent,omitempty"`
	// NotBound lists the indexes of the policies that are not bound to a cluster, by the index of the cluster in the plan.
	NotBound map[int][]int `json:"notBound,omitempty"`
	// TaskQueues are the task queues of clusters that do not use the common one.
	TaskQueues map[string]string `json:"taskQueues,omitempty"`
	// BackupImage is the image of the Jobs that make backups.
	BackupImage string `json:"backupImage,omitempty"`
	// Digest identifies the plan: that of another plan differs.
	Digest string `json:"digest,omitempty"`
	// Settles is when the plan may change without a change on the hub; zero: it does not.
	Settles time.Time `json:"-"`
	// Spec is the spec with its defaults; nil: the spec in the input had them.
	Spec *ranv1.ClusterGroupUpgradeSpec `json:"spec,omitempty"`
}

// planReader reads policies, what places them, the status of ManagedClusters and ConfigMaps from the API server, and all other objects from the cache. Of policies,
// the cache has only replicas, and only some ConfigMaps may be read.
type planReader struct {
	client.Reader
	api client.Reader
}

// Get implements client.Reader.
func (r planReader) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	untyped, _ := object.(*unstructured.Unstructured)
	kind := object.GetObjectKind().GroupVersionKind()
	_, overrides := object.(*corev1.ConfigMap)
	root := kind == policies.Policies && !policies.IsReplica(key.Name)
	if root || overrides || kind.Kind == "ConfigMap" || untyped != nil && slices.Contains([]schema.GroupVersionKind{activitykit.ManagedClusterKind, snapshot.CRDs}, untyped.GroupVersionKind()) {
		return r.api.Get(ctx, key, object, options...)
	}
	return r.Reader.Get(ctx, key, object, options...)
}

// List implements client.Reader.
func (r planReader) List(ctx context.Context, list client.ObjectList, options ...client.ListOption) error {
	kind := list.GetObjectKind().GroupVersionKind()
	if kind.Group == policies.Policies.Group || kind.GroupVersion() == policies.SetBindings.GroupVersion() {
		return r.api.List(ctx, list, options...)
	}
	return r.Reader.List(ctx, list, options...)
}

// PlanInput is a rollout to plan.
type PlanInput struct {
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// Release is the release that was looked up for it; nil: none was.
	Release *precache.LookedUp `json:"release,omitempty"`
}

// PlanRollout selects the clusters of a rollout and divides them into batches. The plan is invalid if no worker has credentials for a cluster. If it needs
// another release to be looked up, Release of the plan is that release.
// Errors: those of CheckRollout; NotFound if the hub does not serve ManagedClusters.
func (r *Activities) PlanRollout(ctx context.Context, in PlanInput) (Plan, error) {
	plan, err := r.plan(ctx, in)
	if err != nil {
		return Plan{}, err
	}
	plan.Digest, err = digestOf(plan)
	return plan, err
}

// digestOf identifies a plan, whenever it was made.
func digestOf(plan Plan) (string, error) {
	plan.Conditions = slices.Clone(plan.Conditions)
	for i := range plan.Conditions {
		plan.Conditions[i].LastTransitionTime = metav1.Time{}
	}
	text, err := json.Marshal(plan)
	digest := sha256.Sum256(text)
	return hex.EncodeToString(digest[:]), err
}

// AwaitOtherPlanInput is a rollout with the digest of its plan; empty: it has none.
type AwaitOtherPlanInput struct {
	PlanInput
	Digest string `json:"digest,omitempty"`
}

// planShare is the part of the time in which a rollout that waits for another plan is planned, at most.
const planShare = 10

// AwaitOtherPlan waits until a rollout would have another plan. Errors: those of PlanRollout.
func (r *Activities) AwaitOtherPlan(ctx context.Context, in AwaitOtherPlanInput) error {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	roots := &metav1.PartialObjectMetadata{}
	roots.SetGroupVersionKind(policies.Policies)
	kinds := []client.Object{kube.IfServed(&ranv1.PreCachingConfig{}), kube.IfServed(roots)}
	for _, kind := range []schema.GroupVersionKind{policies.ManagedClusters, policies.Policies, policies.ClusterSets, policies.SetBindings, manifestworks.Templates} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		kinds = append(kinds, kube.IfServed(object))
	}
	if in.Object.Spec.PreCaching {
		overrides := rollout.PreCachingOverridesOf(&in.Object)
		kinds = append(kinds, kube.SingleObject(&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: overrides.Namespace, Name: overrides.Name}}))
	}
	alarm := time.NewTimer(0)
	alarm.Stop()
	return r.Waits.AwaitAlarm(ctx, alarm.C, hub, kinds, func(ctx context.Context) (temporal.Observation, bool, error) {
		started := time.Now()
		plan, err := r.PlanRollout(ctx, in.PlanInput)
		if err != nil {
			return temporal.Observation{}, true, err
		}
		select { // gather the changes of a busy hub
		case <-ctx.Done():
		case <-time.After(max(time.Second, planShare*time.Since(started))):
		}
		setAlarm(alarm, plan.Settles)
		return temporal.Observation{}, plan.Digest != in.Digest, nil
	})
}

// setAlarm lets a stopped timer go off at a time; zero: not at all.
func setAlarm(alarm *time.Timer, at time.Time) {
	alarm.Stop()
	if !at.IsZero() {
		alarm.Reset(time.Until(at))
	}
}

// plan is PlanRollout without the digest.
func (r *Activities) plan(ctx context.Context, in PlanInput) (Plan, error) {
	cgu, err := r.CheckRollout(ctx, in.Object)
	if err != nil {
		return Plan{}, err
	}
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return Plan{}, err
	}
	// Read the policies last: with a large fleet that is slow, and the steps before may be retried.
	rollouts, err := readBlockers(ctx, hub, &cgu)
	if err != nil {
		return Plan{}, err
	}
	spec := *cgu.Spec.DeepCopy()
	cgu.Spec.PolicyEnforcement = cmp.Or(cgu.Spec.PolicyEnforcement, r.Defaults.PolicyEnforcement)
	now := time.Now()
	inventory, err := snapshot.Inventory(ctx, planReader{Reader: hub.Cache, api: hub.Client}, &cgu, now)
	if meta.IsNoMatchError(err) {
		return Plan{}, temporal.Error(temporal.ErrNotFound,
			"the hub does not serve ManagedClusters (cluster.open-cluster-management.io/v1): is the right cluster named as the hub?", err)
	}
	if err != nil {
		return Plan{}, activitykit.Explain(hub, "read what the plan depends on", err)
	}
	inventory.Rollouts, inventory.Release = rollouts, in.Release
	plan := Plan{Plan: rollout.NewPlan(&cgu, inventory, now), TaskQueues: map[string]string{}, Settles: inventory.Settles}
	plan.PolicyNamespaces, plan.PolicyContent = plan.Plan.PolicyNamespaces, plan.Plan.PolicyContent
	plan.NotBound = rollout.CompactNotBound(plan.Plan.NotBound, slices.Concat(plan.RemediationPlan...))
	if len(rollout.ChangedFields(in.Object.Spec, spec)) > 0 {
		plan.Spec = &spec
	}
	if !plan.Valid() {
		return plan, nil
	}
	return plan, r.checkWorkers(ctx, &plan, &cgu, now)
}

// SelectClustersInput are clusters and selectors. A nil selector selects all.
type SelectClustersInput struct {
	Clusters  []string                `json:"clusters"`
	Selectors []*metav1.LabelSelector `json:"selectors"`
}

// SelectClusters returns for each selector the clusters that it selects. No selector selects a cluster without a ManagedCluster. Errors: InvalidSpec
// if a selector is invalid.
func (r *Activities) SelectClusters(ctx context.Context, in SelectClustersInput) ([][]string, error) {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	var selectors []labels.Selector
	for _, given := range in.Selectors {
		selector := labels.Everything()
		if given != nil {
			if selector, err = metav1.LabelSelectorAsSelector(given); err != nil {
				return nil, temporal.Error(temporal.ErrInvalidSpec, err.Error(), nil)
			}
		}
		selectors = append(selectors, selector)
	}
	selected := make([][]string, len(selectors))
	for _, cluster := range in.Clusters {
		registered := activitykit.ManagedCluster(cluster)
		err := hub.Cache.Get(ctx, client.ObjectKeyFromObject(registered), registered)
		if apierrors.IsNotFound(err) {
			continue
		}
		if err != nil {
			return nil, activitykit.Explain(hub, "read ManagedCluster "+cluster, err)
		}
		for i, selector := range selectors {
			if selector.Matches(labels.Set(registered.GetLabels())) {
				selected[i] = append(selected[i], cluster)
			}
		}
	}
	return selected, nil
}

// CheckNodeMaintenance validates a request before any node is touched, since not every request comes from the CLI. Errors: InvalidSpec, with every
// field that is invalid, or of a Job that the clusters file does not allow.
func (r *Activities) CheckNodeMaintenance(_ context.Context, written json.RawMessage) error {
	object := &unstructured.Unstructured{}
	if err := kjson.UnmarshalCaseSensitivePreserveInts(written, &object.Object); err != nil {
		return temporal.Error(temporal.ErrInvalidSpec, "object: "+err.Error(), err)
	}
	object.SetGroupVersionKind(maintenancev1.GroupVersion.WithKind("NodeMaintenance"))
	problems := manifest.Check(object)
	for i := range problems {
		problems[i].Object = object.GetKind() + " " + client.ObjectKeyFromObject(object).String()
	}
	if len(problems) > 0 {
		return temporal.Error(temporal.ErrInvalidSpec, manifest.Invalid(problems).Error(), nil)
	}
	maintenance := &maintenancev1.NodeMaintenance{}
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(object.Object, maintenance); err != nil {
		return temporal.Error(temporal.ErrInvalidSpec, "object: "+err.Error(), err)
	}
	spec := field.NewPath("spec")
	if err := activitykit.CheckAction(r.Clusters, spec.Child("action"), maintenance.Spec.Action); err != nil {
		return err
	}
	return cmp.Or(activitykit.CheckHealthChecks(r.Clusters, spec.Child("healthChecks"), maintenance.Spec.HealthChecks),
		activitykit.CheckReceivers(r.Clusters, spec.Child("notify"), maintenance.Spec.Notify))
}
