package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/gobuild"
)

// instruction is one of a Dockerfile, such as USER 0:0.
type instruction struct{ name, arguments string }

// stages are the instructions of the stages of the Dockerfile, by the name of the stage.
func stages(t *testing.T) map[string][]instruction {
	t.Helper()
	content, err := os.ReadFile("Dockerfile")
	require.NoError(t, err)
	found := map[string][]instruction{}
	stage := ""
	for _, line := range strings.Split(strings.ReplaceAll(string(content), "\\\n", ""), "\n") {
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		name, arguments, _ := strings.Cut(line, " ")
		if name == "FROM" {
			_, stage, _ = strings.Cut(arguments, " AS ")
		}
		found[stage] = append(found[stage], instruction{name, arguments})
	}
	return found
}

// configOf is the configuration of the image of a stage.
func configOf(t *testing.T, stage []instruction) v1.Config {
	t.Helper()
	config := v1.Config{Labels: map[string]string{}}
	for _, i := range stage {
		switch i.name {
		case "ENV":
			config.Env = strings.Fields(i.arguments)
		case "USER":
			config.User = i.arguments
		case "WORKDIR":
			config.WorkingDir = i.arguments
		case "ENTRYPOINT":
			require.NoError(t, json.Unmarshal([]byte(i.arguments), &config.Entrypoint))
		case "LABEL":
			for _, label := range regexp.MustCompile(`(\S+)="([^"]*)"`).FindAllStringSubmatch(i.arguments, -1) {
				config.Labels[label[1]] = label[2]
			}
		}
	}
	return config
}

func TestTheDockerfileConfiguresTheSameImages(t *testing.T) {
	b := builder{Builder: gobuild.Builder{Version: "$VERSION"}, revision: "$REVISION"}
	found := stages(t)
	require.Len(t, found, 2+2*len(images))
	module, err := os.ReadFile(filepath.Join(root, "deploy/standalone/go.mod")) // it needs the latest Go of all modules
	require.NoError(t, err)
	needed := regexp.MustCompile(`(?m)^go (\S+)$`).FindStringSubmatch(string(module))[1]
	require.Equal(t, instruction{"FROM", "--platform=$BUILDPLATFORM golang:" + needed + " AS source"}, found["source"][0])
	for _, image := range images {
		name := image.source.Name
		program := filepath.Join(t.TempDir(), name)
		require.NoError(t, os.WriteFile(program, nil, 0o755))
		built, err := b.image(image, program, v1.Platform{OS: "linux", Architecture: "amd64"})
		require.NoError(t, err)
		config, err := built.ConfigFile()
		require.NoError(t, err)
		config.Config.Labels["org.opencontainers.image.created"] = "$CREATED"
		stage := found[name]
		require.Equal(t, config.Config, configOf(t, stage), name)
		require.Equal(t, instruction{"FROM", "scratch AS " + name}, stage[0])
		require.Contains(t, stage, instruction{"COPY", "--from=" + name + "-root /rootfs/ /"})
		require.Equal(t, instruction{"FROM", "source AS " + name + "-root"}, found[name+"-root"][0])
		require.Equal(t, strings.ReplaceAll(rootCommand(t, found, "drydock-prepare"), "drydock-prepare", name), rootCommand(t, found, name))
	}
}

// rootCommand is the command with which the Dockerfile makes the files of an image.
func rootCommand(t *testing.T, stages map[string][]instruction, image string) string {
	t.Helper()
	stage := stages[image+"-root"]
	i := slices.IndexFunc(stage, func(i instruction) bool { return i.name == "RUN" })
	require.GreaterOrEqual(t, i, 0)
	return regexp.MustCompile(`--mount=\S+\s+`).ReplaceAllString(stage[i].arguments, "")
}

// TestTheCommandOfTheDockerfileWritesTheFilesOfAnImage runs the command, which is the same for all images.
func TestTheCommandOfTheDockerfileWritesTheFilesOfAnImage(t *testing.T) {
	t.Setenv("GOFLAGS", "-buildvcs=false") // as in the Dockerfile: its context has no .git
	image := images[slices.IndexFunc(images, func(image image) bool { return image.source.Name == "drydock-prepare" })]
	b := testBuilder(t, t.TempDir())
	program, err := b.compile(t.Context(), image, b.platforms[0])
	require.NoError(t, err)
	built, err := b.image(image, program, b.platforms[0])
	require.NoError(t, err)
	unpacked, written := t.TempDir(), t.TempDir()
	unpack(t, built, unpacked)

	command := exec.CommandContext(t.Context(), "sh", "-c", strings.Replace(rootCommand(t, stages(t), image.source.Name), "/rootfs", written, 1)+" --out "+t.TempDir())
	command.Dir = root
	command.Env = append(os.Environ(), "TARGETARCH="+architecture, "VERSION="+version)
	output, err := command.CombinedOutput()
	require.NoError(t, err, "%s", output)
	require.NoError(t, exec.CommandContext(t.Context(), "diff", "--recursive", "--no-dereference", unpacked, written).Run())
	info, err := os.Stat(filepath.Join(written, image.source.Name))
	require.NoError(t, err)
	require.Equal(t, os.FileMode(0o755), info.Mode())
}
