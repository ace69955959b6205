package attack

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/activities/jobs"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
	planning "drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/sweeper"
)

// mallory is the tenant: she has the role edit in every namespace of a cluster but those that deploy/rbac creates.
const mallory = "mallory"

// ofDrydock reports whether deploy/rbac creates a namespace.
func ofDrydock(namespace string) bool {
	return strings.HasPrefix(namespace, "drydock-") || strings.HasPrefix(namespace, "openshift-talo-") || namespace == "ztp-install"
}

// createTenants gives mallory her rights in each cluster, and her own namespace. There she may request maintenances, rollouts and windows, too.
func createTenants(ctx context.Context) error {
	for _, cluster := range theFleet.Clusters() {
		admin, err := client.New(cluster.Config, client.Options{})
		if err != nil {
			return err
		}
		if err := admin.Create(ctx, &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: tenantNamespace}}); err != nil {
			return err
		}
		requests := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Namespace: tenantNamespace, Name: "requests"}, Rules: []rbacv1.PolicyRule{
			{APIGroups: []string{maintenancev1.GroupVersion.Group}, Resources: []string{"nodemaintenances", "maintenanceoperatorconfigs"}, Verbs: []string{"*"}},
			{APIGroups: []string{drydockv1.GroupVersion.Group}, Resources: []string{"maintenancewindows"}, Verbs: []string{"*"}},
			{APIGroups: []string{ranv1.GroupVersion.Group}, Resources: []string{"clustergroupupgrades"}, Verbs: []string{"*"}},
		}}
		var namespaces corev1.NamespaceList
		objects := []client.Object{requests, bound(tenantNamespace, "Role", "requests")}
		if err := admin.List(ctx, &namespaces); err != nil {
			return err
		}
		for _, namespace := range namespaces.Items {
			if !ofDrydock(namespace.Name) {
				for _, role := range editRoles {
					objects = append(objects, bound(namespace.Name, "ClusterRole", role))
				}
			}
		}
		for _, object := range objects {
			if err := admin.Create(ctx, object); err != nil {
				return err
			}
		}
	}
	return nil
}

// editRoles make up the role edit, which is empty on the hub: no controller aggregates them there.
var editRoles = []string{"system:aggregate-to-edit", "system:aggregate-to-view"}

// bound binds a role for mallory.
func bound(namespace, kind, role string) *rbacv1.RoleBinding {
	return &rbacv1.RoleBinding{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: mallory + "-" + strings.ReplaceAll(role, ":", "-")},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: kind, Name: role},
		Subjects:   []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: mallory}},
	}
}

// asMallory returns a client of the tenant.
func asMallory(t *testing.T, cluster *devstack.Cluster) client.Client {
	t.Helper()
	config := rest.CopyConfig(cluster.Config)
	config.Impersonate = rest.ImpersonationConfig{UserName: mallory, Groups: []string{"system:authenticated"}}
	return clientOf(t, config)
}

func clientOf(t *testing.T, config *rest.Config) client.Client {
	t.Helper()
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	c, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return c
}

// refused requires that the API server refuses each of these requests.
func refused(t *testing.T, requests map[string]error) {
	t.Helper()
	for what, err := range requests {
		require.True(t, apierrors.IsForbidden(err), "%s: %v", what, err)
	}
}

// A tenant of the hub forges what Drydock saves: a rollout that has succeeded, one to retry, and holds. None of it is believed outside of drydock-system, where the
// tenant may not write.
func tenantForgesSavedState(t *testing.T) {
	hub := asMallory(t, theFleet.Hub)
	forged := &ranv1.ClusterGroupUpgrade{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "forged"}}
	text := "apiVersion: ran.openshift.io/v1alpha1\nkind: ClusterGroupUpgrade\nmetadata: {name: forged, namespace: default}\nspec: {clusters: [spoke-1]}\n" +
		"status: {conditions: [{type: Succeeded, status: \"True\", reason: Completed, message: x, lastTransitionTime: \"2026-11-20T12:00:00Z\"}]}\n"
	saved := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{
				Namespace: namespace, Name: planning.SavedName(forged.Namespace, forged.Name), Labels: map[string]string{activitykit.LabelManagedBy: activitykit.ManagedBy},
				Annotations: map[string]string{kube.AnnotationOwner: temporal.ClusterGroupUpgradeID("default", "forged") + "/" + uuid.NewString()},
			},
			Data: map[string]string{planning.SavedKey: text},
		}
	}
	held := func(namespace string) *corev1.ConfigMap {
		return &corev1.ConfigMap{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: holds.SavedHoldsName, Labels: map[string]string{activitykit.LabelManagedBy: activitykit.ManagedBy}},
			Data:       map[string]string{holds.SavedHoldsKey: "number: 9000000000000000000\nholds: []\n"},
		}
	}
	for _, namespace := range []string{"default", tenantNamespace} {
		require.NoError(t, hub.Create(t.Context(), saved(namespace)))
		require.NoError(t, hub.Create(t.Context(), held(namespace)))
	}
	refused(t, map[string]error{
		"save a rollout":           hub.Create(t.Context(), saved(kube.SystemNamespace)),
		"save holds":               hub.Create(t.Context(), held(kube.SystemNamespace)),
		"read what is saved":       hub.List(t.Context(), &corev1.ConfigMapList{}, client.InNamespace(kube.SystemNamespace)),
		"use an account":           hub.Create(t.Context(), podWithAccount(kube.SystemNamespace, "drydock-hub")),
		"start a rollout":          hub.Create(t.Context(), forged),
		"read accounts' Secrets":   hub.List(t.Context(), &corev1.SecretList{}, client.InNamespace(kube.SystemNamespace)),
		"end a rollout of another": hub.Status().Update(t.Context(), forged),
	})

	succeeds(t, "upgrade", "retry", "forged")
	err := theTemporal(t).GetWorkflow(t.Context(), temporal.ClusterGroupUpgradeID("default", "forged"), "").Get(t.Context(), nil)
	require.ErrorContains(t, err, "is not saved")

	succeeds(t, "hold", "--cluster", "spoke-1", "--reason", "attack")
	t.Cleanup(func() {
		_, _ = theFleet.Command(context.Background(), "release", "--cluster", "spoke-1").CombinedOutput()
	})
	require.NoError(t, theFleet.Await(t.Context(), theFleet.Hub, "the hold is saved", []client.Object{&corev1.ConfigMap{}}, func(ctx context.Context, hub client.Reader) (bool, error) {
		var saved corev1.ConfigMap
		err := hub.Get(ctx, client.ObjectKey{Namespace: holds.SavedHoldsNamespace, Name: holds.SavedHoldsName}, &saved)
		return strings.Contains(saved.Data[holds.SavedHoldsKey], "attack"), client.IgnoreNotFound(err)
	}))
	require.NoError(t, theTemporal(t).TerminateWorkflow(t.Context(), temporal.EmergencyStopID, "", "its state is read from the hub again"))
	stopped := maintain(t, outsideSpoke(), "worker-1", nil)
	stopped.await(func(s maintenancev1.NodeMaintenanceStatus) bool { return s.Held != nil && s.Held.Reason == "attack" })
	succeeds(t, "release", "--cluster", "spoke-1")
	stopped.awaitState(maintenancev1.NodeReady)
	stopped.signal(temporal.SignalDone)
	stopped.awaitState(maintenancev1.NodeCompleted)

	blocked := file(t, "apiVersion: ran.openshift.io/v1alpha1\nkind: ClusterGroupUpgrade\nmetadata: {name: blocked, namespace: default}\n"+
		"spec: {clusters: [spoke-1], blockingCRs: [{name: forged, namespace: default}], nodeMaintenance: {}, remediationStrategy: {maxConcurrency: 1, timeout: 60}}\n")
	succeeds(t, "upgrade", "start", "-f", blocked)
	waiting := workflowOf[ranv1.ClusterGroupUpgradeStatus]{t, temporal.ClusterGroupUpgradeID("default", "blocked")}
	waiting.await(func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Wait != nil && strings.Contains(s.Wait.Message, "default/forged")
	})
	waiting.signal(temporal.SignalCancel)
}

func podWithAccount(namespace, account string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: "mallory"},
		Spec:       corev1.PodSpec{ServiceAccountName: account, Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/shell:1.0"}}},
	}
}

// A tenant who may create Jobs marks them as Drydock does: fifty with owners of 240 KiB, some that look like Drydock's, and one of a maintenance that was terminated
// while it had a node out of service. The sweeper cleans up after that maintenance, and leaves the Jobs.
func tenantForgesMarksOfJobs(t *testing.T) {
	spoke := outsideSpoke()
	tenant, guard := asMallory(t, spoke), guardPod(t, spoke)
	for i := range 50 {
		require.NoError(t, tenant.Create(t.Context(), markedJob(fmt.Sprintf("bomb-%d", i), strings.Repeat("x", 240<<10))))
	}
	for i := range 100 {
		workflow := temporal.NodeMaintenanceID(spoke.Name, tenantNamespace, fmt.Sprintf("m%d", i))
		require.NoError(t, tenant.Create(t.Context(), plausibleJob(workflow+"/"+uuid.NewString(), fmt.Sprintf("m%d", i))))
	}
	ended := maintain(t, spoke, guard.node, nil)
	ended.awaitState(maintenancev1.NodeDraining)
	node, err := spoke.Client.CoreV1().Nodes().Get(t.Context(), guard.node, metav1.GetOptions{})
	require.NoError(t, err)
	owner := kube.Owner(node)
	_, _, name, ok := temporal.ParseNodeMaintenanceID(ended.id)
	require.True(t, ok)
	require.NoError(t, tenant.Create(t.Context(), plausibleJob(owner, name)))
	require.NoError(t, theTemporal(t).TerminateWorkflow(t.Context(), ended.id, "", "attack"))
	require.NoError(t, theFleet.Await(t.Context(), spoke, "the sweeper returns the node", []client.Object{&corev1.Node{}},
		func(ctx context.Context, reader client.Reader) (bool, error) {
			var node corev1.Node
			err := reader.Get(ctx, client.ObjectKey{Name: guard.node}, &node)
			return !node.Spec.Unschedulable && kube.Owner(&node) == "", err
		}))
	status := workflowOf[sweeper.Status]{t, temporal.SweeperID(spoke.Name)}.await(func(s sweeper.Status) bool { return s.IgnoredMarks >= 151 })
	require.Nil(t, status.Trouble())
	var left batchv1.JobList
	require.NoError(t, tenant.List(t.Context(), &left, client.InNamespace(tenantNamespace)))
	require.Len(t, left.Items, 151, "Drydock deletes none of them")
}

// plausibleJob is a Job with the name that follows from the owner of a maintenance.
func plausibleJob(owner, maintenance string) *batchv1.Job {
	return markedJob(jobs.NameOfJob(jobs.RunJobInput{NodeRef: activitykit.NodeRef{Owner: owner}, Maintenance: maintenance}), owner)
}

func markedJob(name, owner string) *batchv1.Job {
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: tenantNamespace, Name: name, Finalizers: []string{jobs.Finalizer}, Annotations: map[string]string{kube.AnnotationOwner: owner},
		},
		Spec: batchv1.JobSpec{Suspend: new(true), Template: corev1.PodTemplateSpec{Spec: corev1.PodSpec{
			RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "c", Image: "registry.example.com/shell:1.0"}},
		}}},
	}
}
