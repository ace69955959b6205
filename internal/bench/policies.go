package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"time"

	"go.temporal.io/sdk/client"
	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/watch"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	watchtools "k8s.io/client-go/tools/watch"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/propagator"
)

// PolicyResult is the result of a measured rollout of policies. All times are in seconds.
type PolicyResult struct {
	Size PolicySize `json:"size"`
	Wall float64    `json:"wall"`
	// LoopWall is the wall time of the loop on another hub; 0: it was not measured.
	LoopWall float64 `json:"loopWall,omitempty"`
	// BetweenBatches is the time from the compliance of the last cluster of a batch to the first enforcement in the next batch; BetweenBatchesMax is
	// the longest.
	BetweenBatches    Latency `json:"betweenBatches"`
	BetweenBatchesMax float64 `json:"betweenBatchesMax"`
	// Requests are the requests of Drydock's worker to the hub per cluster.
	Requests Requests `json:"requests"`
	// Cost is the size of the histories per cluster.
	Cost
	Usages
	// Stored is what PostgreSQL stores after the rollout, and did not before.
	Stored devstack.Stored `json:"stored,omitzero"`
}

// runPolicies measures the sizes one after the other, each on its own hub.
func (r *Report) runPolicies(ctx context.Context, sizes []PolicySize, progress io.Writer) error {
	for _, size := range sizes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		var result PolicyResult
		err := onHub(ctx, temporalServer(size.OnPostgreSQL), progress, nil, func(h *simulatedHub) (err error) {
			result, err = h.measure(ctx, size)
			return err
		})
		if err == nil && !size.OnPostgreSQL {
			err = onHub(ctx, temporalServer(false), progress, nil, func(h *simulatedHub) error {
				took, err := h.loop(ctx, size)
				result.LoopWall = took.Seconds()
				return err
			})
		}
		if err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		r.Policies = append(r.Policies, result)
	}
	return nil
}

// simulatedHub is a hub with simulated clusters.
type simulatedHub struct {
	fleet  *fleet.Fleet
	hub    kubeclient.WithWatch
	server client.Client
}

// onHub starts a hub while measure runs. takes is how long a cluster takes to comply; nil: no time.
func onHub(ctx context.Context, temporal devstack.TemporalOptions, progress io.Writer, takes func(cluster, policy string) time.Duration, measure func(*simulatedHub) error) error {
	f, err := fleet.Start(ctx, fleet.Options{Temporal: temporal, Output: progress})
	if err != nil {
		return err
	}
	simulated, err := propagator.Start(ctx, f.Hub.Config, propagator.Options{Takes: takes, Delay: propagator.Prompt})
	if err != nil {
		return errors.Join(err, f.Stop())
	}
	err = func() error {
		server, err := dial(ctx, f)
		if err != nil {
			return err
		}
		defer server.Close()
		hub, err := kubeclient.NewWithWatch(f.Hub.Config, kubeclient.Options{})
		if err != nil {
			return err
		}
		return measure(&simulatedHub{fleet: f, hub: hub, server: server})
	}()
	simulated.Stop()
	return errors.Join(err, f.Stop())
}

// prepare creates clusters, and policies with which they do not comply.
func (h *simulatedHub) prepare(ctx context.Context, size PolicySize) (policies []string, err error) {
	if err := h.register(ctx, size.Clusters); err != nil {
		return nil, err
	}
	for i := range size.Policies {
		policies = append(policies, fmt.Sprintf("policy-%d", i+1))
	}
	return policies, h.createPolicies(ctx, policies, nil, size.Clusters)
}

// measure rolls out policies to clusters that comply as soon as a policy is enforced on them.
func (h *simulatedHub) measure(ctx context.Context, size PolicySize) (PolicyResult, error) {
	policies, err := h.prepare(ctx, size)
	if err != nil {
		return PolicyResult{}, err
	}
	rollout := policyRollout("policies", policies...)
	rollout.Spec.ClusterLabelSelectors = []metav1.LabelSelector{{MatchLabels: benchLabels}}
	rollout.Spec.RemediationStrategy.MaxConcurrency = intstr.FromInt(size.AtOnce)

	stored, err := storedBy(ctx, h.fleet)
	if err != nil {
		return PolicyResult{}, err
	}
	before, err := usagesOf(ctx, h.fleet)
	if err != nil {
		return PolicyResult{}, err
	}
	histories, err := rollOut(ctx, h.fleet, h.server, rollout)
	if err != nil {
		return PolicyResult{}, err
	}
	after, err := usagesOf(ctx, h.fleet)
	if err != nil {
		return PolicyResult{}, err
	}
	storedAfter, err := storedBy(ctx, h.fleet)
	if err != nil {
		return PolicyResult{}, err
	}
	took := histories[len(histories)-1].ended().Sub(histories[0].began())
	events, err := h.fleet.Hub.AuditEvents()
	if err != nil {
		return PolicyResult{}, err
	}
	gaps := enforcementsOf(events).betweenBatches(size)
	return PolicyResult{
		Size: size, Wall: took.Seconds(),
		BetweenBatches: latency(gaps), BetweenBatchesMax: quantile(gaps, 1),
		Requests: requestsOf(events, workerUsers, size.Clusters), Cost: costOf(histories, size.Clusters),
		Usages: after.since(before), Stored: storedAfter.Since(stored),
	}, nil
}

// policyRollout enforces policies as the hub does best: with overrides.
func policyRollout(name string, policies ...string) *ranv1.ClusterGroupUpgrade {
	return &ranv1.ClusterGroupUpgrade{
		TypeMeta:   metav1.TypeMeta{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade"},
		ObjectMeta: metav1.ObjectMeta{Namespace: rolloutNamespace, Name: name},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			ManagedPolicies:     policies,
			RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1), Timeout: 60},
		},
	}
}

// benchLabels are the labels of every ManagedCluster.
var benchLabels = map[string]string{"bench": "policies"}

// clusterName returns a name that sorts by number.
func clusterName(i int) string { return fmt.Sprintf("edge-%05d", i+1) }

// register creates the ManagedClusters.
func (h *simulatedHub) register(ctx context.Context, clusters int) error {
	var group errgroup.Group
	group.SetLimit(20)
	for i := range clusters {
		group.Go(func() error {
			object := &unstructured.Unstructured{}
			object.SetAPIVersion("cluster.open-cluster-management.io/v1")
			object.SetKind("ManagedCluster")
			object.SetName(clusterName(i))
			object.SetLabels(labels.Merge(benchLabels, labels.Set{"name": clusterName(i)}))
			return h.hub.Create(ctx, object)
		})
	}
	return group.Wait()
}

// createPolicies creates inform policies for the named clusters, or all, and waits until each has the compliance status of that many clusters.
func (h *simulatedHub) createPolicies(ctx context.Context, names, clusters []string, count int) error {
	for _, name := range names {
		for _, object := range policyObjects(name, clusters) {
			if err := h.hub.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	for _, name := range names {
		if err := h.awaitCompliance(ctx, name, count); err != nil {
			return fmt.Errorf("wait for the compliance of %d clusters with policy %s: %w", count, name, err)
		}
	}
	return nil
}

// awaitCompliance waits until a policy has the compliance status of that many clusters.
func (h *simulatedHub) awaitCompliance(ctx context.Context, name string, count int) error {
	changes, err := h.hub.Watch(ctx, policyList(), kubeclient.InNamespace(rolloutNamespace), kubeclient.MatchingFields{"metadata.name": name})
	if err != nil {
		return err
	}
	_, err = watchtools.UntilWithoutRetry(ctx, changes, func(event watch.Event) (bool, error) {
		policy, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return false, apierrors.FromObject(event.Object)
		}
		statuses, _, _ := unstructured.NestedSlice(policy.Object, "status", "status")
		return len(statuses) >= count, nil
	})
	return err
}

func policyList() *unstructured.UnstructuredList {
	list := &unstructured.UnstructuredList{}
	list.SetAPIVersion("policy.open-cluster-management.io/v1")
	list.SetKind("PolicyList")
	return list
}

// policyObjects are a policy that requires a ConfigMap with its name, and its binding and placement.
func policyObjects(name string, clusters []string) []*unstructured.Unstructured {
	policy := object("policy.open-cluster-management.io/v1", "Policy", name)
	policy.Object["spec"] = map[string]any{
		"disabled": false, "remediationAction": "inform",
		"policy-templates": []any{map[string]any{"objectDefinition": map[string]any{
			"apiVersion": "policy.open-cluster-management.io/v1", "kind": "ConfigurationPolicy", "metadata": map[string]any{"name": name},
			"spec": map[string]any{"object-templates": []any{map[string]any{
				"complianceType":   "musthave",
				"objectDefinition": map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "metadata": map[string]any{"name": name}},
			}}},
		}}},
	}
	var named []any
	for _, cluster := range clusters {
		named = append(named, map[string]any{"name": cluster})
	}
	rule := object("apps.open-cluster-management.io/v1", "PlacementRule", name)
	rule.Object["spec"] = map[string]any{"clusters": named}
	binding := object("policy.open-cluster-management.io/v1", "PlacementBinding", name)
	binding.Object["placementRef"] = map[string]any{"apiGroup": "apps.open-cluster-management.io", "kind": "PlacementRule", "name": name}
	binding.Object["subjects"] = []any{map[string]any{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": name}}
	return []*unstructured.Unstructured{policy, rule, binding}
}

func object(apiVersion, kind, name string) *unstructured.Unstructured {
	object := &unstructured.Unstructured{}
	object.SetAPIVersion(apiVersion)
	object.SetKind(kind)
	object.SetNamespace(rolloutNamespace)
	object.SetName(name)
	return object
}

// enforcements are, from the audit log of the hub, the times of the first enforcement on each cluster and of its compliance with the last policy. A cluster
// reports its compliance again when the policy is no longer enforced.
type enforcements struct {
	enforced, complied map[string]time.Time
}

func enforcementsOf(events []auditv1.Event) enforcements {
	e := enforcements{enforced: map[string]time.Time{}, complied: map[string]time.Time{}}
	for _, placed := range fleet.Placements(events) {
		for _, cluster := range placed.Clusters {
			if _, before := e.enforced[cluster]; !before {
				e.enforced[cluster] = placed.At
			}
		}
	}
	reported := map[kubeclient.ObjectKey]bool{}
	for _, event := range events {
		var body struct{ Status struct{ Compliant string } }
		if ref := event.ObjectRef; ref != nil && ref.Resource == "policies" && ref.Subresource == "status" && bodyOf(event, &body) && body.Status.Compliant == "Compliant" {
			replica, at := kubeclient.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, event.StageTimestamp.Time
			if enforced, any := e.enforced[ref.Namespace]; any && at.After(enforced) && !reported[replica] {
				reported[replica] = true
				if at.After(e.complied[ref.Namespace]) {
					e.complied[ref.Namespace] = at
				}
			}
		}
	}
	return e
}

// bodyOf reads the body of a completed request, if it has one.
func bodyOf(event auditv1.Event, body any) bool {
	return event.Stage == auditv1.StageResponseComplete && event.RequestObject != nil && json.Unmarshal(event.RequestObject.Raw, body) == nil
}

// betweenBatches are the times between batches. Batches are in the order of names.
func (e enforcements) betweenBatches(size PolicySize) []time.Duration {
	var gaps []time.Duration
	for next := size.AtOnce; next < size.Clusters; next += size.AtOnce {
		var last, first time.Time
		for i := next - size.AtOnce; i < next; i++ {
			if at := e.complied[clusterName(i)]; at.After(last) {
				last = at
			}
		}
		for i := next; i < min(next+size.AtOnce, size.Clusters); i++ {
			if at := e.enforced[clusterName(i)]; first.IsZero() || at.Before(first) {
				first = at
			}
		}
		gaps = append(gaps, first.Sub(last))
	}
	return gaps
}
