package rollouts

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

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// SaveRolloutInput is a rollout with its status.
type SaveRolloutInput struct {
	Object ranv1.ClusterGroupUpgrade `json:"object"`
	// Owner is the ownership mark of the rollout's workflow.
	Owner string `json:"owner"`
	// RunID is the run of the workflow, which answers for the rollout. It differs from that in Owner after continue-as-new.
	RunID string `json:"runID"`
}

// annotationRun of a saved rollout is its SaveRolloutInput.RunID.
const annotationRun = "drydock.dev/run"

// SaveRollout saves a rollout with its status on the hub, in the ConfigMap of snapshot.SavedKey. It replaces the ConfigMap of an earlier run of the
// rollout. Errors: NotFound if the namespace does not exist or may not be written; InvalidSpec if the ConfigMap does not belong to the rollout.
func (r *Activities) SaveRollout(ctx context.Context, in SaveRolloutInput) error {
	hub, err := r.Clusters.Hub(ctx)
	if err != nil {
		return err
	}
	saved, err := savedRollout(in)
	if err != nil {
		return err
	}
	err = hub.Client.Create(ctx, saved)
	if apierrors.IsAlreadyExists(err) {
		err = replaceSaved(ctx, hub, saved)
	}
	name := "ConfigMap " + client.ObjectKeyFromObject(saved).String()
	switch {
	case apierrors.IsNotFound(err):
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("%s: the hub has no namespace %s", name, saved.Namespace), err)
	case apierrors.IsForbidden(err):
		return temporal.Error(temporal.ErrNotFound, fmt.Sprintf("%s may not be written: apply deploy/rbac/hub.yaml to the hub", name), err)
	}
	return activitykit.Explain(hub, "write "+name, err)
}

// savedRollout is the ConfigMap of a saved rollout.
func savedRollout(in SaveRolloutInput) (*corev1.ConfigMap, error) {
	in.Object.TypeMeta = metav1.TypeMeta{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade"}
	content, err := yaml.Marshal(in.Object)
	if err != nil {
		return nil, err
	}
	key := snapshot.SavedKey(client.ObjectKeyFromObject(&in.Object))
	saved := &corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: key.Namespace, Name: key.Name,
			Labels:      map[string]string{activitykit.LabelManagedBy: activitykit.ManagedBy},
			Annotations: map[string]string{kube.AnnotationOwner: in.Owner, annotationRun: in.RunID},
		},
	}
	activitykit.SetDigest(saved, content)
	if len(content) <= plainLimit {
		saved.Data = map[string]string{rollout.SavedKey: string(content)}
		return saved, nil
	}
	compressed, err := compress(content)
	saved.BinaryData = map[string][]byte{rollout.SavedCompressedKey: compressed}
	return saved, err
}

// plainLimit is the maximum length, in bytes, of a rollout that is saved as text. A ConfigMap has at most 1 MiB.
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

// replaceSaved replaces the ConfigMap of an earlier rollout, or of an attempt whose answer was lost.
func replaceSaved(ctx context.Context, hub *kube.Cluster, saved *corev1.ConfigMap) error {
	var existing corev1.ConfigMap
	if err := hub.Client.Get(ctx, client.ObjectKeyFromObject(saved), &existing); err != nil {
		return err
	}
	theirs, _ := kube.OwnerWorkflow(kube.Owner(&existing))
	if ours, _ := kube.OwnerWorkflow(kube.Owner(saved)); theirs != ours {
		return temporal.Error(temporal.ErrInvalidSpec, fmt.Sprintf("ConfigMap %s/%s is not that of this rollout: annotation %s does not name workflow %s",
			existing.Namespace, existing.Name, kube.AnnotationOwner, ours), nil)
	}
	saved.ResourceVersion = existing.ResourceVersion
	return hub.Client.Update(ctx, saved)
}
