package snapshot_test

import (
	"bytes"
	"compress/gzip"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/snapshot"
)

const pods = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-1, labels: {app: web}}, spec: {nodeName: n1}}
- {apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: db-1, labels: {app: db}}, spec: {nodeName: n2}}
- {apiVersion: v1, kind: Pod, metadata: {namespace: blog, name: web-1, labels: {app: web}}, spec: {nodeName: n1}}
---
{apiVersion: example.com/v1, kind: Gadget, metadata: {name: g}, spec: 7}
`

func podNames(list corev1.PodList) []string {
	var names []string
	for _, pod := range list.Items {
		names = append(names, pod.Namespace+"/"+pod.Name)
	}
	return names
}

func TestAFileAnswersLikeAnAPIServer(t *testing.T) {
	file, err := snapshot.Parse("cluster.yaml", []byte(pods))
	require.NoError(t, err)
	tests := []struct {
		name    string
		options []client.ListOption
		want    []string
	}{
		{"everything", nil, []string{"shop/web-1", "shop/db-1", "blog/web-1"}},
		{"of a namespace", []client.ListOption{client.InNamespace("shop")}, []string{"shop/web-1", "shop/db-1"}},
		{"with a label", []client.ListOption{client.MatchingLabels{"app": "web"}}, []string{"shop/web-1", "blog/web-1"}},
		{"with a field", []client.ListOption{client.MatchingFields{"spec.nodeName": "n1"}, client.InNamespace("blog")}, []string{"blog/web-1"}},
		{"none", []client.ListOption{client.InNamespace("none")}, nil},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			var list corev1.PodList
			require.NoError(t, file.List(t.Context(), &list, test.options...))
			require.Equal(t, test.want, podNames(list))
		})
	}

	var pod corev1.Pod
	require.NoError(t, file.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-1"}, &pod))
	require.Equal(t, "n1", pod.Spec.NodeName)
	require.True(t, apierrors.IsNotFound(file.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "web-9"}, &pod)))

	var nodes corev1.NodeList
	require.NoError(t, file.List(t.Context(), &nodes))
	require.Empty(t, nodes.Items)
}

func TestAFileReturnsTypedAndUntypedObjects(t *testing.T) {
	file, err := snapshot.Parse("cluster.yaml", []byte(pods))
	require.NoError(t, err)
	podKind := schema.GroupVersionKind{Version: "v1", Kind: "Pod"}

	untyped := &unstructured.Unstructured{}
	untyped.SetGroupVersionKind(podKind)
	require.NoError(t, file.Get(t.Context(), client.ObjectKey{Namespace: "shop", Name: "db-1"}, untyped))
	node, _, _ := unstructured.NestedString(untyped.Object, "spec", "nodeName")
	require.Equal(t, "n2", node)

	metadata := &metav1.PartialObjectMetadataList{}
	metadata.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "PodList"})
	require.NoError(t, file.List(t.Context(), metadata, client.InNamespace("blog")))
	require.Equal(t, "web-1", metadata.Items[0].Name)
	require.Equal(t, podKind, metadata.Items[0].GroupVersionKind())

	unknown := &unstructured.UnstructuredList{}
	unknown.SetGroupVersionKind(schema.GroupVersionKind{Group: "example.com", Version: "v1", Kind: "GadgetList"})
	require.NoError(t, file.List(t.Context(), unknown))
	require.Len(t, unknown.Items, 1)
}

func TestChangedObjectsDoNotChangeTheFile(t *testing.T) {
	file, err := snapshot.Parse("cluster.yaml", []byte(pods))
	require.NoError(t, err)
	list := &unstructured.UnstructuredList{}
	list.SetGroupVersionKind(schema.GroupVersionKind{Version: "v1", Kind: "PodList"})
	require.NoError(t, file.List(t.Context(), list))
	list.Items[0].SetName("changed")
	require.NoError(t, file.List(t.Context(), list))
	require.Equal(t, "web-1", list.Items[0].GetName())
}

func TestAFileMayBeCompressedOrStandardInput(t *testing.T) {
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	_, err := writer.Write([]byte(pods))
	require.NoError(t, err)
	require.NoError(t, writer.Close())
	path := filepath.Join(t.TempDir(), "cluster.yaml.gz")
	require.NoError(t, os.WriteFile(path, compressed.Bytes(), 0o600))

	for name, open := range map[string]func() (*snapshot.File, error){
		"file":  func() (*snapshot.File, error) { return snapshot.Open(path, nil) },
		"stdin": func() (*snapshot.File, error) { return snapshot.Open("-", strings.NewReader(pods)) },
	} {
		file, err := open()
		require.NoError(t, err, name)
		var list corev1.PodList
		require.NoError(t, file.List(t.Context(), &list), name)
		require.Len(t, list.Items, 3, name)
	}
	_, err = snapshot.Open(filepath.Join(t.TempDir(), "none"), nil)
	require.ErrorIs(t, err, os.ErrNotExist)
}

// A small file may contain a huge text.
func TestACompressedFileIsReadToALimit(t *testing.T) {
	var bomb bytes.Buffer
	writer := gzip.NewWriter(&bomb)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range 65 {
		_, err := writer.Write(chunk)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	require.Less(t, bomb.Len(), 100<<10)
	_, err := snapshot.Parse("cluster.yaml", bomb.Bytes())
	require.EqualError(t, err, "cluster.yaml: decompress: it has more than 64 MiB")
}

func TestAnUntrustworthyFileIsRefused(t *testing.T) {
	tests := []struct{ name, text, message string }{
		{
			"an object that appears twice", pods + "---\n{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-1}}",
			"cluster.yaml: Pod shop/web-1: appears twice",
		},
		{
			"a version that no decision reads",
			"{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {namespace: shop, name: web}}",
			"cluster.yaml: PodDisruptionBudget.policy shop/web: version v1beta1 is not one that is read; it is read as policy/v1",
		},
		{
			"a value of the wrong type", "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: 'yes'}}",
			"cluster.yaml: Node n1: spec.unschedulable: must be of type boolean, not string",
		},
		{
			"a version of an untyped kind that no decision reads",
			"{apiVersion: cluster.open-cluster-management.io/v1alpha1, kind: ManagedCluster, metadata: {name: c1}}",
			"cluster.yaml: ManagedCluster.cluster.open-cluster-management.io c1: version v1alpha1 is not one that is read; it is read as cluster.open-cluster-management.io/v1",
		},
		{
			"a version of another operator's kind that no decision reads", "{apiVersion: minio.min.io/v1, kind: Tenant, metadata: {namespace: h, name: t}}",
			"cluster.yaml: Tenant.minio.min.io h/t: version v1 is not one that is read; it is read as minio.min.io/v2",
		},
		{
			"a label of an untyped kind that is not a string",
			"{apiVersion: cluster.open-cluster-management.io/v1, kind: ManagedCluster, metadata: {name: c1, labels: {env: prod, size: 5}}}",
			"cluster.yaml: ManagedCluster.cluster.open-cluster-management.io c1: metadata.labels[size]: must be of type string, not number",
		},
		{
			"a label that is not a string", "{apiVersion: v1, kind: Node, metadata: {name: n1, labels: {x: true}}}",
			"cluster.yaml: Node n1: metadata.labels[x]: must be of type string, not bool",
		},
		{"an object without a name", "{apiVersion: v1, kind: Node}", "cluster.yaml: Node: metadata.name: must be set"},
		{
			"a policy with a field of the wrong type",
			"{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {namespace: d, name: p}, status: {status: {c1: Compliant}}}",
			"cluster.yaml: Policy.policy.open-cluster-management.io d/p: status.status: must be a list",
		},
		{
			"an invalid limit", operatorConfig("maxParallelOperations: 'x%'"),
			"cluster.yaml: MaintenanceOperatorConfig.maintenance.nvidia.com drydock/default: spec.maxParallelOperations: " + operatorConfigRefused(t, "maxParallelOperations: 'x%'"),
		},
		{
			"a negative limit", operatorConfig("maxUnavailable: -1"),
			"cluster.yaml: MaintenanceOperatorConfig.maintenance.nvidia.com drydock/default: spec.maxUnavailable: " + operatorConfigRefused(t, "maxUnavailable: -1"),
		},
		{
			"a budget with an invalid node selector", operatorConfig("budgets: [{name: db, maxUnavailable: 1, nodeSelector: {role: db}}]"),
			"cluster.yaml: MaintenanceOperatorConfig.maintenance.nvidia.com drydock/default: spec.budgets[0].nodeSelector.role: unknown field",
		},
		{"a text that is not an object", "just text", "cluster.yaml: document 1: is not a Kubernetes object"},
		{"a truncated compressed file", "\x1f\x8b\x08", "cluster.yaml: decompress: unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := snapshot.Parse("cluster.yaml", []byte(test.text))
			require.IsType(t, manifest.Invalid{}, err)
			require.EqualError(t, err, test.message)
		})
	}
}

// operatorConfig is a configuration of a cluster with these fields.
func operatorConfig(fields string) string {
	return "{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {namespace: drydock, name: default}, spec: {" + fields + "}}"
}

// operatorConfigRefused returns the error for a configuration with these fields.
func operatorConfigRefused(t *testing.T, fields string) string {
	_, err := manifest.Decode("f", []byte(operatorConfig(fields)))
	invalid, _ := errors.AsType[manifest.Invalid](err)
	require.Len(t, invalid, 1)
	return invalid[0].Message
}

func TestUnusedObjectsAreIgnored(t *testing.T) {
	for name, text := range map[string]string{
		"a replica of a policy": "{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {namespace: c1, name: d.p, labels: {policy.open-cluster-management.io/root-policy: d.p}}, status: 7}",
		"an unknown kind":       "{apiVersion: example.com/v1, kind: Gadget, spec: 7}",
		"a null":                "{apiVersion: policy.open-cluster-management.io/v1, kind: Policy, metadata: {namespace: d, name: p}, spec: {dependencies: null, policy-templates: null}, status: {status: null}}",
		"a configuration as stored in a cluster": `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: MaintenanceOperatorConfig
metadata:
  {namespace: drydock, name: default, uid: 6a0e0c1e-3f5b-4a0e-8f2f-6a8d1f6f7b11, resourceVersion: "7", generation: 2, creationTimestamp: 2026-01-10T12:00:00Z,
   managedFields: [{manager: kubectl, operation: Update, apiVersion: maintenance.nvidia.com/v1alpha1, time: "2026-01-10T12:00:00Z", fieldsType: FieldsV1, fieldsV1: {"f:spec": {}}}]}
spec: {maxParallelOperations: 10%, maxUnavailable: 2, logLevel: info}
status: {of: another}`,
	} {
		_, err := snapshot.Parse("cluster.yaml", []byte(text))
		require.NoError(t, err, name)
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(pods))
	f.Add([]byte("{apiVersion: v1, kind: NodeList, items: [{metadata: {name: n}}, {}]}"))
	f.Fuzz(func(t *testing.T, text []byte) {
		file, err := snapshot.Parse("fuzz", text)
		if err != nil {
			require.IsType(t, manifest.Invalid{}, err)
			require.NotEmpty(t, err.Error())
			return
		}
		require.NoError(t, file.List(t.Context(), &corev1.NodeList{}))
		require.NoError(t, file.List(t.Context(), &corev1.PodList{}, client.MatchingFields{"spec.nodeName": "n"}))
	})
}
