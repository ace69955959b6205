package health

import (
	"context"
	"errors"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/endpoint"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/health"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// evaluate judges the checks and returns a result for each. Node is the node under maintenance, or "". Errors: InvalidSpec,
// ClusterUnreachable, and others that may pass.
func evaluate(objects objects, checks []drydockv1.HealthCheck, node string) ([]health.Result, error) {
	results := make([]health.Result, 0, len(checks))
	for _, check := range checks {
		result, err := health.Evaluate(objects.ctx, check, node, objects)
		if err != nil {
			return nil, ExplainCheck(objects.cluster, err)
		}
		results = append(results, result)
	}
	return results, nil
}

// CheckKinds returns the kinds to watch for the checks. A kind that the cluster does not serve, or forbids to watch, is watched once it is
// allowed. Errors: InvalidSpec.
func CheckKinds(cluster *kube.Cluster, checks []drydockv1.HealthCheck) ([]client.Object, error) {
	watches, err := health.Watches(checks...)
	if err != nil {
		return nil, ExplainCheck(cluster, err)
	}
	var kinds []client.Object
	for _, watch := range watches {
		object, err := snapshot.NewObject(cluster.Client.Scheme(), watch.Kind)
		if err != nil {
			return nil, ExplainCheck(cluster, err)
		}
		object.SetNamespace(watch.Namespace)
		object.SetName(watch.Name)
		kinds = append(kinds, kube.IfServed(object))
	}
	for _, check := range checks {
		if check.HarborCluster != nil {
			kinds = append(kinds, HarborServiceKinds(check.HarborCluster.Namespace)...)
		}
	}
	return kinds, nil
}

// ExplainCheck converts an error of package health, which names the check, to a typed error.
func ExplainCheck(cluster *kube.Cluster, err error) error {
	if errors.Is(err, health.ErrInvalid) {
		return temporal.Error(temporal.ErrInvalidSpec, err.Error(), err)
	}
	if errType := temporal.ErrorType(err); errType != "" {
		return temporal.Error(errType, err.Error(), err)
	}
	return activitykit.Explain(cluster, "evaluate the health checks", err)
}

// objects lets checks read from a cluster until its context ends.
type objects struct {
	snapshot.Evidence
	ctx     context.Context
	cluster *kube.Cluster
	// found, unless nil, receives what Node returns without an error.
	found func(*corev1.Node)
}

var _ health.Objects = objects{}

// fetchAllowed sends requests to the hosts that the clusters file allows.
func fetchAllowed(cluster *kube.Cluster) snapshot.Fetch {
	return func(ctx context.Context, address string) (health.Answer, error) {
		if err := cluster.Allowed.CheckAddress(address); err != nil {
			return health.Answer{}, err
		}
		return endpoint.Fetch(ctx, address)
	}
}

// ObjectsOf reads from the cluster's Cache or, for current evidence, from its Client: a list without a resource version is current, after some 90 ms
// on a busy API server. Listed objects are not copied, because checks only read.
func ObjectsOf(ctx context.Context, cluster *kube.Cluster, reader client.Reader) objects {
	return objects{Evidence: snapshot.NewEvidence(ctx, reader, cluster.Client.Scheme(), fetchAllowed(cluster)).WithSecrets(cluster.Client), ctx: ctx, cluster: cluster}
}

// Node returns the node of that name; nil: none. The API server confirms that, because the Cache may not have the node yet.
func (o objects) Node(name string) (*corev1.Node, error) {
	node, err := o.Evidence.Node(name)
	if node == nil && err == nil {
		node, err = snapshot.NewEvidence(o.ctx, o.cluster.Client, o.cluster.Client.Scheme(), fetchAllowed(o.cluster)).Node(name)
	}
	if o.found != nil && err == nil {
		o.found(node)
	}
	return node, err
}

// HarborServiceKinds are the objects of a namespace that determine the health of HarborClusters, except Secrets.
func HarborServiceKinds(namespace string) []client.Object {
	var kinds []client.Object
	for _, kind := range []schema.GroupVersionKind{harbor.Postgresql, harbor.RedisFailover, harbor.Tenant, harbor.Harbor} {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(kind)
		kinds = append(kinds, kube.IfServed(object))
	}
	kinds = append(kinds, &appsv1.StatefulSet{}, &appsv1.Deployment{}, &batchv1.Job{})
	for _, kind := range kinds {
		kind.SetNamespace(namespace)
	}
	return kinds
}
