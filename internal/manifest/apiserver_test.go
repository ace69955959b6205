package manifest_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/manifest"
)

// TestAClusterRefusesWhatFilesAreRefusedFor shows that there is one rule set: what the schema can express is refused offline if, and only
// if, a cluster refuses it.
func TestAClusterRefusesWhatFilesAreRefusedFor(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{
		Name: "hub", CRDs: []string{"deploy/crds"}, ControlPlaneOnly: true,
	}}})
	cluster := newDryRun(t, stack.Cluster("hub").Config)

	t.Run("a good rollout", func(t *testing.T) {
		objects, err := manifest.Parse("f", []byte(goodRollout))
		require.NoError(t, err)
		require.NoError(t, cluster.create(t.Context(), objects[0]))
	})
	for _, test := range invalidCases() {
		objects, err := manifest.Parse("f", []byte(test.text))
		if err != nil || objects[0].GroupVersionKind().Group == "" {
			continue // Not an object of ours, so there is nothing that a cluster could judge.
		}
		t.Run(test.name, func(t *testing.T) {
			err := cluster.create(t.Context(), objects[0])
			if test.onlyHere {
				require.NoError(t, err)
				return
			}
			require.Error(t, err)
		})
	}
}

// dryRun asks a cluster whether it would accept an object, unknown fields being errors.
type dryRun struct{ client client.Client }

func newDryRun(t *testing.T, config *rest.Config) dryRun {
	c, err := client.New(config, client.Options{})
	require.NoError(t, err)
	return dryRun{client: c}
}

func (d dryRun) create(ctx context.Context, object *unstructured.Unstructured) error {
	if namespaced, err := d.client.IsObjectNamespaced(object); err == nil && namespaced {
		object.SetNamespace(metav1.NamespaceDefault)
	}
	return d.client.Create(ctx, object, client.DryRunAll, client.FieldValidation(metav1.FieldValidationStrict))
}
