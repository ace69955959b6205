// Package snapshot reads the objects that a decision needs, from a live cluster or from a file of objects as printed by kubectl. Both are a
// client.Reader, so offline and live decisions are the same.
package snapshot

import (
	"bytes"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/manifestworks"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/rollout"
)

// File has the objects of a cluster, read from a file. It answers like an API server that serves all kinds and has only these objects.
type File struct {
	scheme  *runtime.Scheme
	objects map[schema.GroupVersionKind][]*unstructured.Unstructured
	// named has the same objects by name.
	named map[schema.GroupVersionKind]map[client.ObjectKey]*unstructured.Unstructured
}

// Open reads a file of YAML documents, JSON, or lists, compressed with gzip or not; "-" is stdin. An object that appears twice is
// refused, and so is an unsupported version of a known kind, which decisions would overlook. Unknown kinds are ignored. Problems in the
// content are a manifest.Invalid.
func Open(path string, stdin io.Reader) (*File, error) {
	name, text, err := read(path, stdin)
	if err != nil {
		return nil, err
	}
	return Parse(name, text)
}

// Parse reads the text of a file. Errors contain its name.
func Parse(name string, text []byte) (*File, error) {
	scheme, err := newScheme()
	if err != nil {
		return nil, err
	}
	text, err = readAll(text, max(minDecompressed, maxRatio*len(text)))
	if err != nil {
		return nil, manifest.Invalid{{File: name, Message: "decompress: " + err.Error()}}
	}
	objects, err := manifest.Parse(name, text)
	invalid, unreadable := errors.AsType[manifest.Invalid](err)
	if err != nil && !unreadable {
		return nil, err
	}
	file := &File{
		scheme: scheme, objects: map[schema.GroupVersionKind][]*unstructured.Unstructured{},
		named: map[schema.GroupVersionKind]map[client.ObjectKey]*unstructured.Unstructured{},
	}
	seen := map[string]bool{}
	for _, object := range objects {
		identity := describe(object.GroupVersionKind().GroupKind(), object.GetNamespace(), object.GetName())
		problems := file.refuse(object)
		if seen[identity] {
			problems = []manifest.Problem{{Message: "appears twice"}}
		}
		for _, problem := range problems {
			problem.File, problem.Object = name, identity
			invalid = append(invalid, problem)
		}
		seen[identity] = true
		gvk := object.GroupVersionKind()
		file.objects[gvk] = append(file.objects[gvk], object)
		if file.named[gvk] == nil {
			file.named[gvk] = map[client.ObjectKey]*unstructured.Unstructured{}
		}
		file.named[gvk][client.ObjectKeyFromObject(object)] = object
	}
	if len(invalid) > 0 {
		return nil, invalid
	}
	return file, nil
}

// newScheme has the kinds that decisions read as Go types, each in the one version they read.
func newScheme() (*runtime.Scheme, error) {
	scheme := runtime.NewScheme()
	return scheme, errors.Join(
		corev1.AddToScheme(scheme), appsv1.AddToScheme(scheme), batchv1.AddToScheme(scheme), policyv1.AddToScheme(scheme),
		drydockv1.AddToScheme(scheme), goharborv1.AddToScheme(scheme), lcmv1.AddToScheme(scheme), maintenancev1.AddToScheme(scheme), ranv1.AddToScheme(scheme),
	)
}

// untypedKinds are the kinds that decisions read without a Go type, with the only version that they read.
var untypedKinds = []schema.GroupVersionKind{
	policies.ManagedClusters, manifestworks.Templates, policies.Policies, policies.ClusterSets, policies.SetBindings,
	harbor.Postgresql, harbor.RedisFailover, harbor.Tenant, harbor.Harbor,
}

// versionsOf returns the versions of a kind that decisions read; none: they do not read the kind.
func (f *File) versionsOf(kind schema.GroupKind) []schema.GroupVersion {
	for _, untyped := range untypedKinds {
		if untyped.GroupKind() == kind {
			return []schema.GroupVersion{untyped.GroupVersion()}
		}
	}
	return f.scheme.VersionsForGroupKind(kind)
}

// refuse returns the problems of an object; none if it is valid or unused.
func (f *File) refuse(object *unstructured.Unstructured) []manifest.Problem {
	if wrong := manifest.Convert(map[string]any{"metadata": object.Object["metadata"]}, &metav1.PartialObjectMetadata{}); wrong != nil {
		return []manifest.Problem{*wrong}
	}
	gvk := object.GroupVersionKind()
	versions := f.versionsOf(gvk.GroupKind())
	switch {
	case len(versions) == 0:
		return nil
	case !slices.Contains(versions, gvk.GroupVersion()):
		return []manifest.Problem{{Message: fmt.Sprintf("version %s is not one that is read; it is read as %s", gvk.Version, versions[0])}}
	case object.GetName() == "":
		return []manifest.Problem{{Field: "metadata.name", Message: "must be set"}}
	case gvk == policies.Policies:
		return refusePolicy(object)
	case gvk == maintenancev1.GroupVersion.WithKind("MaintenanceOperatorConfig"):
		return manifest.Check(object)
	}
	typed, err := f.scheme.New(gvk)
	if runtime.IsNotRegisteredError(err) {
		return nil
	}
	if err != nil {
		return []manifest.Problem{{Message: err.Error()}}
	}
	if wrong := manifest.Convert(object.Object, typed); wrong != nil {
		return []manifest.Problem{*wrong}
	}
	return nil
}

// refusePolicy returns the problems of a root policy. Replicas are unused.
func refusePolicy(object *unstructured.Unstructured) []manifest.Problem {
	if _, replica := object.GetLabels()[policies.LabelRoot]; replica {
		return nil
	}
	if _, err := rollout.ReadPolicy(object); err != nil {
		return []manifest.Problem{{Message: errors.Unwrap(err).Error()}} // without the name
	}
	return nil
}

// describe names an object: Kind.group namespace/name.
func describe(kind schema.GroupKind, namespace, name string) string {
	if namespace != "" {
		name = namespace + "/" + name
	}
	return strings.TrimSpace(kind.String() + " " + name)
}

func read(path string, stdin io.Reader) (name string, text []byte, err error) {
	if path == manifest.Stdin {
		text, err = io.ReadAll(stdin)
		return "stdin", text, err
	}
	text, err = os.ReadFile(path)
	return path, text, err
}

// A compressed file may have minDecompressed bytes of text, or maxRatio times its own length if that is more. gzip can make a text a thousand times shorter, but not
// one of objects.
const (
	minDecompressed = 64 << 20
	maxRatio        = 100
)

// readAll returns text, or what gzip text contains, which starts with 1f 8b (RFC 1952). More than limit bytes are an error.
func readAll(text []byte, limit int) ([]byte, error) {
	if bytes.HasPrefix(text, []byte{0x1f, 0x8b}) {
		reader, err := gzip.NewReader(bytes.NewReader(text))
		if err != nil {
			return nil, err
		}
		if text, err = io.ReadAll(io.LimitReader(reader, int64(limit)+1)); err != nil {
			return nil, err
		}
	}
	if len(text) > limit {
		return nil, fmt.Errorf("it has more than %d MiB", limit>>20)
	}
	return text, nil
}
