package activities

import (
	"bytes"
	"compress/gzip"
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// The label of the ConfigMaps that keep rollouts.
const (
	labelManagedBy = "app.kubernetes.io/managed-by"
	drydock        = "drydock"
)

// KeepRolloutInput is a rollout that is over.
type KeepRolloutInput struct {
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// Owner is the mark of the rollout's workflow.
	Owner string `json:"owner"`
}

// KeepRollout keeps a rollout and its final status on the hub, in the ConfigMap drydock-<name> of the rollout's namespace, in place of that
// of an earlier rollout of the name. Errors: NotFound when there is no such namespace, or no right to write there; InvalidSpec when
// the ConfigMap is somebody else's.
func (r *Rollouts) KeepRollout(ctx context.Context, in KeepRolloutInput) error {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	kept, err := keptRollout(in)
	if err != nil {
		return err
	}
	err = hub.Client.Create(ctx, kept)
	if apierrors.IsAlreadyExists(err) {
		err = replaceKept(ctx, hub, kept)
	}
	name := "ConfigMap " + client.ObjectKeyFromObject(kept).String()
	switch {
	case apierrors.IsNotFound(err):
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("%s: the hub has no namespace %s", name, kept.Namespace), err)
	case apierrors.IsForbidden(err):
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("%s may not be written: bind ClusterRole drydock-rollouts in namespace %s of the hub", name, kept.Namespace), err)
	}
	return explain(hub, "write "+name, err)
}

// keptRollout is the ConfigMap that keeps a rollout.
func keptRollout(in KeepRolloutInput) (*corev1.ConfigMap, error) {
	in.Object.TypeMeta = metav1.TypeMeta{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade"}
	content, err := yaml.Marshal(in.Object)
	if err != nil {
		return nil, err
	}
	kept := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: in.Object.Namespace, Name: rollout.KeptName(in.Object.Name),
			Labels:      map[string]string{labelManagedBy: drydock},
			Annotations: map[string]string{kube.AnnotationOwner: in.Owner},
		},
	}
	if len(content) <= plainLimit {
		kept.Data = map[string]string{rollout.KeptKey: string(content)}
		return kept, nil
	}
	compressed, err := compress(content)
	kept.BinaryData = map[string][]byte{rollout.KeptCompressedKey: compressed}
	return kept, err
}

// plainLimit is how long a rollout may be, in bytes, that is kept as text: a ConfigMap has room for 1 MiB.
const plainLimit = 768 << 10

func compress(content []byte) ([]byte, error) {
	var compressed bytes.Buffer
	writer, err := gzip.NewWriterLevel(&compressed, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := writer.Write(content); err != nil {
		return nil, err
	}
	err = writer.Close()
	return compressed.Bytes(), err
}

// replaceKept writes over the ConfigMap of an earlier rollout, or of an attempt whose answer was lost.
func replaceKept(ctx context.Context, hub *kube.Cluster, kept *corev1.ConfigMap) error {
	var existing corev1.ConfigMap
	if err := hub.Client.Get(ctx, client.ObjectKeyFromObject(kept), &existing); err != nil {
		return err
	}
	if existing.Labels[labelManagedBy] != drydock {
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("ConfigMap %s/%s is not Drydock's (label %s is not %s)",
			existing.Namespace, existing.Name, labelManagedBy, drydock), nil)
	}
	kept.ResourceVersion = existing.ResourceVersion
	return hub.Client.Update(ctx, kept)
}
