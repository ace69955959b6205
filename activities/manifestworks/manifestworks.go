// Package manifestworks holds the activities that remediate clusters with manifest works.
package manifestworks

import (
	"context"
	"fmt"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/remediation"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// Activities places manifest works in the namespaces of clusters on the hub. It does not touch the clusters themselves.
type Activities struct {
	Clusters *kube.Clusters
	Waits    activitykit.Waits
}

// Rollout is a rollout of manifest works.
type Rollout struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	// Owner is the mark of the rollout's workflow.
	Owner string `json:"owner"`
	// Templates are in the order in which clusters get them.
	Templates []string `json:"templates"`
	// Pins has for each template the prepared generation; empty before that.
	Pins []string `json:"pins,omitempty"`
}

func (r Rollout) name() types.NamespacedName {
	return types.NamespacedName{Namespace: r.Namespace, Name: r.Name}
}

// Prepared is a prepared template.
type Prepared struct {
	Template string `json:"template"`
	// Work is the name of its work in the namespace of each cluster.
	Work string `json:"work"`
	// Pin identifies the generation of the template.
	Pin string `json:"pin"`
}

// PrepareManifestWorks reads the templates of a rollout. Errors: NotFound if a template does not exist; InvalidSpec if a template cannot be placed on
// clusters.
func (m *Activities) PrepareManifestWorks(ctx context.Context, in Rollout) ([]Prepared, error) {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return nil, err
	}
	var prepared []Prepared
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
			return nil, temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("%s: %v", activitykit.ObjectName(template), err), err)
		}
		prepared = append(prepared, Prepared{Template: name, Work: manifestworks.WorkName(in.name(), name), Pin: manifestworks.Pin(template)})
	}
	return prepared, nil
}

func (r Rollout) template(ctx context.Context, hub *kube.Cluster, name string) (*unstructured.Unstructured, error) {
	template := &unstructured.Unstructured{}
	template.SetGroupVersionKind(manifestworks.Templates)
	err := hub.Client.Get(ctx, client.ObjectKey{Namespace: r.Namespace, Name: name}, template)
	if apierrors.IsNotFound(err) {
		return nil, temporal.Error(temporal.ErrNotFound, fmt.Sprintf("manifest work template %s/%s does not exist on the hub", r.Namespace, name), err)
	}
	return template, activitykit.Explain(hub, "read manifest work template "+r.Namespace+"/"+name, err)
}

// CleanUpWorksInput is the input of CleanUpManifestWorks.
type CleanUpWorksInput struct {
	Rollout
	// Keep are the clusters, sorted, that keep the work of the last template.
	Keep []string `json:"keep,omitempty"`
}

func (in CleanUpWorksInput) keeps(work client.Object) bool {
	_, kept := slices.BinarySearch(in.Keep, work.GetNamespace())
	return kept && work.GetName() == manifestworks.WorkName(in.name(), in.Templates[len(in.Templates)-1])
}

// CleanUpManifestWorks deletes the manifest works of a rollout, except those that clusters keep and those with another owner.
func (m *Activities) CleanUpManifestWorks(ctx context.Context, in CleanUpWorksInput) error {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	works, _, err := in.works(ctx, hub)
	if err != nil {
		return err
	}
	var deletes errgroup.Group // a failure does not stop the others
	deletes.SetLimit(activitykit.MaxParallelRequests)
	for _, work := range works {
		if !in.keeps(work) {
			deletes.Go(func() error { return activitykit.DeleteOwned(ctx, hub, activitykit.ObjectName(work), work) })
		}
	}
	return deletes.Wait()
}

// AwaitWorksInput is the known compliance of clusters with works.
type AwaitWorksInput struct {
	Rollout  Rollout                 `json:"rollout"`
	Clusters []policies.KnownCluster `json:"clusters"`
	// Gather is how long changes are gathered after the first one.
	Gather time.Duration `json:"gather"`
}

// AwaitManifestWorks waits until the compliance of clusters with their current work differs from the known one, and returns it.
func (m *Activities) AwaitManifestWorks(ctx context.Context, in AwaitWorksInput) ([]policies.ClusterCompliance, error) {
	reader, err := m.reader(ctx, in.Rollout)
	if err != nil {
		return nil, err
	}
	return reader.Await(ctx, in.Clusters, in.Gather)
}

// AwaitRemovedInput names clusters with the items that they get next.
type AwaitRemovedInput struct {
	Rollout  Rollout          `json:"rollout"`
	Clusters []UnfinishedWork `json:"clusters"`
}

// AwaitRemoved waits until one of the clusters has no other work of the rollout than the item that it gets next. The agent of a cluster removes the manifests of
// a deleted work first.
func (m *Activities) AwaitRemoved(ctx context.Context, in AwaitRemovedInput) error {
	hub, err := m.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	kind := &unstructured.Unstructured{}
	kind.SetGroupVersionKind(manifestworks.Works)
	return activitykit.Waits{}.Await(ctx, hub, []client.Object{kind}, func(ctx context.Context) (temporal.Observation, bool, error) {
		for _, next := range in.Clusters {
			list := &unstructured.UnstructuredList{}
			list.SetGroupVersionKind(manifestworks.Works.GroupVersion().WithKind(manifestworks.Works.Kind + "List"))
			if err := hub.Cache.List(ctx, list, client.InNamespace(next.Cluster), client.MatchingLabels(policies.RolloutLabels(in.Rollout.name()))); err != nil {
				return temporal.Observation{}, false, activitykit.Explain(hub, "list the manifest works of the rollout", err)
			}
			wanted := manifestworks.WorkName(in.Rollout.name(), in.Rollout.Templates[next.Item])
			if !slices.ContainsFunc(list.Items, func(work unstructured.Unstructured) bool {
				return work.GetName() != wanted && kube.OwnedBy(&work, in.Rollout.Owner)
			}) {
				return temporal.Observation{}, true, nil
			}
		}
		return temporal.Observation{}, false, nil
	})
}

// ReadWorksInput names the clusters of a rollout of works.
type ReadWorksInput struct {
	Rollout  Rollout  `json:"rollout"`
	Clusters []string `json:"clusters"`
}

// ReadManifestWorks reads the compliance of clusters with the works of a rollout from the API server of the hub.
func (m *Activities) ReadManifestWorks(ctx context.Context, in ReadWorksInput) ([]policies.ClusterCompliance, error) {
	reader, err := m.reader(ctx, in.Rollout)
	if err != nil {
		return nil, err
	}
	return reader.Read(ctx, in.Clusters)
}

func (m *Activities) reader(ctx context.Context, in Rollout) (remediation.ComplianceReader, error) {
	hub, err := m.Clusters.Hub(ctx)
	s := remediation.ComplianceReader{Hub: hub, Kind: manifestworks.Works, Judge: func(_ int, work *unstructured.Unstructured) (policies.Compliance, time.Time) {
		if work != nil && !kube.OwnedBy(work, in.Owner) {
			work = nil // it is left over from an earlier run
		}
		return manifestworks.ComplianceOf(work), time.Time{}
	}}
	for _, template := range in.Templates {
		s.Names = append(s.Names, manifestworks.WorkName(in.name(), template))
	}
	return s, err
}
