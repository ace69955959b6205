package controller_test

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/objects"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/controller"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// patience limits the wait for a state on a busy machine.
const patience = 2 * time.Minute

func TestControllers(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{
		Clusters: []devstack.ClusterOptions{{Name: "spoke", ControlPlaneOnly: true}, {Name: "annotated", ControlPlaneOnly: true}, {Name: "harbors", ControlPlaneOnly: true}},
		Temporal: &devstack.TemporalOptions{},
	})
	server, err := client.Dial(client.Options{HostPort: stack.Temporal.Address, Logger: slog.New(slog.NewTextHandler(io.Discard, nil))})
	require.NoError(t, err)
	t.Cleanup(server.Close)
	_, err = temporal.RegisterSearchAttributes(t.Context(), server, "default")
	require.NoError(t, err)
	t.Run("wait for their CRDs and for other operators", func(t *testing.T) { waitForCRDsAndOperators(t, stack.Cluster("spoke"), server) })
	t.Run("manage a HarborCluster that changes as it is released", func(t *testing.T) { harborEditedAsItIsReleased(t, stack.Cluster("harbors"), server) })
	t.Run("follow the clusters of the hub", func(t *testing.T) { followClustersOfTheHub(t, stack.Cluster("harbors"), server) })
	t.Run("wait for objects again", func(t *testing.T) { waitForObjectsAgain(t, stack.Cluster("annotated"), server) })
	t.Run("maintain annotated nodes", func(t *testing.T) { maintainAnnotatedNodes(t, stack.Cluster("annotated"), server) })
}

// waitForObjectsAgain runs controllers whose objects come and go.
func waitForObjectsAgain(t *testing.T, cluster *devstack.Cluster, server client.Client) {
	admin, log := adminOf(t, cluster), &devstacktest.Buffer{}
	require.NoError(t, cluster.Apply(t.Context(), "deploy/crds/maintenance.nvidia.com_nodemaintenances.yaml"))
	runAll(t, controller.Options{
		Clusters: kube.New(kube.FromConfigs(nil, map[string]*rest.Config{"resting": cluster.Config}), kube.Options{IdleTimeout: time.Second}),
		Temporal: server, Log: slog.New(slog.NewTextHandler(log, nil)),
	})
	for round := range 3 {
		object := &maintenancev1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: fmt.Sprint("round-", round)},
			Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "gpu.example.com", NodeName: "no-such-node"},
		}
		require.Eventually(t, func() bool { return admin.Create(t.Context(), object) == nil }, patience, 20*time.Millisecond, "a new CRD is served soon")
		require.Eventually(t, func() bool {
			err := admin.Get(t.Context(), kubeclient.ObjectKeyFromObject(object), object)
			return err == nil && len(object.Status.Conditions) > 0
		}, patience, 20*time.Millisecond, "the controller says that there is no such node")
		require.NoError(t, admin.Delete(t.Context(), object))
		require.Eventually(t, func() bool {
			return strings.Count(log.String(), `msg="controller waits for an object: there are none" cluster=resting kind=NodeMaintenance`) == round+1
		}, patience, 20*time.Millisecond)
	}
}

// adminOf returns a client with all rights.
func adminOf(t *testing.T, cluster *devstack.Cluster) kubeclient.Client {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	admin, err := kubeclient.New(cluster.Config, kubeclient.Options{Scheme: scheme})
	require.NoError(t, err)
	return admin
}

// run runs the controllers of a cluster until the end of the test.
func run(t *testing.T, name string, access *rest.Config, options controller.Options) {
	t.Helper()
	options.Clusters = kube.New(kube.FromConfigs(nil, map[string]*rest.Config{name: access}), kube.Options{})
	runAll(t, options)
}

// runAll runs the controllers of all clusters until the end of the test.
func runAll(t *testing.T, options controller.Options) {
	t.Helper()
	t.Cleanup(options.Clusters.Close)
	options.Interval = 100 * time.Millisecond
	ctx, stop := context.WithCancel(t.Context())
	var running sync.WaitGroup
	t.Cleanup(running.Wait)
	t.Cleanup(stop)
	running.Go(func() { options.Clusters.Discover(ctx) })
	running.Go(func() { controller.Run(ctx, options) })
}

// followClustersOfTheHub runs controllers while a Secret names a cluster.
func followClustersOfTheHub(t *testing.T, cluster *devstack.Cluster, server client.Client) {
	admin := adminOf(t, cluster)
	require.NoError(t, cluster.Apply(t.Context(), "deploy/crds/maintenance.nvidia.com_nodemaintenances.yaml"))
	file := filepath.Join(t.TempDir(), "clusters.yaml")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, `
hub: {kubeconfig: %s}
discovery: {secrets: [{namespaces: [default], selector: drydock.dev/cluster, servers: ["127.0.0.1:*"]}]}
`, cluster.KubeconfigFile), 0o600))
	source, err := kube.FromClustersFile(file)
	require.NoError(t, err)
	log := &devstacktest.Buffer{}
	runAll(t, controller.Options{Clusters: kube.New(source, kube.Options{}), Temporal: server, Log: slog.New(slog.NewTextHandler(log, nil))})
	kubeconfig, err := os.ReadFile(cluster.KubeconfigFile)
	require.NoError(t, err)
	secret := &corev1.Secret{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "edge", Labels: map[string]string{discovery.LabelCluster: "edge"}}, Data: map[string][]byte{"kubeconfig": kubeconfig},
	}
	require.NoError(t, admin.Create(t.Context(), secret))
	require.NoError(t, admin.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}}))
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), `msg="controller started" cluster=edge kind=NodeMaintenance`)
	}, patience, 20*time.Millisecond)
	request := func(name string) *maintenancev1.NodeMaintenance {
		object := &maintenancev1.NodeMaintenance{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: maintenancev1.NodeMaintenanceSpec{RequestorID: "gpu.example.com", NodeName: "n1"},
		}
		require.NoError(t, admin.Create(t.Context(), object))
		return object
	}
	taken := func(object *maintenancev1.NodeMaintenance) bool {
		return admin.Get(t.Context(), kubeclient.ObjectKeyFromObject(object), object) == nil && len(object.Finalizers) > 0
	}
	first := request("followed")
	require.Eventually(t, func() bool { return taken(first) }, patience, 20*time.Millisecond)

	require.NoError(t, admin.Delete(t.Context(), secret))
	require.Eventually(t, func() bool {
		return strings.Contains(log.String(), `msg="controllers of the cluster end" cluster=edge`)
	}, patience, 20*time.Millisecond)
	second := request("too-late")
	secret.ResourceVersion, secret.UID = "", ""
	require.False(t, taken(second))
	require.NoError(t, admin.Create(t.Context(), secret))
	require.Eventually(t, func() bool { return taken(second) }, patience, 20*time.Millisecond)
}

func waitForCRDsAndOperators(t *testing.T, cluster *devstack.Cluster, server client.Client) {
	admin := adminOf(t, cluster)
	create := func(objects ...kubeclient.Object) {
		t.Helper()
		for _, object := range objects {
			require.NoError(t, admin.Create(t.Context(), object))
		}
	}
	operator := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "maintenance-operator"},
		Spec: appsv1.DeploymentSpec{
			Replicas: new(int32(1)), Selector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "operator"}},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "operator"}},
				Spec: corev1.PodSpec{
					ServiceAccountName: "operator", Containers: []corev1.Container{{Name: "manager", Image: "registry.example.com/operator:1.0"}},
				},
			},
		},
	}
	create(
		&rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "operator"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{"maintenance.nvidia.com"}, Resources: []string{"nodemaintenances/status"}, Verbs: []string{"update"}},
		}},
		&rbacv1.ClusterRoleBinding{
			ObjectMeta: metav1.ObjectMeta{Name: "operator"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "operator"},
			Subjects: []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: "default", Name: "operator"}},
		},
		operator, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}},
	)

	log := &devstacktest.Buffer{}
	logged := func(text string) int { return strings.Count(log.String(), text) }
	run(t, "spoke", cluster.Config, controller.Options{Temporal: server, Log: slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	require.NoError(t, cluster.Apply(t.Context(), "deploy/crds/maintenance.nvidia.com_nodemaintenances.yaml"))
	const off = `msg="controller is off: another operator acts on the kind" cluster=spoke kind=NodeMaintenance operator=default/maintenance-operator`
	require.Eventually(t, func() bool { return logged(off) > 0 }, patience, 20*time.Millisecond)
	request := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "r1"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: "gpu.example.com", NodeName: "n1"},
	}
	require.Eventually(t, func() bool { return admin.Create(t.Context(), request) == nil }, patience, 20*time.Millisecond, "the API server serves a new kind a moment later")
	const checked = `msg="cluster checked for controllers to start and stop"`
	seen := logged(checked)
	require.Eventually(t, func() bool { return logged(checked) > seen+1 }, patience, 20*time.Millisecond)
	require.Equal(t, 1, logged(off), "a reason is logged once")
	require.NoError(t, admin.Get(t.Context(), kubeclient.ObjectKeyFromObject(request), request))
	require.Empty(t, request.Finalizers, "the object is the operator's")

	operator.Spec.Replicas = new(int32(0))
	require.NoError(t, admin.Update(t.Context(), operator))
	id := temporal.NodeMaintenanceID("spoke", "default", "r1")
	require.Eventually(t, func() bool {
		_, err := server.DescribeWorkflowExecution(t.Context(), id, "")
		return err == nil
	}, patience, 20*time.Millisecond)
	require.NoError(t, admin.Get(t.Context(), kubeclient.ObjectKeyFromObject(request), request))
	require.Equal(t, []string{objects.Finalizer}, request.Finalizers)
	require.Equal(t, "n1", request.OwnerReferences[0].Name)
}
