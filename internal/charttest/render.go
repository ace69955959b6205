// Package charttest renders the chart of deploy/chart, and runs the containers of rendered pods as processes.
package charttest

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/yaml"
	sigsyaml "sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// Object is a rendered object, with its text.
type Object struct {
	*unstructured.Unstructured
	Text []byte
}

// Chart is the directory of the chart, relative to the root of the repository.
const Chart = "deploy/chart"

// Helm runs helm in the root of the repository, and returns what it prints. The error has its messages.
func Helm(ctx context.Context, args ...string) (string, error) {
	root, err := devstack.RepositoryRoot()
	if err != nil {
		return "", err
	}
	program := filepath.Join(root, "bin/tools/helm")
	if _, err := os.Stat(program); err != nil {
		return "", fmt.Errorf("%w: make helm builds it", err)
	}
	run := exec.CommandContext(ctx, program, args...)
	run.Dir = root
	run.Env = append(os.Environ(), "KUBECONFIG="+os.DevNull)
	var messages bytes.Buffer
	run.Stderr = &messages
	printed, err := run.Output()
	if err != nil {
		return string(printed), fmt.Errorf("helm %s: %w: %s%s", args[0], err, printed, messages.String())
	}
	return string(printed), nil
}

// Template returns what `helm template` prints for the chart. Arguments are those of helm, such as --values FILE.
func Template(ctx context.Context, args ...string) (string, error) {
	return Helm(ctx, append([]string{"template", "drydock", Chart, "--namespace", kube.SystemNamespace}, args...)...)
}

// Render is Template as objects.
func Render(ctx context.Context, args ...string) ([]Object, error) {
	text, err := Template(ctx, args...)
	if err != nil {
		return nil, err
	}
	return Decode(text)
}

// Decode reads the objects of a text with YAML documents.
func Decode(text string) ([]Object, error) {
	var objects []Object
	for documents := yaml.NewYAMLReader(bufio.NewReader(strings.NewReader(text))); ; {
		document, err := documents.Read()
		if errors.Is(err, io.EOF) {
			return objects, nil
		}
		if err != nil {
			return nil, err
		}
		text, err := sigsyaml.YAMLToJSON(document)
		if string(text) == "null" {
			continue // a document with only comments
		}
		object := &unstructured.Unstructured{}
		if err == nil {
			err = object.UnmarshalJSON(text)
		}
		if err != nil {
			return nil, fmt.Errorf("%w in:\n%s", err, document)
		}
		objects = append(objects, Object{object, document})
	}
}

// PodOf returns the pod of a rendered workload.
func PodOf(objects []Object, kind, name string) (corev1.PodSpec, error) {
	var pod corev1.PodSpec
	for _, object := range objects {
		if object.GetKind() == kind && object.GetName() == name {
			template, _, err := unstructured.NestedMap(object.Object, "spec", "template", "spec")
			if err != nil {
				return pod, err
			}
			return pod, runtime.DefaultUnstructuredConverter.FromUnstructuredWithValidation(template, &pod, true)
		}
	}
	return pod, fmt.Errorf("no %s %s is rendered", kind, name)
}
