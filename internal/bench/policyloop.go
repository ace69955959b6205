package bench

import (
	"context"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/watch"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
)

// loop is the floor of a rollout of policies, which is mostly the work of the hub: it enforces each policy on one batch of clusters after the other, and waits for
// their compliance. It has no history, checks nothing else, and does not clean up.
func (h *simulatedHub) loop(ctx context.Context, size PolicySize) (time.Duration, error) {
	policies, err := h.prepare(ctx, size)
	if err != nil {
		return 0, err
	}
	for _, policy := range policies {
		if err := h.hub.Create(ctx, enforcingBinding(policy)); err != nil {
			return 0, err
		}
	}
	replicas := &replicaWatch{hub: h.hub, complied: map[kubeclient.ObjectKey]bool{}}
	began := time.Now()
	previous := ""
	for first := 0; first < size.Clusters; first += size.AtOnce {
		var batch []string
		for i := first; i < min(first+size.AtOnce, size.Clusters); i++ {
			batch = append(batch, clusterName(i))
		}
		for _, policy := range policies {
			if previous != "" && previous != policy {
				if err := h.enforce(ctx, previous, nil); err != nil {
					return 0, err
				}
			}
			if err := h.enforce(ctx, policy, batch); err != nil {
				return 0, err
			}
			previous = policy
			if err := replicas.await(ctx, policy, batch); err != nil {
				return 0, fmt.Errorf("wait for the compliance with policy %s: %w", policy, err)
			}
		}
	}
	return time.Since(began), nil
}

// replicaWatch watches the replicas of policies in the namespaces of clusters. complied are those that have reported their compliance.
type replicaWatch struct {
	hub      kubeclient.WithWatch
	changes  watch.Interface
	complied map[kubeclient.ObjectKey]bool
}

// await waits until each cluster has reported its compliance with a policy.
func (r *replicaWatch) await(ctx context.Context, policy string, batch []string) error {
	waiting := map[kubeclient.ObjectKey]bool{}
	for _, cluster := range batch {
		if replica := (kubeclient.ObjectKey{Namespace: cluster, Name: rolloutNamespace + "." + policy}); !r.complied[replica] {
			waiting[replica] = true
		}
	}
	for len(waiting) > 0 {
		if r.changes == nil {
			changes, err := r.hub.Watch(ctx, policyList(), kubeclient.HasLabels{"policy.open-cluster-management.io/root-policy"})
			if err != nil {
				return err
			}
			r.changes = changes
		}
		event, open := <-r.changes.ResultChan()
		if !open { // the server ends the watch of a slow client
			r.changes = nil
			continue
		}
		replica, ok := event.Object.(*unstructured.Unstructured)
		if !ok {
			return apierrors.FromObject(event.Object)
		}
		if state, _, _ := unstructured.NestedString(replica.Object, "status", "compliant"); state == "Compliant" {
			r.complied[kubeclient.ObjectKeyFromObject(replica)] = true
			delete(waiting, kubeclient.ObjectKeyFromObject(replica))
		}
	}
	return nil
}

// enforce enforces a policy on these clusters only.
func (h *simulatedHub) enforce(ctx context.Context, policy string, clusters []string) error {
	placement := object("cluster.open-cluster-management.io/v1beta1", "Placement", "loop-"+policy)
	values, spec := []any{""}, map[string]any{"numberOfClusters": int64(0)}
	if len(clusters) > 0 {
		values, spec = nil, map[string]any{}
	}
	for _, cluster := range clusters {
		values = append(values, cluster)
	}
	spec["predicates"] = []any{map[string]any{"requiredClusterSelector": map[string]any{"labelSelector": map[string]any{
		"matchExpressions": []any{map[string]any{"key": "name", "operator": "In", "values": values}},
	}}}}
	placement.Object["spec"] = spec
	return h.hub.Apply(ctx, kubeclient.ApplyConfigurationFromUnstructured(placement), kubeclient.FieldOwner("loop"), kubeclient.ForceOwnership)
}

// enforcingBinding enforces a policy on the clusters of the Placement of the loop.
func enforcingBinding(policy string) *unstructured.Unstructured {
	binding := object("policy.open-cluster-management.io/v1", "PlacementBinding", "loop-"+policy)
	binding.Object["subFilter"] = "restricted"
	binding.Object["bindingOverrides"] = map[string]any{"remediationAction": "enforce"}
	binding.Object["placementRef"] = map[string]any{"apiGroup": "cluster.open-cluster-management.io", "kind": "Placement", "name": "loop-" + policy}
	binding.Object["subjects"] = []any{map[string]any{"apiGroup": "policy.open-cluster-management.io", "kind": "Policy", "name": policy}}
	return binding
}
