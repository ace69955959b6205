package chart

import (
	"io/fs"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/contrib/envconfig"
	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/deploy/rbac"
	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/kube"
)

func production(t *testing.T) []charttest.Object {
	t.Helper()
	objects, err := charttest.Render(t.Context(), "--values", "deploy/chart/testdata/production.yaml", "--set", "crds.install=false")
	require.NoError(t, err)
	return objects
}

// TestTheRightsAreThoseOfTheRoles: no rule, binding or namespace of deploy/rbac is lost or changed, but for the subjects.
func TestTheRightsAreThoseOfTheRoles(t *testing.T) {
	rendered := map[string]charttest.Object{}
	for _, object := range production(t) {
		rendered[names([]charttest.Object{object})[0]] = object
	}
	files, err := fs.Glob(rbac.Files, "*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		content, err := rbac.Files.ReadFile(file)
		require.NoError(t, err)
		objects, err := charttest.Decode(string(content))
		require.NoError(t, err)
		for _, object := range objects {
			name := names([]charttest.Object{object})[0]
			if name == "Namespace "+kube.SystemNamespace || object.GetKind() == "ServiceAccount" && object.GetNamespace() == kube.SystemNamespace {
				continue // helm creates the former, and the worker has one ServiceAccount
			}
			found, ok := rendered[name]
			require.True(t, ok, "%s: %s", file, name)
			for _, field := range []string{"rules", "roleRef", "aggregationRule"} {
				require.Equal(t, object.Object[field], found.Object[field], "%s: %s", file, name)
			}
			require.Equal(t, withWorker(object), found.Object["subjects"], "%s: %s", file, name)
			for label, value := range object.GetLabels() {
				require.Equal(t, value, found.GetLabels()[label], "%s: %s", file, name)
			}
		}
	}
}

// withWorker are the subjects of a binding, with the ServiceAccount of the worker on a hub.
func withWorker(object charttest.Object) any {
	subjects, _ := object.Object["subjects"].([]any)
	for _, subject := range subjects {
		if fields := subject.(map[string]any); fields["namespace"] == kube.SystemNamespace {
			fields["name"] = "drydock-hub"
		}
	}
	return object.Object["subjects"]
}

// containers are those of all pods, by workload and name.
func containers(t *testing.T, objects []charttest.Object) map[string]corev1.Container {
	t.Helper()
	found := map[string]corev1.Container{}
	for _, object := range objects {
		switch object.GetKind() {
		case "Deployment", "DaemonSet", "StatefulSet":
			pod, err := charttest.PodOf(objects, object.GetKind(), object.GetName())
			require.NoError(t, err)
			for _, container := range append(pod.InitContainers, pod.Containers...) {
				found[object.GetName()+" "+container.Name] = container
			}
		}
	}
	require.NotEmpty(t, found)
	return found
}

// The reference has every flag of the programs, and no other: tests of the programs compare it.
func TestTheFlagsAreInTheReference(t *testing.T) {
	standalone, err := charttest.Render(t.Context(), "--set", "crds.install=false")
	require.NoError(t, err)
	all := containers(t, production(t))
	all["standalone"] = containers(t, standalone)["drydock drydock"]
	require.Len(t, all, 5)
	for name, container := range all {
		program, _, _ := strings.Cut(path.Base(container.Image), ":")
		var text []byte
		pages := map[string][]string{
			"drydock-worker": {"reference/configuration.md"}, "drydock-standalone": {"reference/configuration.md", "how-to/run-standalone.md"},
			"drydock": {"reference/cli/drydock_" + container.Args[0] + ".md"},
		}[program]
		require.NotEmpty(t, pages, program)
		for _, page := range pages {
			content, err := os.ReadFile("../../docs/" + page)
			require.NoError(t, err)
			text = append(text, content...)
		}
		for _, arg := range container.Args {
			flag, _, _ := strings.Cut(arg, "=") // or the verb
			require.Regexp(t, `[\s\x60]`+regexp.QuoteMeta(flag)+`[\s\x60]`, string(text), "%s: %s", name, arg)
		}
	}
}

// The environment is what the SDK of Temporal reads.
func TestTheEnvironmentReachesTemporal(t *testing.T) {
	for name, container := range containers(t, production(t)) {
		if strings.HasPrefix(name, "drydock-codec-server") {
			continue // it needs no Temporal
		}
		profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{DisableFile: true, EnvLookup: environment(container.Env)})
		require.NoError(t, err)
		require.Equal(t, envconfig.ClientConfigProfile{
			Address: "temporal.example.com:7233", Namespace: "fleet", APIKey: "temporal-api-key/api-key",
			TLS: &envconfig.ClientConfigTLS{
				ServerName: "temporal.internal", ServerCACertPath: "/etc/drydock/temporal-ca/ca.crt",
				ClientCertPath: "/etc/drydock/temporal-client/tls.crt", ClientKeyPath: "/etc/drydock/temporal-client/tls.key",
			},
		}, profile, name)
		keys, _ := environment(container.Env).LookupEnv("DRYDOCK_ENCRYPTION_KEY_FILE")
		for _, file := range []string{profile.TLS.ServerCACertPath, profile.TLS.ClientCertPath, profile.TLS.ClientKeyPath, keys} {
			require.True(t, mounted(container, file), "%s: %s", name, file)
		}
	}
}

// environment is the environment of a container. A value from a Secret is its name and key.
type environment []corev1.EnvVar

func (e environment) Environ() []string {
	var found []string
	for _, variable := range e {
		value, _ := e.LookupEnv(variable.Name)
		found = append(found, variable.Name+"="+value)
	}
	return found
}

func (e environment) LookupEnv(name string) (string, bool) {
	for _, variable := range e {
		if variable.Name == name && variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			return variable.ValueFrom.SecretKeyRef.Name + "/" + variable.ValueFrom.SecretKeyRef.Key, true
		}
		if variable.Name == name {
			return variable.Value, true
		}
	}
	return "", false
}

// mounted reports whether a file is in a volume of the container.
func mounted(container corev1.Container, file string) bool {
	for _, mount := range container.VolumeMounts {
		if strings.HasPrefix(file, mount.MountPath+"/") {
			return true
		}
	}
	return false
}
