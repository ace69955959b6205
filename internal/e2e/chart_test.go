package e2e

import (
	"context"
	"crypto/rand"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	certutil "k8s.io/client-go/util/cert"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// The API server checks each object of the chart, and refuses unknown and duplicate fields. It stores none of them.
func TestRenderedObjectsAreValid(t *testing.T) {
	shared(t)
	objects, err := dynamic.NewForConfig(theFleet.Hub.Config)
	require.NoError(t, err)
	kinds := hubClient(t).RESTMapper()
	for name, args := range map[string][]string{
		"default": nil, "production": {"--values", "deploy/chart/testdata/production.yaml"}, "spoke": {"--values", "deploy/chart/testdata/spoke.yaml"},
	} {
		t.Run(name, func(t *testing.T) {
			rendered, err := charttest.Render(t.Context(), args...)
			require.NoError(t, err)
			for _, object := range rendered {
				kind := object.GroupVersionKind()
				mapping, err := kinds.RESTMapping(kind.GroupKind(), kind.Version)
				require.NoError(t, err, "%s", kind)
				resource := dynamic.ResourceInterface(objects.Resource(mapping.Resource))
				if mapping.Scope.Name() == meta.RESTScopeNameNamespace {
					createNamespace(t, theFleet.Hub, object.GetNamespace())
					resource = objects.Resource(mapping.Resource).Namespace(object.GetNamespace())
				}
				_, err = resource.Patch(t.Context(), object.GetName(), types.ApplyYAMLPatchType, object.Text, metav1.PatchOptions{
					DryRun: []string{metav1.DryRunAll}, FieldManager: "helm", FieldValidation: metav1.FieldValidationStrict, Force: new(true),
				})
				require.NoError(t, err, "%s", object.Text)
			}
		})
	}
}

// createNamespace makes sure that a namespace exists. It stays.
func createNamespace(t *testing.T, cluster *devstack.Cluster, name string) {
	t.Helper()
	_, err := cluster.Client.CoreV1().Namespaces().Create(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	if !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
}

// The pods of the chart run with what they get in a cluster: their ServiceAccounts, arguments, environment and volumes. They have a Temporal namespace of their
// own, with encryption. Other workers of the fleet act on objects, so these do not.
func TestTheRenderedPodsCompleteMaintenances(t *testing.T) {
	reserve(t, "spoke-5", "spoke-6")
	const namespace = "chart"
	outside, inside := theFleet.Cluster("spoke-5"), theFleet.Cluster("spoke-6")
	newNamespace(t, namespace)
	secret := make([]byte, 32)
	_, err := rand.Read(secret)
	require.NoError(t, err)
	keys := fmt.Sprintf("keys:\n- id: june\n  key: %s\n", base64.StdEncoding.EncodeToString(secret))
	createSecret(t, inside, "drydock-keys", map[string]string{"keys.yaml": keys})
	createSecret(t, theFleet.Hub, "drydock-keys", map[string]string{"keys.yaml": keys})
	createSecret(t, theFleet.Hub, "codec-token", map[string]string{"token": rand.Text()})
	certificate, key, err := certutil.GenerateSelfSignedCertKey("codec.example.com", nil, nil)
	require.NoError(t, err)
	createSecret(t, theFleet.Hub, "codec-tls", map[string]string{corev1.TLSCertKey: string(certificate), corev1.TLSPrivateKeyKey: string(key)})
	createSecret(t, theFleet.Hub, "drydock-clusters", map[string]string{
		"clusters.yaml":    fmt.Sprintf("hub: {}\nclusters:\n- {name: %s, kubeconfig: spoke.kubeconfig}\n- {name: %s, inClusterWorker: true}\n", outside.Name, inside.Name),
		"spoke.kubeconfig": accountKubeconfig(t, outside, "drydock-initiator"),
	})
	worker, page, codec, insideWorker := loopback(t), loopback(t), loopback(t), loopback(t)
	temporal := map[string]any{"address": theFleet.Temporal.Address, "namespace": namespace}
	traces, overGRPC, overHTTP := collectTraces(t)
	hub := installChart(t, theFleet.Hub, map[string]any{
		"temporal": temporal, "encryption": map[string]any{"secret": "drydock-keys"}, "clusters": map[string]any{"secret": "drydock-clusters"}, "env": overGRPC,
		"worker":      map[string]any{"extraArgs": []string{"--health-address=" + worker, "--controllers=false", "--traces"}},
		"statusPage":  map[string]any{"extraArgs": []string{"--listen=" + page}},
		"codecServer": map[string]any{"enabled": true, "tokenSecret": "codec-token", "tlsSecret": "codec-tls", "extraArgs": []string{"--listen=" + codec}},
	})
	restrictPods(t, inside)
	spoke := installChart(t, inside, map[string]any{
		"temporal": temporal, "encryption": map[string]any{"secret": "drydock-keys"}, "env": overHTTP,
		"worker": map[string]any{"cluster": inside.Name, "extraArgs": []string{"--health-address=" + insideWorker, "--traces"}},
	})

	hub.start("Deployment", "drydock-worker")
	spoke.start("DaemonSet", "drydock-worker")
	hub.start("Deployment", "drydock-status-page")
	hub.start("Deployment", "drydock-codec-server")
	awaitAnswer(t, "http://"+worker+"/readyz", "ok")
	awaitAnswer(t, "http://"+insideWorker+"/readyz", "ok")
	awaitAnswer(t, "https://"+codec+"/healthz", "ok")

	keyFile := filepath.Join(t.TempDir(), "keys.yaml")
	require.NoError(t, os.WriteFile(keyFile, []byte(keys), 0o600))
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found, err := inside.Client.AppsV1().DaemonSets(kube.SystemNamespace).Get(t.Context(), "drydock-worker", metav1.GetOptions{})
		if assert.NoError(c, err) {
			assert.Positive(c, found.Status.NumberAvailable, "the pods are restricted ones")
		}
	}, stateLimit, 200*time.Millisecond)
	ask := func(args ...string) string {
		return succeeds(t, append(args, "--temporal-namespace", namespace, "--encryption-key-file", keyFile)...)
	}
	for _, cluster := range []*devstack.Cluster{outside, inside} {
		run := func(args ...string) { ask(append(args, "--cluster", cluster.Name)...) }
		run("node", "maintain", "worker-1", "--name", "rendered", "--drain", "--wait")
		require.True(t, node(t, cluster, "worker-1").Spec.Unschedulable)
		awaitAnswer(t, "http://"+page+"/nodes/"+cluster.Name+"/worker-1", "rendered")
		run("node", "done", "rendered")
		run("node", "status", "rendered", "--watch")
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), cluster))
	}

	ask("upgrade", "start", "-f", rolloutFile(t, fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: traced, namespace: default}
spec:
  clusters: [%s, %s]
  remediationStrategy: {maxConcurrency: 2, timeout: 60}
  nodeMaintenance: {skipNodes: [control-plane-1, worker-1], drainSpec: {timeoutSeconds: 0}}
`, outside.Name, inside.Name)))
	ask("upgrade", "status", "traced", "--watch")
	var described struct{ Workflow struct{ TraceID string } }
	require.NoError(t, json.Unmarshal([]byte(ask("upgrade", "describe", "traced", "-o", "json")), &described))
	traces.requireRolloutTrace(t, described.Workflow.TraceID)
}

// restrictPods lets the API server refuse pods in drydock-system that are not of the strictest pod security standard.
func restrictPods(t *testing.T, cluster *devstack.Cluster) {
	t.Helper()
	label := func(ctx context.Context, level string) {
		_, err := cluster.Client.CoreV1().Namespaces().Patch(ctx, kube.SystemNamespace, types.MergePatchType,
			[]byte(`{"metadata":{"labels":{"pod-security.kubernetes.io/enforce":`+level+`}}}`), metav1.PatchOptions{})
		require.NoError(t, err)
	}
	label(t.Context(), `"restricted"`)
	t.Cleanup(func() { label(context.Background(), "null") })
}

// accountKubeconfig is the kubeconfig that an administrator makes for the workers.
func accountKubeconfig(t *testing.T, cluster *devstack.Cluster, account string) string {
	t.Helper()
	config, err := cluster.ServiceAccountConfig(t.Context(), kube.SystemNamespace, account)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, devstack.WriteKubeconfig(path, cluster.Name, config))
	content, err := os.ReadFile(path)
	require.NoError(t, err)
	return string(content)
}

func createSecret(t *testing.T, cluster *devstack.Cluster, name string, data map[string]string) {
	t.Helper()
	secrets := cluster.Client.CoreV1().Secrets(kube.SystemNamespace)
	_, err := secrets.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: name}, StringData: data}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, secrets.Delete(context.Background(), name, metav1.DeleteOptions{})) })
}

func loopback(t *testing.T) string {
	t.Helper()
	port, err := theFleet.ReservePort()
	require.NoError(t, err)
	return fmt.Sprintf("127.0.0.1:%d", port)
}

// release is an installed chart.
type release struct {
	t       *testing.T
	objects []charttest.Object
	kubelet charttest.Kubelet
}

// installChart applies what the chart renders, without the CRDs, which the fleet has. Afterwards it deletes all but the RBAC, which the fleet has, too.
func installChart(t *testing.T, cluster *devstack.Cluster, values map[string]any) release {
	t.Helper()
	text, err := yaml.Marshal(values)
	require.NoError(t, err)
	file := filepath.Join(t.TempDir(), "values.yaml")
	require.NoError(t, os.WriteFile(file, text, 0o600))
	objects, err := charttest.Render(t.Context(), "--values", file, "--set", "crds.install=false")
	require.NoError(t, err)
	writer, err := client.New(cluster.Config, client.Options{})
	require.NoError(t, err)
	for _, object := range objects {
		require.NoError(t, writer.Apply(t.Context(), client.ApplyConfigurationFromUnstructured(object.Unstructured), client.FieldOwner("helm"), client.ForceOwnership))
		group := object.GroupVersionKind().Group
		if object.GetNamespace() == kube.SystemNamespace && group != "rbac.authorization.k8s.io" && object.GetKind() != "ServiceAccount" {
			t.Cleanup(func() {
				require.NoError(t, client.IgnoreNotFound(writer.Delete(context.Background(), object.Unstructured)))
			})
		}
	}
	root, err := devstack.RepositoryRoot()
	require.NoError(t, err)
	return release{t, objects, charttest.Kubelet{Cluster: cluster, Programs: filepath.Join(root, "bin"), Dir: t.TempDir()}}
}

// start runs the containers of a workload, and stops them after the test.
func (r release) start(kind, name string) {
	r.t.Helper()
	r.kubelet.Start(r.t, r.objects, kind, name)
}

// answerOf returns the body of an answer 200; empty without one.
func answerOf(url string) string {
	insecure := &http.Client{Transport: &http.Transport{TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, DisableKeepAlives: true}}
	answer, err := insecure.Get(url)
	if err != nil {
		return ""
	}
	defer answer.Body.Close()
	body, _ := io.ReadAll(answer.Body)
	if answer.StatusCode != http.StatusOK {
		return ""
	}
	return string(body)
}

func awaitAnswer(t *testing.T, url, contains string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) { assert.Contains(c, answerOf(url), contains) }, stateLimit, 200*time.Millisecond, url)
}
