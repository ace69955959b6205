package manifest_test

import (
	"context"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/manifest"
)

// The schema's rules are the same offline and in a cluster: both refuse the same objects and name the same fields.
func TestAClusterAndTheOfflineCheckRefuseTheSameObjects(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{
		Name: "hub", CRDs: []string{"deploy/crds"}, ControlPlaneOnly: true,
	}}})
	cluster := newDryRun(t, stack.Cluster("hub").Config)

	t.Run("a valid rollout", func(t *testing.T) {
		objects, err := manifest.Parse("f", []byte(goodRollout))
		require.NoError(t, err)
		require.NoError(t, cluster.create(t.Context(), objects[0]))
	})
	for _, test := range invalidCases() {
		objects, err := manifest.Parse("f", []byte(test.text))
		if err != nil || objects[0].GroupVersionKind().Group == "" {
			continue // It is not a kind of Drydock's, so a cluster cannot check it.
		}
		t.Run(test.name, func(t *testing.T) {
			err := cluster.create(t.Context(), objects[0])
			if test.onlyOffline {
				require.NoError(t, err)
				return
			}
			require.Equal(t, test.fieldsNamedByCluster(), fieldsNamedIn(t, err))
		})
	}
	create := func(t *testing.T, name, spec string) *unstructured.Unstructured {
		objects, err := manifest.Parse("f", []byte(request(spec)))
		require.NoError(t, err)
		maintenance := objects[0]
		maintenance.SetNamespace(metav1.NamespaceDefault)
		maintenance.SetName(name)
		require.NoError(t, cluster.client.Create(t.Context(), maintenance))
		return maintenance
	}
	changeOf := func(t *testing.T, maintenance *unstructured.Unstructured, value any, path ...string) error {
		changed := maintenance.DeepCopy()
		unstructured.RemoveNestedField(changed.Object, path...)
		if value != nil {
			require.NoError(t, unstructured.SetNestedField(changed.Object, value, path...))
		}
		return cluster.client.Update(t.Context(), changed, client.DryRunAll)
	}
	t.Run("the release in the lock requests of a request cannot be changed", func(t *testing.T) {
		with, without := create(t, "with-release", "lockRelease: \"25.1\""), create(t, "without-release", "cordon: true")
		require.NoError(t, changeOf(t, with, "25.1", "spec", "lockRelease"))
		for _, err := range []error{
			changeOf(t, with, "25.2", "spec", "lockRelease"), changeOf(t, with, nil, "spec", "lockRelease"), changeOf(t, without, "25.1", "spec", "lockRelease"),
		} {
			require.ErrorContains(t, err, "spec.lockRelease: Invalid value")
			require.ErrorContains(t, err, "cannot be changed: ask with another NodeMaintenance")
		}
	})
	t.Run("the requestor and the node of a request cannot be changed", func(t *testing.T) {
		maintenance := create(t, "fixed", "cordon: true")
		change := func(value any, path ...string) error { return changeOf(t, maintenance, value, path...) }
		require.NoError(t, change(false, "spec", "cordon"))
		for _, name := range []string{"requestorID", "nodeName"} {
			err := change("other", "spec", name)
			require.Equal(t, []string{"spec." + name}, fieldsNamedIn(t, err))
			require.ErrorContains(t, err, `"other": cannot be changed: ask with another NodeMaintenance`)
		}
	})
}

// fieldsNamedByCluster returns the fields that a cluster names: by default those of the lines.
func (c invalidCase) fieldsNamedByCluster() []string {
	fields := c.cluster
	for _, line := range c.lines {
		if c.cluster == nil { // file, object, field, message
			fields = append(fields, strings.SplitN(line, ": ", 4)[2])
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
}

// fieldsNamedIn returns the fields that a cluster names when it refuses an object. It names a field as the cause of a refusal; at the end of the
// cause, if a number does not fit; or as an unknown field, which it reports first.
func fieldsNamedIn(t *testing.T, err error) []string {
	require.Error(t, err)
	var fields []string
	for _, unknown := range regexp.MustCompile(`unknown field "([^"]+)"`).FindAllStringSubmatch(err.Error(), -1) {
		fields = append(fields, unknown[1])
	}
	if len(fields) == 0 {
		var refusal apierrors.APIStatus
		require.ErrorAs(t, err, &refusal)
		require.NotNil(t, refusal.Status().Details, err)
		for _, cause := range refusal.Status().Details.Causes {
			_, atEnd, misfit := strings.Cut(cause.Message, "Checked value must be of type integer with format int32 in ")
			switch {
			case misfit:
				fields = append(fields, strings.Trim(atEnd, `"`))
			case cause.Field != "<nil>": // a rule that it did not check because of other problems
				fields = append(fields, cause.Field)
			}
		}
	}
	slices.Sort(fields)
	return slices.Compact(fields)
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
