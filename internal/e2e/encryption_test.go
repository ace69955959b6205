package e2e

import (
	"bytes"
	"context"
	"encoding/base64"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	historypb "go.temporal.io/api/history/v1"
	"go.temporal.io/api/workflowservice/v1"
	temporalclient "go.temporal.io/sdk/client"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/known/durationpb"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/observe"
)

// Secrets that this test plants. Those of a person are in Temporal, encrypted; the password of a health check is in its Secret only.
const (
	plantedReason   = "planted-reason-7f3a"
	plantedQuery    = "planted-query-51bc"
	plantedPassword = "planted-password-e90d"
)

func TestTemporalAndTheClustersStoreNoSecrets(t *testing.T) {
	reserve(t, "spoke-6")
	spoke := theFleet.Cluster("spoke-6")
	keys := filepath.Join(t.TempDir(), "keys.yaml")
	plantedKey := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("7"), 32))
	require.NoError(t, os.WriteFile(keys, []byte("keys:\n- id: june\n  key: "+plantedKey+"\n"), 0o600))
	const namespace = "encrypted"
	encrypted := []string{"--temporal-namespace", namespace, "--encryption-key-file", keys}
	stored := newNamespace(t, namespace)
	require.Eventually(t, func() bool { return drydock(t, append([]string{"setup"}, encrypted...)...).code == 0 }, stateLimit, time.Second)
	worker, err := theFleet.AddWorker(append(encrypted, "--controllers=false", "--node-annotations=false")...)
	require.NoError(t, err)
	require.NoError(t, worker.Start(t.Context()))
	t.Cleanup(func() { require.NoError(t, worker.Kill()) })

	healthy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		if user != "drydock" || password != plantedPassword {
			w.WriteHeader(http.StatusUnauthorized)
		}
	}))
	t.Cleanup(healthy.Close)
	host := strings.TrimPrefix(healthy.URL, "http://")
	plantPassword(t, spoke, host)
	manifest := filepath.Join(t.TempDir(), "maintenance.yaml")
	require.NoError(t, os.WriteFile(manifest, fmt.Appendf(nil, `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: planted, namespace: default}
spec:
  requestorID: ann.example.com
  nodeName: worker-1
  healthChecks:
  - name: endpoint
    http: {url: "%s/?token=%s", secretRef: {name: endpoint}}
`, healthy.URL, plantedQuery), 0o600))
	run := func(args ...string) string { return succeeds(t, append(args, encrypted...)...) }
	run("node", "maintain", "-f", manifest, "--cluster", spoke.Name, "--reason", plantedReason, "--wait")
	t.Cleanup(func() {
		_ = theFleet.Run(context.Background(), io.Discard, append([]string{"node", "cancel", "planted", "--cluster", spoke.Name}, encrypted...)...)
	})
	run("node", "done", "planted", "--cluster", spoke.Name)
	run("node", "status", "planted", "--cluster", spoke.Name, "--watch")
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
	require.Contains(t, run("node", "describe", "planted", "--cluster", spoke.Name), plantedReason, "with the key, people read it")
	without := drydock(t, "node", "describe", "planted", "--cluster", spoke.Name, "--temporal-namespace", namespace)
	require.NotZero(t, without.code)
	require.Contains(t, without.err, `encrypted with key "june"`)

	histories := storedHistories(t, stored)
	for _, planted := range []string{plantedReason, plantedQuery, plantedPassword, plantedKey} {
		requireAbsent(t, histories, planted)
	}
	for _, cluster := range []*devstack.Cluster{theFleet.Hub, spoke} {
		objects := allObjects(t, cluster)
		requireAbsent(t, objects, plantedReason)
		requireAbsent(t, objects, plantedQuery)
		requireAbsent(t, objects, plantedKey)
		requireAbsent(t, objects, plantedPassword)
	}
}

// newNamespace registers a Temporal namespace, and returns a client without keys.
func newNamespace(t *testing.T, name string) temporalclient.Client {
	_, err := temporalClient(t).WorkflowService().RegisterNamespace(t.Context(), &workflowservice.RegisterNamespaceRequest{
		Namespace: name, WorkflowExecutionRetentionPeriod: durationpb.New(24 * time.Hour),
	})
	require.NoError(t, err)
	c, err := temporalclient.NewLazyClient(temporalclient.Options{HostPort: theFleet.Temporal.Address, Namespace: name})
	require.NoError(t, err)
	t.Cleanup(c.Close)
	return c
}

func plantPassword(t *testing.T, spoke *devstack.Cluster, host string) {
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Name: "endpoint", Annotations: map[string]string{"drydock.dev/hosts": host}},
		Type:       corev1.SecretTypeBasicAuth, StringData: map[string]string{"username": "drydock", "password": plantedPassword},
	}
	secrets := spoke.Client.CoreV1().Secrets("drydock-health-checks")
	_, err := secrets.Create(t.Context(), secret, metav1.CreateOptions{})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, secrets.Delete(context.Background(), secret.Name, metav1.DeleteOptions{})) })
}

// storedHistories are the histories of all workflows as Temporal stores them, by workflow.
func storedHistories(t *testing.T, c temporalclient.Client) map[string]string {
	found := map[string]string{}
	executions, err := observe.Executions(t.Context(), c, "", 0)
	require.NoError(t, err)
	require.NotEmpty(t, executions)
	for _, execution := range executions {
		id, run := execution.GetExecution().GetWorkflowId(), execution.GetExecution().GetRunId()
		history := &historypb.History{}
		for events := c.GetWorkflowHistory(t.Context(), id, run, false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
			event, err := events.Next()
			require.NoError(t, err)
			history.Events = append(history.Events, event)
		}
		text, err := protojson.Marshal(history)
		require.NoError(t, err)
		listed, err := protojson.Marshal(execution)
		require.NoError(t, err)
		found[id+" "+run] = string(text) + string(listed)
	}
	return found
}

// allObjects are all objects of a cluster, by kind and name, except the Secret with the password.
func allObjects(t *testing.T, cluster *devstack.Cluster) map[string]string {
	objects, err := dynamic.NewForConfig(cluster.Config)
	require.NoError(t, err)
	kinds, err := cluster.Client.Discovery().ServerPreferredResources()
	require.NoError(t, err)
	found := map[string]string{}
	listable, err := discovery.GroupVersionResources(discovery.FilteredBy(discovery.SupportsAllVerbs{Verbs: []string{"list"}}, kinds))
	require.NoError(t, err)
	for kind := range listable {
		list, err := objects.Resource(kind).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, "%s", kind)
		for _, object := range list.Items {
			if kind.Resource == "secrets" && object.GetNamespace() == "drydock-health-checks" {
				continue
			}
			text, err := object.MarshalJSON()
			require.NoError(t, err)
			found[kind.Resource+" "+object.GetNamespace()+"/"+object.GetName()] = string(text)
		}
	}
	require.NotEmpty(t, found)
	return found
}

// requireAbsent looks for a text, and for its forms in Base64 at each offset.
func requireAbsent(t *testing.T, texts map[string]string, planted string) {
	t.Helper()
	forms := []string{planted}
	for offset := range 3 {
		encoded := base64.StdEncoding.EncodeToString([]byte(strings.Repeat("x", offset) + planted))
		forms = append(forms, encoded[4:len(encoded)-4]) // without what its neighbours change
	}
	for where, text := range texts {
		for _, form := range forms {
			require.False(t, strings.Contains(text, form), "%q is in %s", planted, where)
		}
	}
}
