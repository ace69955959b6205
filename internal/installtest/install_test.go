// Package installtest installs Drydock as its users do.
package installtest

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/charttest/chroot"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
)

// patience limits the wait for a state on a busy machine.
const patience = 5 * time.Minute

// TestARolloutFinishesOnAnInstallation: Temporal runs on PostgreSQL, the hub and a cluster have nothing of Drydock but the packaged chart, and the containers
// have nothing but the images. The cluster has its own worker. A rollout is applied to the hub, and finishes.
func TestARolloutFinishesOnAnInstallation(t *testing.T) {
	packages := os.Getenv("INSTALL_TEST")
	if packages == "" {
		t.Skip("make install-test runs it")
	}
	charts, err := filepath.Glob(filepath.Join(packages, "chart/drydock-*.tgz"))
	require.NoError(t, err)
	require.Len(t, charts, 1, "packaged charts in %s", packages)
	stack := devstacktest.Start(t, devstack.Options{
		Temporal: &devstack.TemporalOptions{PostgreSQL: true},
		Clusters: []devstack.ClusterOptions{
			{Name: "hub", CRDs: []string{"deploy/crds/testing"}, ControlPlaneOnly: true},
			{Name: "spoke-1", Nodes: devstack.Nodes(1, 2)},
		},
	})
	site := site{t, packages, charts[0], map[string]any{"address": stack.Temporal.Address}}
	hub, spoke := stack.Cluster("hub"), stack.Cluster("spoke-1")
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: kube.SystemNamespace}}
	_, err = hub.Client.CoreV1().Namespaces().Create(t.Context(), namespace, metav1.CreateOptions{})
	require.NoError(t, err)
	clusters := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "drydock-clusters"},
		StringData: map[string]string{"clusters.yaml": "hub: {}\nclusters:\n- {name: spoke-1, inClusterWorker: true}\n"},
	}
	_, err = hub.Client.CoreV1().Secrets(kube.SystemNamespace).Create(t.Context(), clusters, metav1.CreateOptions{})
	require.NoError(t, err)
	worker, page, spokeWorker := devstacktest.FreeAddress(t), devstacktest.FreeAddress(t), devstacktest.FreeAddress(t)
	onHub := site.install(hub, map[string]any{
		"clusters":   map[string]any{"secret": "drydock-clusters"},
		"worker":     map[string]any{"extraArgs": []string{"--health-address=" + worker}},
		"statusPage": map[string]any{"extraArgs": []string{"--listen=" + page}},
	})
	onSpoke := site.install(spoke, map[string]any{"worker": map[string]any{"cluster": "spoke-1", "extraArgs": []string{"--health-address=" + spokeWorker}}})
	onHub.start("Deployment", "drydock-worker")
	onSpoke.start("DaemonSet", "drydock-worker")
	onHub.start("Deployment", "drydock-status-page")

	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	objects, err := kubeclient.New(hub.Config, kubeclient.Options{Scheme: scheme})
	require.NoError(t, err)
	managed := &unstructured.Unstructured{Object: map[string]any{"metadata": map[string]any{"name": "spoke-1"}}}
	managed.SetAPIVersion("cluster.open-cluster-management.io/v1")
	managed.SetKind("ManagedCluster")
	require.NoError(t, objects.Create(t.Context(), managed))
	text, err := os.ReadFile("../../docs/examples/first-rollout.yaml")
	require.NoError(t, err)
	rollout := &ranv1.ClusterGroupUpgrade{}
	require.NoError(t, yaml.UnmarshalStrict(text, rollout))
	rollout.Spec.Enable = new(true)
	require.NoError(t, objects.Create(t.Context(), rollout))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := &ranv1.ClusterGroupUpgrade{}
		if assert.NoError(c, objects.Get(t.Context(), kubeclient.ObjectKeyFromObject(rollout), found)) {
			assert.True(c, meta.IsStatusConditionTrue(found.Status.Conditions, ranv1.ConditionSucceeded), "%+v", found.Status.Conditions)
		}
	}, patience, 200*time.Millisecond)
	nodes, err := spoke.Client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	require.Len(t, nodes.Items, 3)
	for _, node := range nodes.Items {
		require.False(t, node.Spec.Unschedulable, node.Name)
	}
	require.Contains(t, site.cli("upgrade", "status", rollout.Name), "Completed")
	require.Contains(t, site.cli("doctor"), "ok   worker ")
}

// site is what a site has of Drydock: the packages of a release, and its Temporal.
type site struct {
	*testing.T
	packages, chart string
	temporal        map[string]any
}

// installation is an installed chart.
type installation struct {
	site
	kubelet charttest.Kubelet
	objects []charttest.Object
}

// install installs the chart with helm.
func (s site) install(cluster *devstack.Cluster, values map[string]any) installation {
	s.Helper()
	values["temporal"] = s.temporal
	text, err := yaml.Marshal(values)
	require.NoError(s, err)
	file := filepath.Join(s.TempDir(), "values.yaml")
	require.NoError(s, os.WriteFile(file, text, 0o600))
	release := []string{"--kubeconfig", cluster.KubeconfigFile, "--namespace", kube.SystemNamespace}
	_, err = charttest.Helm(s.Context(), append([]string{"install", "drydock", s.chart, "--create-namespace", "--values", file}, release...)...)
	require.NoError(s, err)
	manifest, err := charttest.Helm(s.Context(), append([]string{"get", "manifest", "drydock"}, release...)...)
	require.NoError(s, err)
	objects, err := charttest.Decode(manifest)
	require.NoError(s, err)
	return installation{s, charttest.Kubelet{Cluster: cluster, Images: filepath.Join(s.packages, "images"), Dir: s.TempDir()}, objects}
}

// start runs the containers of a workload until the end of the test.
func (i installation) start(kind, name string) {
	i.Helper()
	i.kubelet.Start(i.T, i.objects, kind, name)
}

// cli runs a command of the CLI in its image, and returns what it prints.
func (s site) cli(args ...string) string {
	s.Helper()
	image, err := charttest.ImageOf(filepath.Join(s.packages, "images/drydock"), runtime.GOARCH)
	require.NoError(s, err)
	root := s.TempDir()
	_, err = charttest.Unpack(image, root)
	require.NoError(s, err)
	config, err := image.ConfigFile()
	require.NoError(s, err)
	run := chroot.Command(s.Context(), root, config.Config.Entrypoint[0], append(args, fmt.Sprintf("--address=%v", s.temporal["address"]))...)
	run.Env = config.Config.Env
	output, err := run.CombinedOutput()
	require.NoError(s, err, "%s", output)
	return string(output)
}
