package snapshot

import (
	"context"
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
)

// Rollouts reads the rollouts that block a rollout, and their blockers in turn: their objects, or else what is saved of them on the hub.
func Rollouts(ctx context.Context, reader client.Reader, cgu *ranv1.ClusterGroupUpgrade) (map[types.NamespacedName]*ranv1.ClusterGroupUpgrade, error) {
	return rollout.GatherBlockers(cgu, func(name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, error) {
		var object ranv1.ClusterGroupUpgrade
		err := reader.Get(ctx, name, &object)
		if err == nil {
			return &object, nil
		}
		if !apierrors.IsNotFound(err) && !meta.IsNoMatchError(err) {
			return nil, fmt.Errorf("get ClusterGroupUpgrade %s: %w", name, err)
		}
		var saved corev1.ConfigMap
		err = reader.Get(ctx, SavedKey(name), &saved)
		switch {
		case apierrors.IsNotFound(err):
			return nil, nil
		case err != nil:
			return nil, fmt.Errorf("read rollout %s: %w", name, err)
		}
		return SavedRollout(&saved, name)
	})
}

// SavedKey is the ConfigMap of a saved rollout.
func SavedKey(rolloutName types.NamespacedName) client.ObjectKey {
	return client.ObjectKey{Namespace: kube.SystemNamespace, Name: rollout.SavedName(rolloutName.Namespace, rolloutName.Name)}
}

// maxSaved is the maximum length, in bytes, of a saved rollout. One of 10,000 clusters has about 2 MB.
const maxSaved = 16 << 20

// SavedRollout reads a saved rollout from its ConfigMap; nil if the ConfigMap belongs to another rollout, whose shortened name is the same.
func SavedRollout(saved *corev1.ConfigMap, name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, error) {
	object, _, err := SavedRolloutContent(saved, name)
	return object, err
}

// SavedRolloutContent is SavedRollout that also returns the content, as it was before it was compressed.
func SavedRolloutContent(saved *corev1.ConfigMap, name types.NamespacedName) (*ranv1.ClusterGroupUpgrade, []byte, error) {
	where := "ConfigMap " + saved.Namespace + "/" + saved.Name
	content := saved.BinaryData[rollout.SavedCompressedKey]
	if text, found := saved.Data[rollout.SavedKey]; found {
		content = []byte(text)
	} else if content == nil {
		return nil, nil, errors.New(where + " is not Drydock's: it has no " + rollout.SavedKey)
	}
	var object ranv1.ClusterGroupUpgrade
	content, err := readLimited(content, &object)
	if err != nil {
		return nil, nil, fmt.Errorf("%s cannot be read: %w: correct or delete it", where, err)
	}
	if object.Name != name.Name || object.Namespace != name.Namespace {
		return nil, nil, nil
	}
	return &object, content, nil
}

// readLimited reads YAML that may be compressed, and not more than maxSaved. It returns the YAML.
func readLimited(content []byte, object any) ([]byte, error) {
	content, err := readAll(content, maxSaved)
	if err != nil {
		return nil, err
	}
	return content, yaml.Unmarshal(content, object)
}
