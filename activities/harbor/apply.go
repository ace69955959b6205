package harbor

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// ApplyPartInput names a part of a HarborCluster to apply.
type ApplyPartInput struct {
	Ref
	harbor.Due
	// Generation of the HarborCluster that it is due for.
	Generation int64 `json:"generation,omitempty"`
}

// applyTimeout limits a request: less than the time of an attempt, so that the error names the request. Tests raise it, because their servers may be slow.
var applyTimeout = 8 * time.Second

// answerTimeout limits the check whether the API server answers at all.
const answerTimeout = time.Second

// ApplyHarborPart applies a part of a HarborCluster with its current spec from the API server. A second call changes nothing. Errors: NotFound if the
// HarborCluster is gone, is being deleted, or is another one; InvalidSpec if an object is refused, or belongs to another owner; Held if the cluster is held.
func (h *Activities) ApplyHarborPart(ctx context.Context, in ApplyPartInput) (harbor.Applied, error) {
	cluster, err := h.Clusters.Cluster(ctx, in.Cluster)
	if err != nil {
		return harbor.Applied{}, err
	}
	if err := h.Waits.UnlessHeld(ctx); err != nil {
		return harbor.Applied{}, err
	}
	doing := fmt.Sprintf("apply the %s of %s", in.Part, in.Ref)
	defer h.Waits.StartReport(ctx, temporal.Observation{Part: string(in.Part), Wait: &drydockv1.Wait{Reason: harbor.ReasonApplying, Message: doing + ": there is no answer yet"}})()
	applying, cancel := context.WithTimeout(ctx, applyTimeout)
	defer cancel()
	a := &apply{cluster: cluster, in: in, versions: map[string]string{}}
	err = a.run(applying)
	switch {
	case err == nil:
	case apierrors.IsForbidden(err):
		// The cluster answers: this part cannot be applied.
		return harbor.Applied{}, temporal.Error(temporal.ErrInvalidSpec, temporal.ErrorMessage(explainHarbor(cluster, in.Ref, doing, err)), err)
	case errors.Is(applying.Err(), context.DeadlineExceeded) && answers(ctx, cluster, in.Ref):
		return harbor.Applied{}, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %s: its API server answers, but not this within %s, as when an admission webhook hangs: %v",
			cluster.Name, doing, applyTimeout, err), err)
	default:
		return harbor.Applied{}, explainHarbor(cluster, in.Ref, doing, err)
	}
	return harbor.Applied{Wanted: in.Wanted, Versions: a.versions, At: time.Now()}, nil
}

// answers reports whether an API server answers.
func answers(ctx context.Context, cluster *kube.Cluster, ref Ref) bool {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout)
	defer cancel()
	_, err := readHarborCluster(ctx, cluster.Client, ref)
	return err == nil
}

// apply is one attempt at ApplyHarborPart.
type apply struct {
	cluster *kube.Cluster
	in      ApplyPartInput

	mu       sync.Mutex
	versions map[string]string
}

func (a *apply) run(ctx context.Context) error {
	hc, err := a.read(ctx)
	switch {
	case err != nil:
		return err
	case hc == nil || hc.DeletionTimestamp != nil || hc.UID != a.in.UID:
		return temporal.Error(temporal.ErrNotFound, a.in.Ref.String()+" is gone, or is being deleted", nil)
	}
	switch a.in.Part {
	case harbor.PartBucket:
		return a.createJob(ctx, hc)
	case harbor.PartHarbor:
		return a.applyService(ctx, hc)
	}
	manifest := harbor.ManifestOf(hc, a.in.Part)
	for _, credentials := range manifest.Credentials {
		if err := a.createCredentials(ctx, hc, credentials); err != nil {
			return err
		}
	}
	secrets, err := a.storageSecrets(ctx, hc)
	if err != nil {
		return err
	}
	if err := a.applyAll(ctx, hc, append(secrets, manifest.Objects...)); err != nil {
		return err
	}
	return a.removeUnwanted(ctx, hc, manifest.Unwanted)
}

// storageSecrets returns the Secrets of the storage's operator; none for other parts. A change of their source makes the part due again.
func (a *apply) storageSecrets(ctx context.Context, hc *goharborv1.HarborCluster) ([]*unstructured.Unstructured, error) {
	if a.in.Part != harbor.PartStorage {
		return nil, nil
	}
	sources, err := a.readSources(ctx, hc.Namespace, harbor.StorageSources(hc))
	if err != nil {
		return nil, err
	}
	for _, source := range sources {
		a.took(harbor.Secret.Kind, source, nil)
	}
	secrets, err := harbor.StorageSecrets(hc, harbor.ReadValues(hc, dataOf(sources)))
	if err != nil {
		return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %v", a.cluster.Name, err), err)
	}
	return secrets, nil
}

// removeUnwanted deletes those of the unwanted objects that belong to the HarborCluster.
func (a *apply) removeUnwanted(ctx context.Context, hc *goharborv1.HarborCluster, unwanted []harbor.Object) error {
	removal := removal{cluster: a.cluster, hc: hc, part: a.in.Part}
	for _, object := range unwanted {
		if _, err := removal.remove(ctx, metadataOf(object.Kind, hc.Namespace, object.Name)); err != nil {
			return fmt.Errorf("%s %s/%s: %w", object.Kind.Kind, hc.Namespace, object.Name, err)
		}
	}
	return nil
}

// read reads the HarborCluster: from the cache, if that has the observed version.
func (a *apply) read(ctx context.Context) (*goharborv1.HarborCluster, error) {
	hc, err := readHarborCluster(ctx, a.cluster.Cache, a.in.Ref)
	if err == nil && hc != nil && hc.UID == a.in.UID && hc.Generation == a.in.Generation && hc.DeletionTimestamp == nil {
		return hc, nil
	}
	return readHarborCluster(ctx, a.cluster.Client, a.in.Ref)
}

// applyService applies Harbor with the values from its services: first its Secrets, then Harbor. It writes nothing unless it may write all objects.
func (a *apply) applyService(ctx context.Context, hc *goharborv1.HarborCluster) error {
	var sources []*corev1.Secret
	var asking errgroup.Group
	asking.Go(func() (err error) {
		sources, err = a.readSources(ctx, hc.Namespace, harbor.SourceSecrets(hc))
		return err
	})
	for _, object := range harbor.ServiceObjects(hc) {
		asking.Go(func() error { return a.mayApply(ctx, hc, metadataOf(object.Kind, hc.Namespace, object.Name)) })
	}
	if err := asking.Wait(); err != nil {
		return err
	}
	objects, err := harbor.Service(hc, harbor.ReadValues(hc, dataOf(sources)))
	if err != nil {
		return err
	}
	last := len(objects) - 1
	var applying errgroup.Group
	for _, object := range objects[:last] {
		applying.Go(func() error { return a.apply(ctx, object) })
	}
	if err := applying.Wait(); err != nil {
		return err
	}
	return a.apply(ctx, objects[last])
}

// readSources reads the Secrets from which others are built; of alternative names, the first that exists.
func (a *apply) readSources(ctx context.Context, namespace string, sources [][]string) ([]*corev1.Secret, error) {
	found := make([]*corev1.Secret, len(sources))
	var reading errgroup.Group
	for i, names := range sources {
		reading.Go(func() (err error) {
			found[i], err = a.readFirst(ctx, namespace, names)
			return err
		})
	}
	if err := reading.Wait(); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(found, func(secret *corev1.Secret) bool { return secret == nil }), nil
}

// dataOf are the values of Secrets, by name.
func dataOf(secrets []*corev1.Secret) map[string]map[string][]byte {
	data := map[string]map[string][]byte{}
	for _, secret := range secrets {
		data[secret.Name] = secret.Data
	}
	return data
}

// readFirst reads the first existing Secret; nil: none exists.
func (a *apply) readFirst(ctx context.Context, namespace string, names []string) (*corev1.Secret, error) {
	for _, name := range names {
		secret := &corev1.Secret{}
		err := a.cluster.Client.Get(ctx, client.ObjectKey{Namespace: namespace, Name: name}, secret)
		if err == nil || !apierrors.IsNotFound(err) {
			return secret, err
		}
	}
	return nil, nil
}

func (a *apply) applyAll(ctx context.Context, hc *goharborv1.HarborCluster, objects []*unstructured.Unstructured) error {
	for _, object := range objects {
		if err := a.mayApply(ctx, hc, metadataOf(object.GroupVersionKind(), object.GetNamespace(), object.GetName())); err != nil {
			return err
		}
		if err := a.apply(ctx, object); err != nil {
			return err
		}
	}
	return nil
}

// mayApply reads an object before it is applied: one that the Harbor operator created for the HarborCluster is adopted, one of another owner is not.
func (a *apply) mayApply(ctx context.Context, hc *goharborv1.HarborCluster, there *metav1.PartialObjectMetadata) error {
	err := ownByLabel(ctx, a.cluster.Client, hc, there)
	if err == nil && !harbor.Belongs(there, hc.Name) {
		return a.isTheirs(hc, there)
	}
	return client.IgnoreNotFound(err)
}

// isTheirs returns the error for an object of another owner.
func (a *apply) isTheirs(hc *goharborv1.HarborCluster, object *metav1.PartialObjectMetadata) error {
	return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("cluster %s: %s exists and is not of this HarborCluster: delete it, or set its label %s=%s to let Drydock adopt it",
		a.cluster.Name, activitykit.ObjectName(object), harbor.LabelCluster, hc.Name), nil)
}

// apply applies an object, takes over fields of other writers, and records its version.
func (a *apply) apply(ctx context.Context, object *unstructured.Unstructured) error {
	set := object.GetAnnotations()
	if err := a.cluster.Client.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.ForceOwnership); err != nil {
		return fmt.Errorf("%s: %w", activitykit.ObjectName(object), err)
	}
	a.took(object.GetKind(), object, set)
	return nil
}

// took records the version of an object and its annotations from Drydock.
func (a *apply) took(kind string, object metav1.Object, set map[string]string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.versions[harbor.VersionKey(kind, object.GetName())] = harbor.VersionOf(object, set)
}

// createCredentials creates a Secret with random values, unless it exists: its values may be in use.
func (a *apply) createCredentials(ctx context.Context, hc *goharborv1.HarborCluster, credentials harbor.Credentials) error {
	secret := credentials.Secret(hc)
	secret.StringData = map[string]string{}
	for _, keys := range credentials.Keys {
		value := rand.Text()[:credentialLength]
		for _, key := range keys {
			secret.StringData[key] = value
		}
	}
	var there metav1.Object = secret
	err := a.cluster.Client.Create(ctx, secret)
	if apierrors.IsAlreadyExists(err) {
		found := metadataOf(harbor.Secret, secret.Namespace, secret.Name)
		there, err = found, ownByLabel(ctx, a.cluster.Client, hc, found)
	}
	if err != nil {
		return fmt.Errorf("secret %s/%s: %w", secret.Namespace, secret.Name, err)
	}
	a.took(harbor.Secret.Kind, there, nil)
	return nil
}

// credentialLength is 100 bits in base32, and the maximum length of a MinIO access key.
const credentialLength = 20

// createJob creates the Job that creates the bucket, and replaces an outdated one. Any other existing Job stays, because a Job cannot be changed.
func (a *apply) createJob(ctx context.Context, hc *goharborv1.HarborCluster) error {
	job := harbor.BucketJob(hc)
	if job == nil {
		return nil
	}
	if err := a.removeOutdated(ctx, hc, metadataOf(harbor.Job, job.GetNamespace(), job.GetName())); err != nil {
		return err
	}
	if err := a.cluster.Client.Create(ctx, job); err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("job %s/%s: %w", job.GetNamespace(), job.GetName(), err)
	}
	return nil
}

// removeOutdated deletes the replaced object, if it still exists.
func (a *apply) removeOutdated(ctx context.Context, hc *goharborv1.HarborCluster, there *metav1.PartialObjectMetadata) error {
	if a.in.Replaces == "" {
		return nil
	}
	err := a.cluster.Client.Get(ctx, client.ObjectKeyFromObject(there), there)
	switch {
	case apierrors.IsNotFound(err) || err == nil && there.UID != a.in.Replaces:
		return nil
	case err == nil && !harbor.Belongs(there, hc.Name):
		return a.isTheirs(hc, there)
	case err == nil:
		err = kube.DeleteExactly(ctx, a.cluster.Client, there, client.PropagationPolicy(metav1.DeletePropagationBackground))
	}
	if err != nil {
		return fmt.Errorf("%s: %w", activitykit.ObjectName(there), err)
	}
	return nil
}
