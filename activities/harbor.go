package activities

import (
	"context"
	"fmt"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	networkingv1 "k8s.io/api/networking/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// Harbor applies what HarborClusters consist of, and looks how it is.
type Harbor struct {
	Clusters *kube.Clusters
}

// HarborRef names a HarborCluster.
type HarborRef struct {
	Cluster   string `json:"cluster"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// UID tells it from a later one of its name; empty: it is not known.
	UID types.UID `json:"uid,omitempty"`
}

func (r HarborRef) String() string { return "HarborCluster " + r.Namespace + "/" + r.Name }

// AwaitHarborDueInput says what is known of a HarborCluster.
type AwaitHarborDueInput struct {
	HarborRef
	// Status as it was seen last. What it remembers counts, whatever the object's status says.
	Status goharborv1.HarborClusterStatus `json:"status"`
	// Applied is what was done about each part last.
	Applied map[harbor.Part]harbor.Applied `json:"applied,omitempty"`
	// Held: nothing is applied, so that nothing is due.
	Held bool `json:"held,omitempty"`
}

// HarborDue is why the wait for a HarborCluster is over.
type HarborDue struct {
	// Gone: there is no such HarborCluster, or not any more.
	Gone bool `json:"gone,omitempty"`
	// UID and Generation are those of the object that was looked at. Another UID than before: everything begins anew.
	UID        types.UID `json:"uid,omitempty"`
	Generation int64     `json:"generation,omitempty"`
	// Deleting: somebody has deleted it, with this policy about its data.
	Deleting       bool                      `json:"deleting,omitempty"`
	DeletionPolicy goharborv1.DeletionPolicy `json:"deletionPolicy,omitempty"`
	// Unheld: it does not have our finalizer.
	Unheld bool `json:"unheld,omitempty"`
	// Status as it is now. Outdated: the object's own says something else.
	Status   goharborv1.HarborClusterStatus `json:"status"`
	Outdated bool                           `json:"outdated,omitempty"`
	// Parts that are to be applied.
	Parts []harbor.Due `json:"parts,omitempty"`
	// Moot are parts of which it does not matter any more that they could not be applied.
	Moot []harbor.Part `json:"moot,omitempty"`
}

// harborResync is how often the API server itself is looked at although nothing has changed.
const harborResync = time.Minute

// AwaitHarborDue watches a HarborCluster and all that belongs to it, until something is to be done or said about it. Errors: NotFound when the
// cluster does not serve HarborClusters.
func (h *Harbor) AwaitHarborDue(ctx context.Context, in AwaitHarborDueInput) (HarborDue, error) {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return HarborDue{}, err
	}
	l := &harborLook{cluster: cluster, in: in, secrets: kube.KeepIn(secretMetadata(in.Namespace))}
	for {
		deadline := time.Now().Add(harborResync)
		if l.again != nil && l.again.Before(deadline) {
			deadline = *l.again
		}
		done, err := Waits{}.awaitUntil(ctx, &deadline, cluster, l.kinds(), func(ctx context.Context, reader client.Reader) (temporal.Observation, bool, error) {
			before := l.again
			due, err := l.look(ctx, reader)
			return temporal.Observation{}, due || !sameInstant(before, l.again), err
		})
		if err != nil {
			return HarborDue{}, l.explain(err)
		}
		if done && l.isDue {
			return l.due, nil
		}
	}
}

func secretMetadata(namespace string) *metav1.PartialObjectMetadata {
	secret := &metav1.PartialObjectMetadata{}
	secret.SetGroupVersionKind(harbor.Secret)
	secret.SetNamespace(namespace)
	return secret
}

// harborLook is one attempt at AwaitHarborDue.
type harborLook struct {
	cluster *kube.Cluster
	in      AwaitHarborDueInput
	secrets *kube.Kept
	due     HarborDue
	isDue   bool
	// again is when to look again although nothing changes.
	again *time.Time
}

// kinds are all objects that matter.
func (l *harborLook) kinds() []client.Object {
	hc := &goharborv1.HarborCluster{}
	hc.Namespace, hc.Name = l.in.Namespace, l.in.Name
	ingress := &networkingv1.Ingress{}
	ingress.Namespace = l.in.Namespace
	return append(harborServiceKinds(l.in.Namespace), hc, l.secrets, kube.IfServed(ingress))
}

// harborServiceKinds are the objects of a namespace that HarborClusters are judged by, but for Secrets.
func harborServiceKinds(namespace string) []client.Object {
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

// look looks at everything, and reports whether something is due. A cache that may be behind what we have written ourselves is not believed.
func (l *harborLook) look(ctx context.Context, reader client.Reader) (bool, error) {
	due, err := l.lookAt(ctx, reader)
	if err == nil && due && l.behind() && reader != client.Reader(l.cluster.Client) {
		due, err = l.lookAt(ctx, l.cluster.Client)
	}
	l.isDue = due && err == nil
	return l.isDue, err
}

// behind: what was seen may be of before the object was made or changed last, or its status or finalizer written.
func (l *harborLook) behind() bool {
	if l.due.Gone || l.due.UID == l.in.UID && l.due.Generation < l.in.Status.ObservedGeneration {
		return true
	}
	return len(l.due.Parts) == 0 && !l.due.Deleting && l.due.UID == l.in.UID && sameHarborStatus(l.in.Status, l.due.Status)
}

func (l *harborLook) lookAt(ctx context.Context, reader client.Reader) (bool, error) {
	l.again = nil
	now := time.Now()
	found, err := readHarborCluster(ctx, reader, l.in.HarborRef)
	if err != nil {
		return false, err
	}
	if found == nil {
		l.due = HarborDue{Gone: true}
		return true, nil
	}
	in := l.in
	if in.UID != found.UID {
		in.Status, in.Applied = found.Status, nil
	}
	l.due = HarborDue{
		UID: found.UID, Generation: found.Generation, Deleting: found.DeletionTimestamp != nil, DeletionPolicy: found.Spec.DeletionPolicy,
		Unheld: !hasFinalizer(found),
	}
	if l.due.Deleting {
		return true, nil
	}
	own := found.Status
	found.Status = in.Status
	seen, err := l.see(ctx, reader, found)
	if err != nil {
		return false, err
	}
	judged := harbor.Judge(found, seen, in.Applied, now)
	evaluation := judged.Evaluation
	l.due.Status = goharborv1.HarborClusterStatus{Status: evaluation.Status, ObservedGeneration: found.Generation, Conditions: evaluation.Conditions}
	l.due.Outdated = !sameHarborStatus(own, l.due.Status)
	l.due.Parts, l.due.Moot, l.again = judged.Due, judged.Moot, judged.Again
	if in.Held {
		l.due.Parts, l.again = nil, nil
	}
	if next := harbor.NextLook(found, seen.Observed, evaluation, now); next != nil && next.After(now) && (l.again == nil || next.Before(*l.again)) {
		l.again = next
	}
	changed := in.UID != found.UID || !sameHarborStatus(in.Status, l.due.Status)
	return changed || l.due.Outdated || l.due.Unheld || len(l.due.Parts) > 0, nil
}

// see reads what the services are judged by, and how the objects are that were applied.
func (l *harborLook) see(ctx context.Context, reader client.Reader, hc *goharborv1.HarborCluster) (harbor.Seen, error) {
	observed, err := snapshot.HarborServices(ctx, reader, hc)
	if err != nil {
		return harbor.Seen{}, err
	}
	seen := harbor.Seen{Observed: observed, Versions: map[string]string{}}
	for _, secret := range l.secrets.List() {
		observed.Secrets[secret.Name] = true
		seen.Versions[harbor.VersionKey(harbor.Secret.Kind, secret.Name)] = harbor.VersionOf(secret)
	}
	for _, object := range []*unstructured.Unstructured{observed.Postgresql, observed.RedisFailover, observed.Tenant, observed.Harbor} {
		if object != nil {
			seen.Versions[harbor.VersionKey(object.GetKind(), object.GetName())] = harbor.VersionOf(object)
		}
	}
	for _, object := range harbor.Storage(hc).Objects {
		if object.GroupVersionKind() != harbor.Ingress {
			continue
		}
		ingress := &networkingv1.Ingress{}
		err := reader.Get(ctx, client.ObjectKeyFromObject(object), ingress)
		if client.IgnoreNotFound(err) != nil {
			return harbor.Seen{}, err
		}
		if err == nil {
			seen.Versions[harbor.VersionKey(harbor.Ingress.Kind, ingress.Name)] = harbor.VersionOf(ingress)
		}
	}
	return seen, nil
}

// readHarborCluster returns the HarborCluster; nil: there is none.
func readHarborCluster(ctx context.Context, reader client.Reader, ref HarborRef) (*goharborv1.HarborCluster, error) {
	found := &goharborv1.HarborCluster{}
	err := reader.Get(ctx, client.ObjectKey{Namespace: ref.Namespace, Name: ref.Name}, found)
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	return found, err
}

// sameHarborStatus compares what Drydock says of a HarborCluster. Conditions of other types are somebody else's.
func sameHarborStatus(a, b goharborv1.HarborClusterStatus) bool {
	if a.Status != b.Status || a.ObservedGeneration != b.ObservedGeneration {
		return false
	}
	for _, condition := range b.Conditions {
		if !equality.Semantic.DeepEqual(truncated(conditionOf(a, condition.Type)), truncated(condition)) {
			return false
		}
	}
	return true
}

func conditionOf(status goharborv1.HarborClusterStatus, kind goharborv1.ConditionType) goharborv1.HarborClusterCondition {
	for _, condition := range status.Conditions {
		if condition.Type == kind {
			return condition
		}
	}
	return goharborv1.HarborClusterCondition{}
}

// truncated is the condition as an API server keeps it: its times are whole seconds.
func truncated(condition goharborv1.HarborClusterCondition) goharborv1.HarborClusterCondition {
	for _, at := range []**metav1.Time{&condition.LastTransitionTime, &condition.FirstReadyTime} {
		if *at != nil {
			whole := metav1.NewTime((*at).Truncate(time.Second).UTC())
			*at = &whole
		}
	}
	return condition
}

func (l *harborLook) explain(err error) error {
	return explainHarbor(l.cluster, l.in.HarborRef, "look at "+l.in.String(), err)
}

// explainHarbor is explain, and says what to do about a kind that is missing, and about rights.
func explainHarbor(cluster *kube.Cluster, ref HarborRef, doing string, err error) error {
	switch {
	case meta.IsNoMatchError(err):
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("cluster %s: %s: %v: install the CRDs with `drydock setup`", cluster.Name, doing, err), err)
	case apierrors.IsForbidden(err):
		return temporal.Error(temporal.ErrClusterUnreachable, fmt.Sprintf("cluster %s: %s: %v: apply deploy/rbac/harbor.yaml, and bind ClusterRole drydock-harbor-namespace in namespace %s",
			cluster.Name, doing, err, ref.Namespace), err)
	}
	return explain(cluster, doing, err)
}
