package objects_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/objects"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/operators"
	"drydock.dev/drydock/internal/temporal"
)

// Controllers of both accounts look for other operators of their kinds before they act.
func TestOtherOperatorsAreFoundWithTheShippedRoles(t *testing.T) {
	cluster := activitytest.Stack.Cluster(activitytest.HubName)
	activitytest.Create(t, activitytest.BareCluster(t), &rbacv1.ClusterRole{ObjectMeta: metav1.ObjectMeta{Name: "other-operator"}, Rules: []rbacv1.PolicyRule{
		{APIGroups: []string{ranv1.GroupVersion.Group}, Resources: []string{"clustergroupupgrades/status"}, Verbs: []string{"update"}},
	}})
	for _, account := range []string{"drydock-hub", "drydock-initiator"} {
		config, err := cluster.ServiceAccountConfig(t.Context(), "drydock-system", account)
		require.NoError(t, err)
		clientset, err := kubernetes.NewForConfig(config)
		require.NoError(t, err)
		found, err := operators.Running(t.Context(), clientset)
		require.NoError(t, err, account)
		require.Empty(t, found, "no Deployment has the role")
		// The controllers look again when these change.
		bindings, err := clientset.RbacV1().ClusterRoleBindings().Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, account)
		bindings.Stop()
		deployments, err := clientset.AppsV1().Deployments("").Watch(t.Context(), metav1.ListOptions{})
		require.NoError(t, err, account)
		deployments.Stop()
	}
}

// The CRD of a kind may lack fields of the status: that of another vendor, or an older one. Then it is read.
func TestTheCRDsOfTheHubAreReadWithTheShippedRole(t *testing.T) {
	hub := activitytest.BareCluster(t)
	for _, text := range []string{
		"{apiVersion: ran.openshift.io/v1alpha1, kind: ClusterGroupUpgrade, spec: {clusters: [c1], nodeMaintenance: {}, remediationStrategy: {maxConcurrency: 1}}}",
		"{apiVersion: drydock.dev/v1alpha1, kind: MaintenanceWindow, spec: {timeZone: UTC, recurrence: FREQ=DAILY;BYHOUR=3, duration: 1h}}",
		"{apiVersion: sreportal.io/v1alpha1, kind: Component, spec: {displayName: Shop, group: Customers, portalRef: main, status: operational}}",
		"{apiVersion: sreportal.io/v1alpha1, kind: Maintenance, spec: {title: Switches, portalRef: main, components: [shop], " +
			"scheduledStart: '2026-11-21T21:00:00Z', scheduledEnd: '2026-11-22T01:00:00Z'}}",
	} {
		object := &unstructured.Unstructured{}
		require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
		object.SetNamespace("default")
		object.SetName("lacking")
		require.NoError(t, hub.Client.Create(t.Context(), object), text)
		t.Cleanup(func() { require.NoError(t, hub.Client.Delete(context.Background(), object)) })
		_, err := (&objects.Activities{Clusters: activitytest.Clusters}).PublishStatus(t.Context(), objects.PublishStatusInput{
			Object: temporal.Object{APIVersion: object.GetAPIVersion(), Kind: object.GetKind(), Namespace: "default", Name: "lacking", UID: object.GetUID()},
			Status: map[string]any{"fieldOfALaterVersion": "x"},
		})
		require.NoError(t, err, text)
	}
}

// An object that the cache does not have yet is read from the API server.
func TestObjectsOfPortalsAreReadWithTheShippedRole(t *testing.T) {
	hub := activitytest.BareCluster(t).Client
	for kind, object := range map[string]client.Object{"Component": &sreportalv1.Component{}, "Maintenance": &sreportalv1.Maintenance{}, "Incident": &sreportalv1.Incident{}} {
		found, err := (&objects.Activities{Clusters: activitytest.Clusters}).ReadRequest(t.Context(), temporal.Object{
			APIVersion: sreportalv1.GroupVersion.String(), Kind: kind, Namespace: "default", Name: "none",
		})
		require.NoError(t, err, kind)
		require.True(t, found.Gone)
		require.Error(t, hub.Get(t.Context(), client.ObjectKey{Namespace: "default", Name: "none"}, object))
	}
}
