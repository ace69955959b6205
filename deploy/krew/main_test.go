package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"
)

// plugin is a manifest of krew: https://krew.sigs.k8s.io/docs/developer-guide/plugin-manifest/
type plugin struct {
	APIVersion string            `json:"apiVersion"`
	Kind       string            `json:"kind"`
	Metadata   map[string]string `json:"metadata"`
	Spec       struct {
		Version          string     `json:"version"`
		Homepage         string     `json:"homepage"`
		ShortDescription string     `json:"shortDescription"`
		Description      string     `json:"description"`
		Caveats          string     `json:"caveats"`
		Platforms        []platform `json:"platforms"`
	} `json:"spec"`
}

type platform struct {
	Selector struct {
		MatchLabels map[string]string `json:"matchLabels"`
	} `json:"selector"`
	URI    string              `json:"uri"`
	SHA256 string              `json:"sha256"`
	Files  []map[string]string `json:"files"`
	Bin    string              `json:"bin"`
}

func written(t *testing.T, checksums string) (string, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "checksums.txt")
	require.NoError(t, os.WriteFile(file, []byte(checksums), 0o600))
	cmd := newCommand()
	var out bytes.Buffer
	cmd.SetOut(&out)
	cmd.SetArgs([]string{"--version", "v0.1.0", "--url", "https://example.com/v0.1.0/", "--checksums", file})
	err := cmd.Execute()
	return out.String(), err
}

func TestTheManifestHasTheArchiveOfEachPlatform(t *testing.T) {
	sums := map[string]string{"linux_amd64.tar.gz": strings.Repeat("a", 64), "darwin_arm64.tar.gz": strings.Repeat("b", 64), "windows_amd64.zip": strings.Repeat("c", 64)}
	lines := strings.Repeat("d", 64) + "  drydock-worker_0.1.0_linux_amd64.tar.gz\n" + strings.Repeat("e", 64) + "  drydock_0.1.0_linux_amd64.sbom.json\n"
	for name, sum := range sums {
		lines += sum + "  drydock_0.1.0_" + name + "\n"
	}
	text, err := written(t, lines)
	require.NoError(t, err)
	require.False(t, strings.HasPrefix(text, "#"))
	var found plugin
	require.NoError(t, yaml.UnmarshalStrict([]byte(text), &found))
	require.Equal(t, "krew.googlecontainertools.github.com/v1alpha2", found.APIVersion)
	require.Equal(t, "Plugin", found.Kind)
	require.Equal(t, map[string]string{"name": "drydock"}, found.Metadata, "krew installs it as kubectl-drydock")
	require.Equal(t, "v0.1.0", found.Spec.Version)
	require.NotEmpty(t, found.Spec.Description)
	require.LessOrEqual(t, len(found.Spec.ShortDescription), 50, "krew's index refuses longer ones")
	require.NotContains(t, found.Spec.ShortDescription, "kubectl")
	require.Contains(t, found.Spec.Caveats, "$ kubectl drydock ")
	require.Len(t, found.Spec.Platforms, len(sums))
	for _, one := range found.Spec.Platforms {
		system := one.Selector.MatchLabels["os"] + "_" + one.Selector.MatchLabels["arch"]
		program, ending := "drydock", ".tar.gz"
		if strings.HasPrefix(system, "windows") {
			program, ending = "drydock.exe", ".zip"
		}
		require.Equal(t, "https://example.com/v0.1.0/drydock_0.1.0_"+system+ending, one.URI)
		require.Equal(t, sums[system+ending], one.SHA256)
		require.Equal(t, program, one.Bin)
		require.Equal(t, []map[string]string{{"from": program, "to": "."}, {"from": "LICENSE", "to": "."}}, one.Files)
	}
}

func TestAReleaseWithoutArchivesHasNoManifest(t *testing.T) {
	_, err := written(t, strings.Repeat("d", 64)+"  drydock-worker_0.1.0_linux_amd64.tar.gz\n")
	require.ErrorContains(t, err, "checksums.txt: no archive of the CLI, such as drydock_0.1.0_linux_amd64.tar.gz")
}
