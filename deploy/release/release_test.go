package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/gobuild"
	"drydock.dev/drydock/internal/kube"
)

// commitTime is that of the commit.
const commitTime = 1795770000

// run runs the command as make release does, for one program on the platform of the test. The tests of the images compile all others.
func run(t *testing.T, args ...string) error {
	t.Helper()
	cmd := newCommand(gobuild.CLI())
	cmd.SetArgs(append([]string{
		"--version", "v0.1.0", "--url", "https://downloads.example.com/v0.1.0/", "--root", "../..", "--sbom-tool", "../../bin/tools/cyclonedx-gomod",
		"--platforms", "linux/" + runtime.GOARCH, "--created", strconv.Itoa(commitTime),
	}, args...))
	return cmd.ExecuteContext(t.Context())
}

func changelog(t *testing.T, content string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "CHANGELOG.md")
	require.NoError(t, os.WriteFile(path, []byte(content), 0o600))
	return path
}

const changes = `# Changelog

## [Unreleased]

## [0.1.0] - 2026-12-01

### Added

* A [plugin](how-to/use-the-cli.md#as-a-plugin-of-kubectl) of kubectl, as on [krew](https://krew.sigs.k8s.io) and [here](#here).

## [0.0.1] - 2026-11-01

* The first.
`

func TestAReleaseHasItsArchivesChartImagesAndManifests(t *testing.T) {
	if testing.Short() {
		t.Skip("it compiles all programs")
	}
	images, out := t.TempDir(), filepath.Join(t.TempDir(), "release")
	_, err := layout.Write(filepath.Join(images, "drydock-worker"), empty.Index)
	require.NoError(t, err)
	require.NoError(t, run(t, "--out", out, "--changelog", changelog(t, changes), "--chart", packageChart(t, time.Unix(commitTime+60, 0)), "--images", images,
		"--registry", "registry.example.com/drydock", "--docs-url", "https://git.example.com/blob/v0.1.0/docs"))

	platform := "linux_" + runtime.GOARCH
	names := []string{"checksums.txt", "drydock-0.1.0.tgz", "drydock-worker_0.1.0_image.tar", "drydock.homebrew.rb", "drydock.krew.yaml", "NOTES.md"}
	name := "drydock_0.1.0_" + platform
	names = append(names, name+".tar.gz", name+".cdx.json")
	dir, files := unpack(t, filepath.Join(out, name+".tar.gz"))
	require.ElementsMatch(t, []string{"drydock 755", "LICENSE 644"}, files)
	printed, err := exec.Command(filepath.Join(dir, "drydock"), "--version").CombinedOutput()
	require.NoError(t, err, "%s", printed)
	require.Contains(t, string(printed), "v0.1.0")
	var sbom struct{ BOMFormat string }
	require.NoError(t, json.Unmarshal([]byte(content(t, filepath.Join(out, name+".cdx.json"))), &sbom))
	require.Equal(t, "CycloneDX", sbom.BOMFormat)
	entries, err := os.ReadDir(out)
	require.NoError(t, err)
	var found []string
	for _, entry := range entries {
		found = append(found, entry.Name())
	}
	require.ElementsMatch(t, names, found)

	check := exec.Command("sha256sum", "--check", "--strict", "checksums.txt")
	check.Dir = out
	printed, err = check.CombinedOutput()
	require.NoError(t, err, "%s", printed)
	require.Equal(t, len(names)-4, strings.Count(string(printed), ": OK\n"), "all but the checksums, the notes, and the manifests, which have checksums")
	sum, err := checksum(filepath.Join(out, name+".tar.gz"))
	require.NoError(t, err)
	for _, manifest := range []string{"drydock.krew.yaml", "drydock.homebrew.rb"} {
		text := content(t, filepath.Join(out, manifest))
		require.Contains(t, text, sum)
		require.Contains(t, text, "https://downloads.example.com/v0.1.0/"+name+".tar.gz")
	}
	require.Equal(t, "### Added\n\n* A [plugin](https://git.example.com/blob/v0.1.0/docs/how-to/use-the-cli.md#as-a-plugin-of-kubectl) of kubectl, as on [krew](https://krew.sigs.k8s.io) and [here](#here).\n",
		content(t, filepath.Join(out, "NOTES.md")))
	require.True(t, slices.IsSortedFunc(strings.Split(strings.TrimSpace(content(t, filepath.Join(out, "checksums.txt"))), "\n"), func(a, b string) int {
		return strings.Compare(strings.Fields(a)[1], strings.Fields(b)[1])
	}), "checksums are found by the name of the file")
	rendered, err := charttest.Helm(t.Context(), "template", "drydock", filepath.Join(out, "drydock-0.1.0.tgz"), "--namespace", kube.SystemNamespace)
	require.NoError(t, err)
	require.Contains(t, string(rendered), "image: registry.example.com/drydock/drydock-standalone:v0.1.0")
	image, _ := unpack(t, filepath.Join(out, "drydock-worker_0.1.0_image.tar"))
	_, err = layout.FromPath(image)
	require.NoError(t, err)

	t.Run("the same commit gives the same archive", func(t *testing.T) {
		again := release{
			Builder: gobuild.Builder{Root: "../..", Version: "v0.1.0", Created: time.Unix(commitTime, 0).UTC(), SBOMTool: "../../bin/tools/cyclonedx-gomod"},
			number:  "0.1.0", out: t.TempDir(), registry: "registry.example.com/drydock", chart: packageChart(t, time.Unix(commitTime+3600, 0)),
		}
		require.NoError(t, again.archive(t.Context(), gobuild.CLI(), "linux/"+runtime.GOARCH))
		require.NoError(t, again.packChart())
		for _, same := range []string{name + ".tar.gz", name + ".cdx.json", "drydock-0.1.0.tgz"} {
			require.True(t, content(t, filepath.Join(out, same)) == content(t, filepath.Join(again.out, same)), same)
		}
	})
}

// packageChart packages a checkout of the chart from that time, and returns the path of the package.
func packageChart(t *testing.T, checkedOut time.Time) string {
	t.Helper()
	dir := t.TempDir()
	checkout := filepath.Join(dir, "drydock")
	require.NoError(t, os.CopyFS(checkout, os.DirFS(filepath.Join("../..", charttest.Chart))))
	require.NoError(t, os.Chtimes(filepath.Join(checkout, "values.yaml"), checkedOut, checkedOut))
	_, err := charttest.Helm(t.Context(), "package", checkout, "--version", "0.1.0", "--app-version", "v0.1.0", "--destination", dir)
	require.NoError(t, err)
	return filepath.Join(dir, "drydock-0.1.0.tgz")
}

func TestAReleaseIsRefusedBeforeAnythingIsBuilt(t *testing.T) {
	full := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(full, "file"), nil, 0o600))
	for _, tt := range []struct {
		args    []string
		message string
	}{
		{[]string{"--version", "0.1.0"}, `--version "0.1.0" is not a version such as v0.1.0`},
		{[]string{"--version", "v0.1"}, `--version "v0.1" is not a version`},
		{[]string{"--out", full}, "the directory is not empty"},
		{[]string{"--version", "v0.2.0", "--check"}, "has no section [0.2.0]: move what is in [Unreleased] there"},
	} {
		args := append([]string{"--out", filepath.Join(t.TempDir(), "out"), "--changelog", changelog(t, changes)}, tt.args...)
		require.ErrorContains(t, run(t, args...), tt.message)
	}
	require.NoError(t, run(t, "--check", "--out", filepath.Join(full, "new"), "--changelog", changelog(t, changes)))
	require.NoDirExists(t, filepath.Join(full, "new"))
}

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

func TestTheManifestsHaveTheArchiveOfEachPlatform(t *testing.T) {
	sums := map[string]string{"drydock-worker_0.1.0_linux_amd64.tar.gz": "d", "drydock_0.1.0_linux_amd64.cdx.json": "e", "drydock-0.1.0.tgz": "f"}
	letters := map[string]string{"linux_amd64": "a", "linux_arm64": "b", "darwin_amd64": "c", "darwin_arm64": "9"}
	for system, letter := range letters {
		sums["drydock_0.1.0_"+system+".tar.gz"] = strings.Repeat(letter, 64)
	}
	r := release{Builder: gobuild.Builder{Version: "v0.1.0"}, number: "0.1.0", url: "https://example.com/v0.1.0", out: t.TempDir()}
	require.NoError(t, r.manifests(sums))

	text := content(t, filepath.Join(r.out, "drydock.krew.yaml"))
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
	require.Len(t, found.Spec.Platforms, len(letters))
	for _, one := range found.Spec.Platforms {
		system := one.Selector.MatchLabels["os"] + "_" + one.Selector.MatchLabels["arch"]
		require.Equal(t, "https://example.com/v0.1.0/drydock_0.1.0_"+system+".tar.gz", one.URI)
		require.Equal(t, strings.Repeat(letters[system], 64), one.SHA256)
		require.Equal(t, "drydock", one.Bin)
		require.Equal(t, []map[string]string{{"from": "drydock", "to": "."}, {"from": "LICENSE", "to": "."}}, one.Files)
	}

	formula := content(t, filepath.Join(r.out, "drydock.homebrew.rb"))
	require.True(t, strings.HasPrefix(formula, "class Drydock < Formula\n"))
	for on, system := range map[string]string{"macos": "darwin", "linux": "linux"} {
		for cpu, architecture := range map[string]string{"arm": "arm64", "intel": "amd64"} {
			block := regexp.MustCompile(`(?s)on_` + on + ` do\n.*?on_` + cpu + ` do\n(.*?)\n    end\n`).FindStringSubmatch(formula)
			require.NotNil(t, block, formula)
			require.Equal(t, `      url "https://example.com/v0.1.0/drydock_0.1.0_`+system+"_"+architecture+".tar.gz\"\n      sha256 \""+strings.Repeat(letters[system+"_"+architecture], 64)+`"`, block[1])
		}
	}
	require.Equal(t, strings.Count(formula, " do\n")+2, len(regexp.MustCompile(`(?m)^ *end$`).FindAllString(formula, -1)), "class and def, too")
}

func content(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(text)
}

// unpack unpacks an archive as users do, and returns the names and modes of its files.
func unpack(t *testing.T, path string) (dir string, files []string) {
	t.Helper()
	dir = t.TempDir()
	printed, err := exec.Command("tar", "--extract", "--file", path, "--directory", dir, "--preserve-permissions").CombinedOutput()
	require.NoError(t, err, "%s", printed)
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		info, err := entry.Info()
		require.NoError(t, err)
		files = append(files, fmt.Sprintf("%s %o", entry.Name(), info.Mode().Perm()))
	}
	return dir, files
}
