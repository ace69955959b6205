package attack

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
)

// The authorizer in the documentation compiles with the version of Temporal's server that the local stack has.
func TestTheDocumentedAuthorizerCompiles(t *testing.T) {
	root, err := devstack.RepositoryRoot()
	require.NoError(t, err)
	page, err := os.ReadFile(filepath.Join(root, "docs", "how-to", "restrict-temporal.md"))
	require.NoError(t, err)
	_, after, found := strings.Cut(string(page), "```go\n")
	require.True(t, found)
	code, _, _ := strings.Cut(after, "```\n")
	source := "package example\n\nimport (\n\t\"context\"\n\t\"slices\"\n\t\"strings\"\n\n\t\"go.temporal.io/api/workflowservice/v1\"\n" +
		"\t\"go.temporal.io/server/common/authorization\"\n)\n\n" + code +
		"\nvar _ authorization.Authorizer = authorizer{}\n\nvar _ authorization.ClaimMapper = claimMapper{}\n"

	module := filepath.Join(root, "deploy", "devstack", "temporal")
	written := filepath.Join(t.TempDir(), "example.go")
	require.NoError(t, os.WriteFile(written, []byte(source), 0o600))
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(module, "example", "example.go"): written}})
	require.NoError(t, err)
	overlayFile := filepath.Join(t.TempDir(), "overlay.json")
	require.NoError(t, os.WriteFile(overlayFile, overlay, 0o600))
	// With the flags of the servers, so that little is compiled.
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-gcflags=all=-dwarf=false", "-overlay", overlayFile, "./example")
	build.Dir, build.Env = module, append(os.Environ(), "CGO_ENABLED=0", "GOFLAGS=", "GOWORK=off")
	output, err := build.CombinedOutput()
	require.NoError(t, err, "%s", output)
}
