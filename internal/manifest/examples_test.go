package manifest_test

import (
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/manifest"
)

func TestEveryExampleOfTheDocumentationIsValid(t *testing.T) {
	files, err := filepath.Glob("../../docs/examples/*.yaml")
	require.NoError(t, err)
	require.NotEmpty(t, files)
	for _, file := range files {
		t.Run(filepath.Base(file), func(t *testing.T) {
			objects, err := manifest.Load[client.Object](file, nil)
			require.NoError(t, err)
			require.NotEmpty(t, objects)
		})
	}
}
