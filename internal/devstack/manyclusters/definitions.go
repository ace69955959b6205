package manyclusters

import (
	"fmt"
	"os"
	"path/filepath"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
)

// Definitions reads CRDs of the repository by the plural names of their resources.
func Definitions(dir string, plurals ...string) ([]*apiextensionsv1.CustomResourceDefinition, error) {
	root, err := devstack.RepositoryRoot()
	if err != nil {
		return nil, err
	}
	var definitions []*apiextensionsv1.CustomResourceDefinition
	for _, plural := range plurals {
		files, err := filepath.Glob(filepath.Join(root, dir, "*_"+plural+".yaml"))
		if err != nil || len(files) != 1 {
			return nil, fmt.Errorf("%s has %d CRDs of %s: %w", dir, len(files), plural, err)
		}
		content, err := os.ReadFile(files[0])
		if err != nil {
			return nil, err
		}
		definition := &apiextensionsv1.CustomResourceDefinition{}
		if err := yaml.UnmarshalStrict(content, definition); err != nil {
			return nil, fmt.Errorf("read %s: %w", files[0], err)
		}
		definitions = append(definitions, definition)
	}
	return definitions, nil
}
