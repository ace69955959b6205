package snapshot_test

import (
	"bytes"
	"compress/gzip"
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

func TestAFileGivesObjectsInEveryForm(t *testing.T) {
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

func TestWhatIsChangedIsNotTheFile(t *testing.T) {
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

func TestAFileThatCannotBeTrustedIsRefused(t *testing.T) {
	tests := []struct{ name, text, message string }{
		{
			"an object that is there twice", pods + "---\n{apiVersion: v1, kind: Pod, metadata: {namespace: shop, name: web-1}}",
			"cluster.yaml: Pod shop/web-1: is there twice",
		},
		{
			"a version that no decision reads, so that it would be overlooked",
			"{apiVersion: policy/v1beta1, kind: PodDisruptionBudget, metadata: {namespace: shop, name: web}}",
			"cluster.yaml: PodDisruptionBudget.policy shop/web: version v1beta1 is not one that is read; it is read as policy/v1",
		},
		{
			"a value of the wrong type", "{apiVersion: v1, kind: Node, metadata: {name: n1}, spec: {unschedulable: 'yes'}}",
			"cluster.yaml: Node n1: spec.unschedulable: must be of type boolean, not string",
		},
		{"what is no object", "just text", "cluster.yaml: document 1: is not a Kubernetes object"},
		{"a compressed file that is cut", "\x1f\x8b\x08", "cluster.yaml: decompress: unexpected EOF"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			_, err := snapshot.Parse("cluster.yaml", []byte(test.text))
			require.IsType(t, manifest.Invalid{}, err)
			require.EqualError(t, err, test.message)
		})
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
