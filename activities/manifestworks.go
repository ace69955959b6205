package activities

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// ManifestWorks brings manifests to clusters by works in their namespaces on the hub. The clusters themselves are not touched.
type ManifestWorks struct {
	Clusters *kube.Clusters
	Waits    Waits
}

// WorkRollout is a rollout of manifest works.
type WorkRollout struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the mark of the rollout's workflow.
	Owner string `json:"owner"`
	// Templates in the order of their turns.
	Templates []string `json:"templates"`
}

func (r WorkRollout) name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// PreparedWork is a template as a rollout found it.
type PreparedWork struct {
	Template string `json:"template"`
	// Work is the name of its work in the namespace of each cluster.
	Work string `json:"work"`
	// Pin is what the template was.
	Pin string `json:"pin"`
}

// PrepareManifestWorks reads the templates of a rollout. Errors: NotFound when one is not there any more; InvalidSpec when one cannot be brought to clusters.
func (m *ManifestWorks) PrepareManifestWorks(ctx context.Context, in WorkRollout) ([]PreparedWork, error) {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	var prepared []PreparedWork
	for _, name := range in.Templates {
		template, err := in.template(ctx, hub, name)
		if err != nil {
			return nil, err
		}
		_, err = manifestworks.ExpectedValues(template.GetAnnotations())
		if err == nil {
			_, err = manifestworks.Work(in.name(), template, in.Namespace)
		}
		if err != nil {
			return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s: %v", nameOf(template), err), err)
		}
		prepared = append(prepared, PreparedWork{Template: name, Work: manifestworks.WorkName(in.name(), name), Pin: manifestworks.Pin(template)})
	}
	return prepared, nil
}

func (r WorkRollout) template(ctx context.Context, hub *kube.Cluster, name string) (*unstructured.Unstructured, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(manifestworks.Templates)
	err := hub.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, template)
	if apierrors.IsNotFound(err) {
		return nil, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("manifest work template %s/%s is not on the hub any more", r.Namespace, name), err)
	}
	return template, explain(hub, "read manifest work template "+r.Namespace+"/"+name, err)
}

// PlaceWorksInput says to which clusters which works are to be brought, and from which they are to be taken.
type PlaceWorksInput struct {
	Rollout WorkRollout   `json:"rollout"`
	Works   []PlacedWorks `json:"works"`
	// Closes is as in TakeNodeInput: the earliest of the clusters that get a work.
	Closes *time.Time `json:"closes,omitempty"`
}

// added are the clusters on which something new begins.
func (in PlaceWorksInput) added() []string {
	var added []string
	for _, placed := range in.Works {
		added = append(added, placed.Added...)
	}
	return added
}

// PlacedWorks is what changes with the works of one template.
type PlacedWorks struct {
	// Template is its number among those of the rollout; Pin what it must still be.
	Template int      `json:"template"`
	Pin      string   `json:"pin"`
	Added    []string `json:"added,omitempty"`
	Removed  []string `json:"removed,omitempty"`
}

// RefusedWork is a work that could not be made, or deleted, for a reason that has to do with its cluster alone.
type RefusedWork struct {
	Cluster string `json:"cluster"`
	// Template is its number among those of the rollout.
	Template int `json:"template"`
	// Reason is a CamelCase word, Message says it to a person.
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// Final: no further attempt can change that.
	Final bool `json:"final,omitempty"`
}

// reasonNotPlaced is the reason of a work that the hub refuses for now.
const reasonNotPlaced = "NotPlaced"

// PlaceManifestWorks makes and deletes works, and returns those that could not be: one cluster must not keep the others waiting. Errors: Held when a
// cluster is that gets one; NotFound and InvalidSpec when a template is not what it was when the rollout began: clusters must not get different things from
// one rollout.
func (m *ManifestWorks) PlaceManifestWorks(ctx context.Context, in PlaceWorksInput) ([]RefusedWork, error) {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	if err := m.Waits.mayBeginOn(ctx, in.added(), in.Closes); err != nil {
		return nil, err
	}
	refused := []RefusedWork{}
	for _, placed := range in.Works {
		name := in.Rollout.Templates[placed.Template]
		found, err := placed.each(ctx, placed.Removed, func(ctx context.Context, cluster string) error {
			return in.Rollout.remove(ctx, hub, cluster, name)
		})
		refused = append(refused, found...)
		if err != nil {
			return nil, err
		}
		if len(placed.Added) == 0 {
			continue
		}
		template, err := in.Rollout.template(ctx, hub, name)
		if err != nil {
			return nil, err
		}
		if manifestworks.Pin(template) != placed.Pin {
			return nil, temporal.Error(temporal.ErrInvalidSpec, nameOf(template)+" has been changed since the rollout began: start another rollout with it", nil)
		}
		found, err = placed.each(ctx, placed.Added, func(ctx context.Context, cluster string) error {
			return in.Rollout.bring(ctx, hub, template, cluster)
		})
		refused = append(refused, found...)
		if err != nil {
			return nil, err
		}
	}
	return refused, nil
}

// each writes the works of clusters side by side, and returns those that are refused, by cluster.
func (p PlacedWorks) each(ctx context.Context, clusters []string, write func(context.Context, string) error) ([]RefusedWork, error) {
	var mu sync.Mutex
	var refused []RefusedWork
	writes, writing := errgroup.WithContext(ctx)
	writes.SetLimit(requestsAtOnce)
	for _, cluster := range clusters {
		writes.Go(func() error {
			err := write(writing, cluster)
			refusal := refusalOf(cluster, err)
			if refusal == nil {
				return err
			}
			refusal.Cluster, refusal.Template = cluster, p.Template
			mu.Lock()
			defer mu.Unlock()
			refused = append(refused, *refusal)
			return nil
		})
	}
	err := writes.Wait()
	slices.SortFunc(refused, func(a, b RefusedWork) int { return strings.Compare(a.Cluster, b.Cluster) })
	return refused, err
}

// refusalOf tells what has to do with one cluster from what any other request would meet as well; nil: it is none.
func refusalOf(cluster string, err error) *RefusedWork {
	var deleted beingDeleted
	switch {
	case apierrors.IsNotFound(err):
		return &RefusedWork{Reason: ranv1.ReasonClusterVanished, Message: "the hub has no namespace for the cluster", Final: true}
	case apierrors.HasStatusCause(err, corev1.NamespaceTerminatingCause):
		return &RefusedWork{Reason: reasonNotPlaced, Message: "namespace " + cluster + " of the hub is being deleted"}
	case errors.As(err, &deleted):
		return &RefusedWork{Reason: reasonNotPlaced, Message: deleted.message}
	case temporal.Final(err):
		return &RefusedWork{Reason: temporal.ErrorType(err), Message: temporal.ErrorMessage(err), Final: true}
	case apierrors.IsForbidden(err), apierrors.IsBadRequest(err): // as admission webhooks answer
		return &RefusedWork{Reason: reasonNotPlaced, Message: temporal.ErrorMessage(err)}
	}
	return nil
}

func (r WorkRollout) bring(ctx context.Context, hub *kube.Cluster, template *unstructured.Unstructured, cluster string) error {
	work, err := manifestworks.Work(r.name(), template, cluster)
	if err != nil {
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s: %v", nameOf(template), err), err)
	}
	return takeOver(ctx, hub, work, r.Owner)
}

func (r WorkRollout) remove(ctx context.Context, hub *kube.Cluster, cluster, template string) error {
	work := &unstructured.Unstructured{}
	work.SetGroupVersionKind(manifestworks.Works)
	work.SetNamespace(cluster)
	work.SetName(manifestworks.WorkName(r.name(), template))
	work.SetAnnotations(map[string]string{kube.AnnotationOwner: r.Owner})
	return deleteOurs(ctx, hub, nameOf(work), work)
}

// WithdrawWorksInput says what of a rollout is to go.
type WithdrawWorksInput struct {
	WorkRollout
	// Keep are the clusters, sorted, on which the work of the last template stays.
	Keep []string `json:"keep,omitempty"`
}

func (in WithdrawWorksInput) keeps(work client.Object) bool {
	_, kept := slices.BinarySearch(in.Keep, work.GetNamespace())
	return kept && work.GetName() == manifestworks.WorkName(in.name(), in.Templates[len(in.Templates)-1])
}

// WithdrawManifestWorks deletes all works that were made for a rollout, but for those that stay. What bears another mark is left alone.
func (m *ManifestWorks) WithdrawManifestWorks(ctx context.Context, in WithdrawWorksInput) error {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	list := &metav1.PartialObjectMetadataList{}
	list.SetGroupVersionKind(manifestworks.Works.GroupVersion().WithKind(manifestworks.Works.Kind + "List"))
	if err := hub.Client.List(ctx, list, client.MatchingLabels(policies.RolloutLabels(in.name()))); err != nil {
		return explain(hub, "list the manifest works of the rollout", err)
	}
	var deletes errgroup.Group // one that cannot be deleted keeps no other
	deletes.SetLimit(requestsAtOnce)
	for i := range list.Items {
		work := &list.Items[i]
		work.SetGroupVersionKind(manifestworks.Works)
		if kube.OwnedBy(work, in.Owner) && work.GetDeletionTimestamp() == nil && !in.keeps(work) {
			deletes.Go(func() error { return deleteOurs(ctx, hub, nameOf(work), work) })
		}
	}
	return deletes.Wait()
}

// AwaitWorksInput says how clusters stood to the works of templates when that was last looked at.
type AwaitWorksInput struct {
	Rollout  WorkRollout             `json:"rollout"`
	Clusters []policies.KnownCluster `json:"clusters"`
	// Gather is how long changes are gathered from the first on.
	Gather time.Duration `json:"gather"`
}

// AwaitManifestWorks waits until some of the clusters stand in another way than is known to the works whose turn it is, and says how.
func (m *ManifestWorks) AwaitManifestWorks(ctx context.Context, in AwaitWorksInput) ([]policies.ClusterStanding, error) {
	standings, err := m.standings(ctx, in.Rollout)
	if err != nil {
		return nil, err
	}
	return standings.await(ctx, in.Clusters, in.Gather)
}

// ReadWorksInput names the clusters of a rollout of works.
type ReadWorksInput struct {
	Rollout  WorkRollout `json:"rollout"`
	Clusters []string    `json:"clusters"`
}

// ReadManifestWorks asks the API server of the hub how clusters stand to the works of a rollout.
func (m *ManifestWorks) ReadManifestWorks(ctx context.Context, in ReadWorksInput) ([]policies.ClusterStanding, error) {
	standings, err := m.standings(ctx, in.Rollout)
	if err != nil {
		return nil, err
	}
	return standings.read(ctx, in.Clusters)
}

func (m *ManifestWorks) standings(ctx context.Context, in WorkRollout) (standings, error) {
	hub, err := m.Clusters.Hub(ctx)
	s := standings{hub: hub, kind: manifestworks.Works, judge: func(work *unstructured.Unstructured) policies.Compliance {
		if work != nil && !kube.OwnedBy(work, in.Owner) {
			return manifestworks.StandingOf(nil) // one that an earlier run has left was not brought by this one
		}
		return manifestworks.StandingOf(work)
	}}
	for _, template := range in.Templates {
		s.names = append(s.names, manifestworks.WorkName(in.name(), template))
	}
	return s, err
}
