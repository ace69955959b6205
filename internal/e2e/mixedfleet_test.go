package e2e

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/policies"
	"drydock.dev/drydock/internal/temporal"
)

// mixedNamespace is the Temporal namespace of a fleet of its own.
const mixedNamespace = "mixed"

// Two workers on the hub find one cluster on it: in a Secret, then in a ManagedCluster. The other cluster only dials out: no worker outside has an address of
// its API server, and the worker inside reaches nothing but Temporal, through a forward proxy.
func TestClustersComeMoveAndGoWhileWorkRuns(t *testing.T) {
	reserve(t, "spoke-5", "spoke-6")
	found, dialsOut := theFleet.Cluster("spoke-5"), theFleet.Cluster("spoke-6")
	newNamespace(t, mixedNamespace)
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		assert.Zero(c, drydock(t, "setup", "--temporal-namespace", mixedNamespace).code)
	}, stateLimit, time.Second)
	register(t, "mixed-a", nil)
	register(t, "mixed-b", map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	clustersFile := mixedClustersFile(t)
	hubWorkers := []*devstacktest.Buffer{startHubWorker(t, clustersFile), startHubWorker(t, clustersFile)}
	awaitLog := func(message string) {
		t.Helper()
		for _, logs := range hubWorkers {
			require.Eventually(t, func() bool { return strings.Contains(logs.String(), message) }, stateLimit, 100*time.Millisecond, message)
		}
	}
	proxy := startForwardProxy(t)
	startInsideWorker(t, "mixed-b", dialsOut, clustersFile, proxy)

	early := drydock(t, "node", "maintain", "worker-1", "--cluster", "mixed-a", "--name", "early", "--wait", "--temporal-namespace", mixedNamespace)
	require.NotZero(t, early.code)
	require.Contains(t, early.out+early.err, "cluster mixed-a is not known")

	secrets := theFleet.Hub.Client.CoreV1().Secrets("drydock-clusters")
	secret := &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Name: "mixed-a", Labels: map[string]string{discovery.LabelCluster: "mixed-a"}}}
	setKubeconfig := func() {
		secret.StringData = map[string]string{"kubeconfig": accountKubeconfig(t, found, "drydock-initiator")}
	}
	setKubeconfig()
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { _ = secrets.Delete(context.Background(), secret.Name, metav1.DeleteOptions{}) })
	awaitLog(`msg="found a cluster on the hub"`)

	mixed := func(args ...string) string {
		t.Helper()
		return succeeds(t, append(args, "--temporal-namespace", mixedNamespace)...)
	}
	before := map[*devstack.Cluster]int{found: len(actionsOf(t, found)), dialsOut: len(actionsOf(t, dialsOut))}
	mixed("upgrade", "start", "-f", rolloutFile(t, rollout("mixed", "", 60, "mixed-a", "mixed-b")))
	mixed("upgrade", "status", "mixed", "--watch")
	for cluster, seen := range before {
		require.ElementsMatch(t, []string{"control-plane-1", "worker-1", "worker-2"}, fleet.Cordoned(actionsOf(t, cluster)[seen:]), cluster.Name)
	}
	require.Positive(t, proxy.used(), "Temporal was reached through the proxy")

	mixed("node", "maintain", "worker-1", "--cluster", "mixed-a", "--name", "moves", "--wait")
	setKubeconfig()
	_, err = secrets.Update(t.Context(), secret, metav1.UpdateOptions{})
	require.NoError(t, err)
	awaitLog(`msg="the credentials of a cluster have changed"`)
	require.NoError(t, secrets.Delete(t.Context(), secret.Name, metav1.DeleteOptions{}))
	awaitLog(`msg="a cluster of the hub is gone"`)
	mixed("node", "done", "moves", "--cluster", "mixed-a")
	awaitWait(t, "moves", "mixed-a", temporal.ErrClusterUnknown)

	// The work moves into the cluster.
	changeManagedCluster(t, "mixed-a", func(cluster *unstructured.Unstructured) {
		cluster.SetAnnotations(map[string]string{kube.AnnotationWorker: kube.WorkerInCluster})
	})
	stopInside := startInsideWorker(t, "mixed-a", found, clustersFile, proxy)
	mixed("node", "status", "moves", "--cluster", "mixed-a", "--watch")
	mixed("node", "maintain", "worker-2", "--cluster", "mixed-a", "--name", "returns", "--wait")

	// It moves back, with the token that a managed service account has.
	stopInside()
	giveToken(t, "mixed-a", found)
	changeManagedCluster(t, "mixed-a", func(cluster *unstructured.Unstructured) { cluster.SetAnnotations(nil) })
	mixed("node", "done", "returns", "--cluster", "mixed-a")
	mixed("node", "status", "returns", "--cluster", "mixed-a", "--watch")
	for _, cluster := range []*devstack.Cluster{found, dialsOut} {
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), cluster))
	}
}

// awaitWait waits until a maintenance waits for a reason.
func awaitWait(t *testing.T, name, cluster, reason string) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		var object struct {
			Status maintenancev1.NodeMaintenanceStatus `json:"status"`
		}
		a := drydock(t, "node", "status", name, "--cluster", cluster, "--temporal-namespace", mixedNamespace, "-o", "json")
		if assert.NoError(c, json.Unmarshal([]byte(a.out), &object), a.err) && assert.NotNil(c, object.Status.Wait) {
			assert.Equal(c, reason, object.Status.Wait.Reason)
		}
	}, stateLimit, 200*time.Millisecond)
}

// mixedClustersFile names no cluster by itself.
func mixedClustersFile(t *testing.T) string {
	t.Helper()
	directory := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(directory, "hub.kubeconfig"), []byte(accountKubeconfig(t, theFleet.Hub, "drydock-hub")), 0o600))
	path := filepath.Join(directory, "clusters.yaml")
	require.NoError(t, os.WriteFile(path, []byte(`
hub: {kubeconfig: hub.kubeconfig}
discovery:
  secrets: [{namespaces: [drydock-clusters], selector: drydock.dev/cluster, servers: ["127.0.0.1:*"]}]
  managedClusters: {selector: name=mixed-a, servers: ["127.0.0.1:*"]}
allow: {jobs: [{images: ["registry.example.com/*"]}]}
`), 0o600))
	return path
}

func workerCommand(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	root, err := devstack.RepositoryRoot()
	require.NoError(t, err)
	return exec.Command(filepath.Join(root, "bin/drydock-worker"), append(args, "--temporal-namespace", mixedNamespace, "--controllers=false")...)
}

func startHubWorker(t *testing.T, clustersFile string) *devstacktest.Buffer {
	t.Helper()
	health := loopback(t)
	logs, _ := charttest.StartProgram(t, "hub worker", workerCommand(t, "--clusters", clustersFile, "--address", theFleet.Temporal.Address, "--health-address", health))
	awaitAnswer(t, "http://"+health+"/readyz", "ok")
	return logs
}

// startInsideWorker starts a worker as inside a cluster that resolves no name outside, and reaches nothing there but the proxy.
func startInsideWorker(t *testing.T, name string, cluster *devstack.Cluster, clustersFile string, proxy *forwardProxy) (stop func()) {
	t.Helper()
	kubeconfig := filepath.Join(t.TempDir(), "kubeconfig")
	require.NoError(t, os.WriteFile(kubeconfig, []byte(accountKubeconfig(t, cluster, "drydock-initiator")), 0o600))
	health := loopback(t)
	command := workerCommand(t, "--cluster", name, "--kubeconfig", kubeconfig, "--clusters", clustersFile, "--address", temporalBehindProxy, "--health-address", health)
	command.Env = append(os.Environ(), "HTTPS_PROXY=http://"+proxy.address)
	_, stop = charttest.StartProgram(t, "worker inside "+name, command)
	awaitAnswer(t, "http://"+health+"/readyz", "ok")
	return stop
}

// temporalBehindProxy is a name that only the proxy knows.
const temporalBehindProxy = "temporal.example.com:7233"

// forwardProxy passes connections out of a network to Temporal, and to nothing else.
type forwardProxy struct {
	address string

	mu     sync.Mutex
	passed int
}

func startForwardProxy(t *testing.T) *forwardProxy {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	p := &forwardProxy{address: listener.Addr().String()}
	server := &http.Server{Handler: http.HandlerFunc(p.serve), ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(listener) }() // until Close
	t.Cleanup(func() { _ = server.Close() })
	return p
}

func (p *forwardProxy) used() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.passed
}

func (p *forwardProxy) serve(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodConnect || r.Host != temporalBehindProxy {
		http.Error(w, "only CONNECT "+temporalBehindProxy, http.StatusForbidden)
		return
	}
	out, err := net.Dial("tcp", theFleet.Temporal.Address)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer out.Close()
	in, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return
	}
	defer in.Close()
	p.mu.Lock()
	p.passed++
	p.mu.Unlock()
	fmt.Fprint(in, "HTTP/1.1 200 Connection established\r\n\r\n")
	go func() {
		_, _ = io.Copy(out, buffered)
		_ = out.Close()
	}()
	_, _ = io.Copy(in, out)
}

// changeManagedCluster changes a ManagedCluster as an administrator of the hub.
func changeManagedCluster(t *testing.T, name string, change func(*unstructured.Unstructured)) {
	t.Helper()
	hub, err := client.New(theFleet.Hub.Config, client.Options{})
	require.NoError(t, err)
	cluster := &unstructured.Unstructured{}
	cluster.SetGroupVersionKind(policies.ManagedClusters)
	require.NoError(t, hub.Get(t.Context(), types.NamespacedName{Name: name}, cluster))
	change(cluster)
	require.NoError(t, hub.Update(t.Context(), cluster))
}

// giveToken writes what the klusterlet of a cluster and the add-on for managed service accounts write.
func giveToken(t *testing.T, name string, cluster *devstack.Cluster) {
	t.Helper()
	config, err := clientcmd.RESTConfigFromKubeConfig([]byte(accountKubeconfig(t, cluster, "drydock-initiator")))
	require.NoError(t, err)
	createNamespace(t, theFleet.Hub, name)
	secrets := theFleet.Hub.Client.CoreV1().Secrets(name)
	_, err = secrets.Create(t.Context(), &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: discovery.TokenSecret}, Data: map[string][]byte{"token": []byte(config.BearerToken), "ca.crt": config.CAData},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() {
		require.NoError(t, secrets.Delete(context.Background(), discovery.TokenSecret, metav1.DeleteOptions{}))
	})
	changeManagedCluster(t, name, func(registered *unstructured.Unstructured) {
		registered.Object["spec"] = map[string]any{
			"hubAcceptsClient":            true,
			"managedClusterClientConfigs": []any{map[string]any{"url": config.Host, "caBundle": base64.StdEncoding.EncodeToString(config.CAData)}},
		}
	})
}
