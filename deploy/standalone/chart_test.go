package main

import (
	"context"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/charttest"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/setup"
)

// TestTheChartWithoutAValueWorks: helm installs nothing in the cluster but the chart, and the program gets what its pod gets: the ServiceAccount, the arguments and
// the volumes. Only its ports are others.
func TestTheChartWithoutAValueWorks(t *testing.T) {
	_, spoke := clusters(t)
	s := &standalone{t: t, ended: make(chan error, 1), logs: &devstacktest.Buffer{}, temporal: devstacktest.FreeAddress(t), webUI: devstacktest.FreeAddress(t), page: devstacktest.FreeAddress(t), health: devstacktest.FreeAddress(t)}
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	objects, err := kubeclient.New(spoke.Config, kubeclient.Options{Scheme: scheme})
	require.NoError(t, err)
	helm := func(args ...string) {
		_, err := charttest.Helm(t.Context(), append(args, "--kubeconfig", spoke.KubeconfigFile, "--namespace", kube.SystemNamespace)...)
		require.NoError(t, err)
	}
	helm("install", "drydock", charttest.Chart, "--create-namespace")
	t.Cleanup(func() { deleteCRDs(t, objects) }) // the next test needs a cluster without any
	helm("upgrade", "drydock", charttest.Chart, "--set", fmt.Sprintf(
		"standalone.extraArgs={--temporal-address=%s,--web-ui-address=%s,--page-address=%s,--health-address=%s}", s.temporal, s.webUI, s.page, s.health))

	installed, err := spoke.Client.AppsV1().StatefulSets(kube.SystemNamespace).Get(t.Context(), "drydock", metav1.GetOptions{})
	require.NoError(t, err)
	pod := installed.Spec.Template.Spec
	kubelet := charttest.Kubelet{Cluster: spoke, Programs: filepath.Dir(program), Dir: t.TempDir()}
	s.command, err = kubelet.Command(context.Background(), pod, pod.Containers[0])
	require.NoError(t, err)
	s.run()
	s.awaitReady()

	maintenance := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "chart"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "test.example.com", NodeName: "worker-1", DrainSpec: &maintenancev1.DrainSpec{}},
	}
	require.NoError(t, objects.Create(t.Context(), maintenance.DeepCopy()))
	awaitReason(t, objects, maintenance, "Ready")
	node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1"}}
	require.NoError(t, objects.Get(t.Context(), kubeclient.ObjectKeyFromObject(node), node))
	require.True(t, node.Spec.Unschedulable)
	for host, status := range map[string]int{"drydock-status-page.drydock-system.svc": http.StatusOK, "attacker.example.com": http.StatusForbidden} {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+s.page+"/nodes/local-cluster/worker-1", nil)
		require.NoError(t, err)
		request.Host = host
		require.EventuallyWithT(t, func(c *assert.CollectT) {
			answer, err := http.DefaultClient.Do(request)
			if assert.NoError(c, err) {
				assert.NoError(c, answer.Body.Close())
				assert.Equal(c, status, answer.StatusCode, host)
			}
		}, 5*time.Minute, 100*time.Millisecond)
	}

	require.NoError(t, objects.Delete(t.Context(), maintenance))
	awaitGone(t, objects, maintenance)
	require.NoError(t, objects.Get(t.Context(), kubeclient.ObjectKeyFromObject(node), node))
	require.False(t, node.Spec.Unschedulable)
	require.NoError(t, s.command.Process.Signal(os.Interrupt))
	require.NoError(t, <-s.ended, s.logs)

	helm("uninstall", "drydock")
	_, err = spoke.Client.AppsV1().StatefulSets(kube.SystemNamespace).Get(t.Context(), "drydock", metav1.GetOptions{})
	require.True(t, apierrors.IsNotFound(err), "%v", err)
	require.NoError(t, objects.List(t.Context(), &maintenancev1.NodeMaintenanceList{}), "the CRDs stay, with the objects of users")
}

func deleteCRDs(t *testing.T, objects kubeclient.Client) {
	for _, site := range []setup.Site{setup.Hub, setup.Spoke} {
		definitions, err := setup.Definitions(site)
		require.NoError(t, err)
		for _, definition := range definitions {
			require.NoError(t, kubeclient.IgnoreNotFound(objects.Delete(context.Background(), definition)))
			awaitGone(t, objects, definition)
		}
	}
}

func awaitGone(t *testing.T, objects kubeclient.Client, object kubeclient.Object) {
	t.Helper()
	require.EventuallyWithT(t, func(c *assert.CollectT) {
		found := object.DeepCopyObject().(kubeclient.Object)
		err := objects.Get(context.Background(), kubeclient.ObjectKeyFromObject(object), found)
		assert.True(c, err != nil && kubeclient.IgnoreNotFound(err) == nil, "%s %s: %v", object.GetObjectKind().GroupVersionKind().Kind, object.GetName(), err)
	}, 5*time.Minute, 100*time.Millisecond)
}
