// Package harbor holds the activities that apply, watch and remove the parts of a HarborCluster.
package harbor

import (
	"context"
	"fmt"
	"strings"
	"time"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/health"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/version"
)

// Activities applies and watches the objects of HarborClusters.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
	// Resync is the interval between reads from the API server without a change; 0: a minute.
	Resync time.Duration
	// Build is the worker, as the status of HarborClusters names it.
	Build version.Build
}

// Ref names a HarborCluster.
type Ref struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID distinguishes it from a later one of the same name; empty: unknown.
	UID types.UID `json:"uid,omitempty"`
}

func (r Ref) String() string { return "HarborCluster " + r.Namespace + "/" + r.Name }

// AwaitDueInput is the known state of a HarborCluster.
type AwaitDueInput struct {
	Ref
	harbor.Known
}

// resyncEvery returns Resync or its default.
func (h *Activities) resyncEvery() time.Duration {
	if h.Resync == 0 {
		return time.Minute
	}
	return h.Resync
}

// AwaitHarborDue watches a HarborCluster and its objects until an action is due or the status changes. Errors: NotFound when the
// cluster does not serve HarborClusters.
func (h *Activities) AwaitHarborDue(ctx context.Context, in AwaitDueInput) (harbor.Plan, error) {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return harbor.Plan{}, err
	}
	every := h.resyncEvery()
	alarm := time.NewTimer(every)
	defer alarm.Stop()
	w := &watch{cluster: cluster, in: in, secrets: kube.CacheMetadata(secretMetadata(in.Namespace)), every: every, resync: time.Now().Add(every)}
	err = activitykit.Waits{}.AwaitAlarm(ctx, alarm.C, cluster, w.kinds(), func(ctx context.Context) (temporal.Observation, bool, error) {
		due, next, err := w.look(ctx)
		alarm.Reset(time.Until(next))
		return temporal.Observation{}, due, err
	})
	return w.seen, explainHarbor(cluster, in.Ref, "read "+in.String(), err)
}

func secretMetadata(namespace string) *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(harbor.Secret)
	secret.SetNamespace(namespace)
	return secret
}

// watch is one attempt at AwaitHarborDue.
type watch struct {
	cluster *kube.Cluster
	in      AwaitDueInput
	secrets *kube.CachedMetadata
	// resync is the time of the next read from the API server. Later reads follow at the interval.
	resync time.Time
	every  time.Duration
	seen   harbor.Plan
}

// kinds are the watched objects.
func (w *watch) kinds() []client.Object {
	hc := &goharborv1.HarborCluster{}
	hc.Namespace, hc.Name = w.in.Namespace, w.in.Name
	ingress := &networkingv1.Ingress{}
	ingress.Namespace = w.in.Namespace
	return append(health.HarborServiceKinds(w.in.Namespace), hc, w.secrets, kube.IfServed(ingress))
}

// look reads all objects, and returns whether an action is due, or when to look again. It ignores cached objects from before Drydock's own writes.
func (w *watch) look(ctx context.Context) (due bool, next time.Time, err error) {
	now := time.Now()
	live := !now.Before(w.resync)
	if live {
		w.resync = now.Add(w.every)
	}
	err = w.lookAt(ctx, live, now)
	if err == nil && !live && w.seen.Due() && w.seen.Doubtful() {
		err = w.lookAt(ctx, true, now)
	}
	next = w.resync
	if again := w.seen.Again(); again != nil && again.Before(next) {
		next = *again
	}
	return err == nil && w.seen.Due(), next, err
}

// lookAt reads from the cache or, if live, from the API server.
func (w *watch) lookAt(ctx context.Context, live bool, now time.Time) error {
	reader := client.Reader(w.cluster.Cache)
	if live {
		reader = w.cluster.Client
	}
	found, err := readHarborCluster(ctx, reader, w.in.Ref)
	if err != nil {
		return err
	}
	var seen harbor.Seen
	if found != nil && found.DeletionTimestamp == nil {
		if seen, err = w.see(ctx, reader, live, found); err != nil {
			return err
		}
	}
	w.seen = harbor.PlanFor(found, seen, w.in.UID, w.in.Known, now)
	return nil
}

// see reads the objects that determine the health of the services, and the applied objects.
func (w *watch) see(ctx context.Context, reader client.Reader, live bool, hc *goharborv1.HarborCluster) (harbor.Seen, error) {
	observed, err := snapshot.HarborServices(ctx, reader, hc)
	if err != nil {
		return harbor.Seen{}, err
	}
	secrets := w.secrets.List()
	if live {
		if secrets, err = snapshot.SecretMetadata(ctx, reader, hc.Namespace); err != nil {
			return harbor.Seen{}, err
		}
	}
	seen := harbor.Seen{Observed: observed, Versions: map[string]string{}}
	for _, secret := range secrets {
		observed.Secrets[secret.Name] = true
		seen.Versions[harbor.VersionKey(harbor.Secret.Kind, secret.Name)] = harbor.VersionOf(secret, nil)
	}
	for _, object := range []*unstructured.Unstructured{observed.Postgresql, observed.RedisFailover, observed.Tenant, observed.Harbor} {
		if object != nil {
			seen.Versions[harbor.VersionKey(object.GetKind(), object.GetName())] = harbor.VersionOf(object, nil)
		}
	}
	return seen, readIngresses(ctx, reader, hc, seen.Versions)
}

// readIngresses reads the applied Ingresses.
func readIngresses(ctx context.Context, reader client.Reader, hc *goharborv1.HarborCluster, versions map[string]string) error {
	for _, object := range harbor.Storage(hc).Objects {
		if object.GroupVersionKind() != harbor.Ingress {
			continue
		}
		ingress := &networkingv1.Ingress{}
		err := reader.Get(ctx, client.ObjectKeyFromObject(object), ingress)
		if client.IgnoreNotFound(err) != nil {
			return err
		}
		if err == nil {
			versions[harbor.VersionKey(harbor.Ingress.Kind, ingress.Name)] = harbor.VersionOf(ingress, object.GetAnnotations())
		}
	}
	return nil
}

// readHarborCluster returns the HarborCluster; nil: there is none.
func readHarborCluster(ctx context.Context, reader client.Reader, ref Ref) (*goharborv1.HarborCluster, error) {
	found := &goharborv1.HarborCluster{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// undeclared reports whether a server refuses to apply an object because its CRD lacks a field. There is no status code for that.
func undeclared(err error) bool {
	return err != nil && strings.Contains(err.Error(), "field not declared in schema")
}

// otherCRD returns the error for a CRD of HarborCluster without Drydock's fields.
func otherCRD(ref Ref, doing string, why error) error {
	return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %s %s: its CRD of HarborCluster is not Drydock's: %v: apply deploy/crds/goharbor.io_harborclusters.yaml over it; "+
		"do not delete it, or all HarborClusters go with it", ref.Cluster, doing, ref, why), why)
}

// explainHarbor is Explain with advice for a missing kind or missing permissions.
func explainHarbor(cluster *kube.Cluster, ref Ref, doing string, err error) error {
	switch {
	case undeclared(err):
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %s: the cluster's CRD of that kind is of another version: %v", cluster.Name, doing, err), err)
	case meta.IsNoMatchError(err):
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s: %s: %v: install the CRDs with `drydock setup`", cluster.Name, doing, err), err)
	case apierrors.IsForbidden(err):
		return temporal.Error(temporal.ErrForbidden, fmt.Sprintf("cluster %s: %s: %v: apply deploy/rbac/harbor.yaml, and bind ClusterRole drydock-harbor-namespace in namespace %s, which must exist",
			cluster.Name, doing, err, ref.Namespace), err)
	}
	return activitykit.Explain(cluster, doing, err)
}
