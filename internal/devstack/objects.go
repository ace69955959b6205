package devstack

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/util/yaml"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// fieldOwner is the field manager of Apply.
const fieldOwner = "devstack"

// Apply applies the objects of YAML files or directories in order. Paths are relative to the root of the repository.
func (c *Cluster) Apply(ctx context.Context, paths ...string) error {
	writer, err := client.New(c.Config, client.Options{})
	if err != nil {
		return fmt.Errorf("apply to cluster %s: %w", c.Name, err)
	}
	for _, path := range paths {
		files, err := yamlFiles(c.inRepository(path))
		if err != nil {
			return fmt.Errorf("apply %s to cluster %s: %w", path, c.Name, err)
		}
		for _, file := range files {
			if err := applyFile(ctx, writer, file); err != nil {
				return fmt.Errorf("apply %s to cluster %s: %w", file, c.Name, err)
			}
		}
	}
	return nil
}

// yamlFiles returns the file, or the YAML files of a directory in the order of their names.
func yamlFiles(path string) ([]string, error) {
	info, err := os.Stat(path)
	if err != nil || !info.IsDir() {
		return []string{path}, err
	}
	return filepath.Glob(filepath.Join(path, "*.yaml"))
}

func applyFile(ctx context.Context, writer client.Client, path string) error {
	file, err := os.Open(path)
	if err != nil {
		return err
	}
	defer file.Close()
	documents := yaml.NewYAMLOrJSONDecoder(file, 4096)
	for {
		object := &unstructured.Unstructured{}
		err := documents.Decode(object)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		if len(object.Object) == 0 {
			continue // a document with only comments
		}
		err = writer.Apply(ctx, client.ApplyConfigurationFromUnstructured(object), client.FieldOwner(fieldOwner), client.ForceOwnership)
		if err != nil {
			return fmt.Errorf("%s %s: %w", object.GetKind(), client.ObjectKeyFromObject(object), err)
		}
	}
}

// AuditEvents returns the requests to the API server so far, in the order of their answers, except those that config/audit-policy.yaml omits. An
// event may be logged shortly after the answer.
func (c *Cluster) AuditEvents() ([]auditv1.Event, error) {
	file, err := os.Open(c.AuditLogFile)
	if err != nil {
		return nil, fmt.Errorf("read the audit log of cluster %s: %w", c.Name, err)
	}
	defer file.Close()
	var events []auditv1.Event
	for lines := bufio.NewReader(file); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return events, nil // an incomplete line is still being written
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log of cluster %s: %w", c.Name, err)
		}
		var event auditv1.Event
		err = json.Unmarshal(line, &event)
		if cut, ok := errors.AsType[*json.SyntaxError](err); ok && cut.Offset >= int64(len(line)) {
			continue // the API server was killed while it wrote the event
		}
		if err != nil {
			return nil, fmt.Errorf("read the audit log of cluster %s: event %d of %d bytes, %q: %w", c.Name, len(events)+1, len(line), line[:min(len(line), 300)], err)
		}
		events = append(events, event)
	}
}
