// Package chart tests the Helm chart, and what is generated from it and for it. With -generate the tests write these files.
package chart

import (
	"bytes"
	"encoding/json"
	"flag"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/kubectl/pkg/util/resource"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/deploy/crds"
	"drydock.dev/drydock/deploy/rbac"
	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/setup"
)

var generate = flag.Bool("generate", false, "write the generated files")

// requireGenerated compares a file with its source, or writes it.
func requireGenerated(t *testing.T, path string, content []byte) {
	t.Helper()
	if *generate {
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, content, 0o644))
		return
	}
	found, err := os.ReadFile(path)
	require.NoError(t, err, "make generate-chart writes it")
	require.Equal(t, string(content), string(found), "%s: make generate-chart writes it", path)
}

// requireOnly refuses other files in a directory, or removes them.
func requireOnly(t *testing.T, dir string, names ...string) {
	t.Helper()
	entries, err := os.ReadDir(dir)
	require.NoError(t, err)
	for _, entry := range entries {
		if slices.Contains(names, entry.Name()) {
			continue
		}
		if *generate {
			require.NoError(t, os.Remove(filepath.Join(dir, entry.Name())))
			continue
		}
		t.Errorf("%s has %s, which has no source: make generate-chart removes it", dir, entry.Name())
	}
}

// A chart can only read its own files.
func TestTheRolesOfTheChartAreThoseOfTheRepository(t *testing.T) {
	files, err := fs.Glob(rbac.Files, "*.yaml")
	require.NoError(t, err)
	for _, file := range files {
		content, err := rbac.Files.ReadFile(file)
		require.NoError(t, err)
		requireGenerated(t, filepath.Join("files/rbac", file), content)
	}
	requireOnly(t, "files/rbac", files...)
	var names []any
	for _, file := range files {
		names = append(names, strings.TrimSuffix(file, ".yaml"))
	}
	require.ElementsMatch(t, names, property(t, "rbac", "roles")["items"].(map[string]any)["enum"], "values.schema.json")
}

// The CRDs of a hub and of a spoke are in directories of their own, which also are bases of kustomize.
func TestTheCRDsOfTheChartAreThoseOfTheRepository(t *testing.T) {
	var names []any
	for _, site := range []setup.Site{setup.Hub, setup.Spoke} {
		dir := filepath.Join("files/crds", string(site))
		definitions, err := setup.Definitions(site)
		require.NoError(t, err)
		var files []string
		for _, definition := range definitions {
			plural, group, _ := strings.Cut(definition.GetName(), ".")
			file := group + "_" + plural + ".yaml"
			content, err := crds.Files.ReadFile(file)
			require.NoError(t, err)
			requireGenerated(t, filepath.Join(dir, file), content)
			files, names = append(files, file), append(names, definition.GetName())
		}
		base, err := yaml.Marshal(map[string]any{"resources": files})
		require.NoError(t, err)
		requireGenerated(t, filepath.Join(dir, "kustomization.yaml"), base)
		requireOnly(t, dir, append(files, "kustomization.yaml")...)
	}
	require.ElementsMatch(t, names, property(t, "crds", "except")["items"].(map[string]any)["enum"], "values.schema.json")
}

// property is the schema of a value.
func property(t *testing.T, path ...string) map[string]any {
	t.Helper()
	text, err := os.ReadFile("values.schema.json")
	require.NoError(t, err)
	var schema map[string]any
	require.NoError(t, json.Unmarshal(text, &schema))
	for _, name := range path {
		schema = schema["properties"].(map[string]any)[name].(map[string]any)
	}
	return schema
}

func TestTheSchemaHasTheFieldsOfTheClustersFile(t *testing.T) {
	fieldsOf := func(value any) []any {
		var names []any
		for _, field := range reflect.VisibleFields(reflect.TypeOf(value)) {
			name, _, _ := strings.Cut(field.Tag.Get("json"), ",")
			names = append(names, name)
		}
		return names
	}
	names := func(schema map[string]any) []any {
		var found []any
		for name := range schema["properties"].(map[string]any) {
			found = append(found, name)
		}
		return found
	}
	list := property(t, "clusters", "allow")
	require.ElementsMatch(t, fieldsOf(allow.List{}), append(names(list), "webhooks", "email"), "these have secrets, which a ConfigMap must not have")
	require.ElementsMatch(t, fieldsOf(allow.Job{}), names(property(t, "clusters", "allow", "jobs")["items"].(map[string]any)))
	require.ElementsMatch(t, fieldsOf(discovery.Settings{}), names(property(t, "clusters", "discovery")))
	require.ElementsMatch(t, fieldsOf(discovery.Secrets{}), names(property(t, "clusters", "discovery", "secrets")["items"].(map[string]any)))
	require.ElementsMatch(t, fieldsOf(discovery.ManagedClusters{}), names(property(t, "clusters", "discovery", "managedClusters")))
}

func TestTheRenderedObjects(t *testing.T) {
	text, err := charttest.Template(t.Context(), "--values", "deploy/chart/testdata/production.yaml", "--set", "crds.install=false")
	require.NoError(t, err)
	requireGenerated(t, "testdata/production.golden.yaml", []byte(text))
}

func TestCRDsAreUpgradedAndKept(t *testing.T) {
	rendered := func(args ...string) map[string]charttest.Object {
		objects, err := charttest.Render(t.Context(), args...)
		require.NoError(t, err)
		found := map[string]charttest.Object{}
		for _, object := range objects {
			if object.GetKind() == "CustomResourceDefinition" {
				found[object.GetName()] = object
			}
		}
		return found
	}
	found := rendered()
	for _, site := range []setup.Site{setup.Hub, setup.Spoke} {
		definitions, err := setup.Definitions(site)
		require.NoError(t, err)
		for _, definition := range definitions {
			object, ok := found[definition.GetName()]
			require.True(t, ok, definition.GetName())
			require.Equal(t, definition.Object["spec"], object.Object["spec"])
			require.Equal(t, "keep", object.GetAnnotations()["helm.sh/resource-policy"])
			require.Equal(t, "drydock", object.GetLabels()["app.kubernetes.io/name"])
			delete(found, definition.GetName())
		}
	}
	require.Empty(t, found)

	spoke := rendered("--values", "deploy/chart/testdata/spoke.yaml", "--set", "crds.except={nodemaintenances.maintenance.nvidia.com}")
	require.Contains(t, spoke, "workloadlockpolicies.drydock.dev")
	require.NotContains(t, spoke, "nodemaintenances.maintenance.nvidia.com")
	require.NotContains(t, spoke, "clustergroupupgrades.ran.openshift.io", "that is of a hub")
	require.Empty(t, rendered("--set", "crds.install=false"))
}

// Programs read a clusters file at their start.
func TestAnotherClustersFileRestartsThePods(t *testing.T) {
	hash := regexp.MustCompile(`drydock.dev/clusters-file: (\w+)`)
	of := func(args ...string) string {
		text, err := charttest.Template(t.Context(), append(args, "--set", "crds.install=false")...)
		require.NoError(t, err)
		require.Regexp(t, hash, text)
		return hash.FindStringSubmatch(text)[1]
	}
	require.NotEqual(t, of(), of("--set", "clusters.inCluster=prod"))
	require.Equal(t, of(), of("--set", "standalone.extraArgs={--log-level=debug}"))
}

// Workers of two versions run beside each other, and the former ones stay.
func TestEachVersionHasWorkersOfItsOwn(t *testing.T) {
	workersOf := func(version string) (*appsv1.Deployment, batchv1.Job) {
		objects, err := charttest.Render(t.Context(), "--values", "deploy/chart/testdata/production.yaml", "--set", "worker.versioning.enabled=true,image.tag="+version)
		require.NoError(t, err)
		deployment, job := &appsv1.Deployment{}, batchv1.Job{}
		for _, object := range objects {
			switch {
			case object.GetKind() == "Job":
				require.NoError(t, yaml.UnmarshalStrict(object.Text, &job))
			case object.GetKind() == "Deployment" && object.GetLabels()["app.kubernetes.io/component"] == "worker":
				require.NoError(t, yaml.UnmarshalStrict(object.Text, deployment))
			}
		}
		return deployment, job
	}
	former, _ := workersOf("v0.1.0")
	deployment, job := workersOf("v0.2.0_rc.1")
	require.Equal(t, "drydock-worker-v0-1-0", former.Name)
	require.Equal(t, "drydock-worker-v0-2-0-rc-1", deployment.Name)
	require.Equal(t, "keep", former.Annotations["helm.sh/resource-policy"])
	selector, err := metav1.LabelSelectorAsSelector(former.Spec.Selector)
	require.NoError(t, err)
	require.True(t, selector.Matches(labels.Set(former.Spec.Template.Labels)))
	require.False(t, selector.Matches(labels.Set(deployment.Spec.Template.Labels)), "the pods of the other version are not its own")
	require.Subset(t, deployment.Spec.Template.Spec.Containers[0].Args, []string{"--deployment=drydock", "--build-id=v0.2.0_rc.1"})
	require.Equal(t, "post-install,post-upgrade,post-rollback", job.Annotations["helm.sh/hook"])
	require.Equal(t, []string{"upgrade-check"}, job.Spec.Template.Spec.InitContainers[0].Args)
	require.Equal(t, []string{"upgrade-promote", "--deployment=drydock", "--build-id=v0.2.0_rc.1", "--percentage=100", "--timeout=3m"}, job.Spec.Template.Spec.Containers[0].Args)
}

func TestAWorkerUsesAsManyCoresAsItRequests(t *testing.T) {
	coresOf := func(args ...string) (cores []string) {
		objects, err := charttest.Render(t.Context(), append([]string{"--values", "deploy/chart/testdata/production.yaml"}, args...)...)
		require.NoError(t, err)
		pod, err := charttest.PodOf(objects, "Deployment", "drydock-worker")
		require.NoError(t, err)
		for _, variable := range pod.Containers[0].Env {
			switch {
			case variable.Name != "GOMAXPROCS":
			case variable.ValueFrom == nil:
				cores = append(cores, variable.Value)
			default:
				value, err := resource.ExtractContainerResourceValue(variable.ValueFrom.ResourceFieldRef, &pod.Containers[0])
				require.NoError(t, err)
				cores = append(cores, value)
			}
		}
		return cores
	}
	require.Equal(t, []string{"1"}, coresOf())
	require.Equal(t, []string{"2"}, coresOf("--set", "worker.resources.requests.cpu=1500m"))
	require.Equal(t, []string{"4"}, coresOf("--set-json", `env=[{"name":"GOMAXPROCS","value":"4"}]`))
}

// The worker may read the Secrets of the namespaces that it searches, and its clusters file says which.
func TestDiscoveryIsInTheClustersFileAndInTheRights(t *testing.T) {
	objects, err := charttest.Render(t.Context(), "--set", "crds.install=false", "--set", "clusters.discovery.managedClusters.servers={api.example.com:6443}",
		"--set", "clusters.discovery.secrets[0].namespaces={capi}", "--set", "clusters.discovery.secrets[0].selector=capi", "--set", "clusters.discovery.secrets[0].servers={*}")
	require.NoError(t, err)
	var bound []string
	for _, object := range objects {
		switch object.GetKind() + " " + object.GetName() {
		case "RoleBinding drydock-cluster-secrets", "ClusterRoleBinding drydock-managed-cluster-secrets":
			bound = append(bound, object.GetKind()+" "+object.GetNamespace())
		case "ConfigMap drydock-clusters":
			path := filepath.Join(t.TempDir(), "clusters.yaml")
			text, _, err := unstructured.NestedString(object.Object, "data", "clusters.yaml")
			require.NoError(t, err)
			require.Contains(t, text, "api.example.com:6443")
			require.NoError(t, os.WriteFile(path, []byte(text), 0o600))
			_, err = kube.FromClustersFile(path)
			require.NoError(t, err, text)
		}
	}
	require.ElementsMatch(t, []string{"RoleBinding drydock-clusters", "RoleBinding capi", "ClusterRoleBinding "}, bound)
}

func TestLint(t *testing.T) {
	for _, values := range []string{"../kustomize/standalone/values.yaml", "testdata/production.yaml", "testdata/spoke.yaml"} {
		printed, err := charttest.Helm(t.Context(), "lint", charttest.Chart, "--strict", "--namespace", "drydock-system", "--values", filepath.Join(charttest.Chart, values))
		require.NoError(t, err, values)
		require.Contains(t, printed, "0 chart(s) failed")
	}
}

// A value that is misspelled, has the wrong type, or would have no effect is refused by its name.
func TestWrongValuesAreRefusedByName(t *testing.T) {
	for _, tt := range []struct {
		set     []string
		message string
	}{
		{[]string{"worker.replica=3"}, "at '/worker': additional properties 'replica' not allowed"},
		{[]string{"workers.replicas=3"}, "additional properties 'workers' not allowed"},
		{[]string{"worker.replicas=many"}, "at '/worker/replicas': got string, want integer"},
		{[]string{"temporal.address=temporal"}, "at '/temporal/address': 'temporal' does not match pattern"},
		{[]string{"image.registry=https://registry.example.com"}, "at '/image/registry': "},
		{[]string{"rbac.roles={cluster-admin}"}, "at '/rbac/roles/0': value must be one of 'hub'"},
		{[]string{"crds.except={nodes}"}, "at '/crds/except/0': value must be one of "},
		{[]string{"clusters.allow.jobs[0].image=x"}, "at '/clusters/allow/jobs/0': additional properties 'image' not allowed"},
		{[]string{"standalone.extraArgs={log-level=debug}"}, "at '/standalone/extraArgs/0': "},
		{[]string{"worker.cluster=edge-1"}, "worker.cluster: needs temporal.address"},
		{[]string{"statusPage.tokenSecret=token"}, "statusPage.tokenSecret: needs temporal.address"},
		{[]string{"temporal.address=t:7233", "temporal.tls.caSecret=ca"}, "temporal.tls.caSecret: needs temporal.tls.enabled"},
		{[]string{"temporal.address=t:7233", "statusPage.tokenSecret=token"}, "statusPage.tokenSecret: needs statusPage.tlsSecret or, behind a proxy with TLS, --allow-plain-text-token"},
		{[]string{"temporal.address=t:7233", "worker.cluster=edge-1", "rbac.roles={hub}"}, "rbac.roles: hub is of a hub"},
		{[]string{"temporal.address=t:7233", "worker.cluster=edge-1", "codecServer.enabled=true"}, "codecServer.enabled: a release with worker.cluster has no codec server"},
		{[]string{"clusters.secret=clusters", "clusters.allow.healthCheckHosts={a}"}, "clusters.allow: has no effect with clusters.secret"},
		{[]string{"clusters.secret=clusters", "clusters.discovery.managedClusters.servers={a}"}, "clusters.discovery: has no effect with clusters.secret"},
		{[]string{"clusters.discovery.secrets[0].namespaces={a}", "clusters.discovery.secrets[0].selector=a"}, "missing property 'servers'"},
		{[]string{"clusters.discovery.managedClusters.servers={a}", "rbac.roles={hub}"}, "clusters.discovery.managedClusters: needs the role managed-cluster-secrets in rbac.roles"},
		{[]string{"temporal.address=t:7233", "worker.cluster=edge-1", "clusters.discovery.managedClusters.servers={a}"}, "clusters.discovery: has no effect with worker.cluster"},
		{[]string{"rbac.harborNamespaces={registry}"}, "rbac.harborNamespaces: needs the role harbor in rbac.roles"},
		{[]string{"codecServer.enabled=true", "encryption.secret=keys", "codecServer.tokenSecret=token"}, "codecServer.tlsSecret: codecServer.enabled needs it"},
	} {
		args := []string{}
		for _, set := range tt.set {
			args = append(args, "--set", set)
		}
		_, err := charttest.Template(t.Context(), args...)
		require.ErrorContains(t, err, tt.message, "%v", tt.set)
	}
	_, err := charttest.Helm(t.Context(), "template", "drydock", charttest.Chart, "--namespace", "default")
	require.ErrorContains(t, err, "install the chart in namespace drydock-system")
}

func TestThePackageHasOnlyTheChart(t *testing.T) {
	dir := t.TempDir()
	_, err := charttest.Helm(t.Context(), "package", charttest.Chart, "--version", "1.2.3", "--app-version", "v1.2.3", "--destination", dir)
	require.NoError(t, err)
	names := unpacked(t, filepath.Join(dir, "drydock-1.2.3.tgz"))
	for _, name := range []string{"drydock/Chart.yaml", "drydock/values.schema.json", "drydock/templates/worker.yaml", "drydock/files/rbac/hub.yaml"} {
		require.Contains(t, names, name)
	}
	for _, name := range names {
		require.False(t, strings.HasSuffix(name, ".go") || strings.Contains(name, "testdata") || bytes.HasSuffix([]byte(name), []byte("kustomization.yaml")), name)
	}
}
