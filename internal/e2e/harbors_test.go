package e2e

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	harboractivities "drydock.dev/drydock/activities/harbor"
	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/operators"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/history"
	"drydock.dev/drydock/internal/temporal"
	harborworkflow "drydock.dev/drydock/workflows/harbor"
)

// start creates a HarborCluster and starts its workflow.
func (s *harborSpoke) start(t *testing.T, server temporalclient.Client, namespace string, secrets ...string) error {
	if err := theFleet.AddHarborNamespace(t.Context(), s.Cluster, namespace); err != nil {
		return err
	}
	for _, name := range secrets {
		if err := s.api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: name}}); err != nil {
			return err
		}
	}
	object, err := fleet.HarborCluster{Namespace: namespace, External: true}.Object()
	if err != nil {
		return err
	}
	if err := s.api.Create(t.Context(), object); err != nil {
		return err
	}
	_, err = server.ExecuteWorkflow(t.Context(), temporalclient.StartWorkflowOptions{ID: temporal.HarborClusterID(s.Name, namespace, "main"), TaskQueue: temporal.TaskQueue},
		temporal.HarborCluster, harborworkflow.Input{Cluster: s.Name, Namespace: namespace, Name: "main"})
	return err
}

// awaitGone waits until no HarborCluster is left.
func (s *harborSpoke) awaitGone(t *testing.T) {
	t.Helper()
	require.NoError(t, theFleet.Await(t.Context(), s.Cluster, "no HarborCluster is left", []client.Object{&goharborv1.HarborCluster{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		var left goharborv1.HarborClusterList
		err := reader.List(ctx, &left)
		return len(left.Items) == 0, err
	}))
}

func TestManyConcurrentHarborsAreIndependent(t *testing.T) {
	reserve(t, "spoke-1")
	spoke, server := newHarborSpoke(t, theFleet.Spokes[0]), temporalClient(t)
	// One kind is healthy, one has a failed database, one has a database that never starts, and one has no credentials for its storage.
	kinds := []struct {
		database operators.Behaviour
		secrets  []string
		becomes  func(goharborv1.HarborClusterStatus) bool
	}{
		{operators.Behaviour{}, []string{"s3"}, healthyHarbor},
		{operators.Behaviour{Fails: true}, []string{"s3"}, func(s goharborv1.HarborClusterStatus) bool {
			return s.Status == goharborv1.StatusUnhealthy && harbor.ConditionOf(s, goharborv1.DatabaseReady).Reason == "CreateFailed"
		}},
		{operators.Behaviour{After: -1}, []string{"s3"}, waitsFor(goharborv1.DatabaseReady, "Creating")},
		{operators.Behaviour{}, nil, waitsFor(goharborv1.StorageReady, harbor.ReasonSecretMissing)},
	}
	namespaceOf := func(i int) string { return fmt.Sprintf("harbors-%d", i) }
	harbors := size(50, 12)
	var starting errgroup.Group
	starting.SetLimit(8)
	for i := range harbors {
		namespace, kind := namespaceOf(i), kinds[i%len(kinds)]
		spoke.operators.Simulate(operators.Postgresql, namespace, "postgresql-"+namespace+"-main", kind.database)
		starting.Go(func() error { return spoke.start(t, server, namespace, kind.secrets...) })
	}
	require.NoError(t, starting.Wait())
	for i := range harbors {
		spoke.becomes(t, namespaceOf(i), fmt.Sprintf("of kind %d", i%len(kinds)), kinds[i%len(kinds)].becomes)
	}
	var applied unstructured.UnstructuredList
	applied.SetGroupVersionKind(harbor.Harbor)
	require.NoError(t, spoke.api.List(t.Context(), &applied))
	for _, object := range applied.Items {
		var i int
		_, err := fmt.Sscanf(object.GetNamespace(), "harbors-%d", &i)
		require.NoError(t, err)
		require.Zero(t, i%len(kinds), "Harbor %s was applied before its services are ready", object.GetNamespace())
	}
	for i := 3; i < harbors; i += len(kinds) {
		require.NoError(t, spoke.api.Create(t.Context(), &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: "s3"}}))
	}
	for i := 3; i < harbors; i += len(kinds) {
		spoke.becomes(t, namespaceOf(i), "healthy with its credentials", healthyHarbor)
	}
	for i := range harbors {
		require.NoError(t, spoke.api.Delete(t.Context(), &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: namespaceOf(i), Name: "main"}}))
	}
	spoke.awaitGone(t)
}

// isFalse reports whether all conditions are False with that reason.
func isFalse(s goharborv1.HarborClusterStatus, reason string, kinds ...goharborv1.ConditionType) bool {
	return !slices.ContainsFunc(kinds, func(kind goharborv1.ConditionType) bool {
		condition := harbor.ConditionOf(s, kind)
		return condition.Status != metav1.ConditionFalse || condition.Reason != reason
	})
}

func TestAHarborReportsMissingOperatorsAndIsDeletedWithoutThem(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := newHarborSpokeWithoutOperators(t, theFleet.Spokes[2])
	require.NoError(t, spoke.Apply(t.Context(), "deploy/rbac/harbor.yaml"))
	const namespace = "harbor-alone"
	require.NoError(t, spoke.start(t, temporalClient(t), namespace, "s3"))
	spoke.becomes(t, namespace, "unhealthy without operators", func(s goharborv1.HarborClusterStatus) bool {
		return s.Status == goharborv1.StatusUnhealthy && isFalse(s, harbor.ReasonCRDMissing, goharborv1.DatabaseReady, goharborv1.ServiceReady, goharborv1.ConfigurationReady) &&
			harbor.ConditionOf(s, goharborv1.CacheReady).Reason == harbor.ReasonExternal && harbor.ConditionOf(s, goharborv1.StorageReady).Status == metav1.ConditionTrue
	})
	a := drydock(t, "harbor", "status", namespace+"/main", "--cluster", spoke.Name)
	require.Equal(t, 1, a.code)
	require.Contains(t, a.out, "the cluster does not serve postgresql of acid.zalan.do/v1: install its operator")
	succeeds(t, "harbor", "delete", "main", "-n", namespace, "--cluster", spoke.Name, "--wait")
}

// applying is the first activity that applied a part, from the history of the workflow.
type applying struct {
	scheduled, ended time.Time
	failed           bool
	// task is the workflow task that scheduled the activity.
	task int64
}

// appliedParts reads the first activity for each part from a history.
func appliedParts(t *testing.T, run history.Run) map[harbor.Part]applying {
	t.Helper()
	parts, names := map[harbor.Part]applying{}, map[int64]harbor.Part{}
	end := func(scheduled int64, at time.Time, failed bool) {
		if part, ok := names[scheduled]; ok {
			known := parts[part]
			known.ended, known.failed = at, failed
			parts[part] = known
		}
	}
	for _, event := range run.Events {
		at := event.GetEventTime().AsTime()
		if a := event.GetActivityTaskScheduledEventAttributes(); a.GetActivityType().GetName() == "ApplyHarborPart" {
			var in harboractivities.ApplyPartInput
			require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(a.Input, &in))
			if _, again := parts[in.Part]; !again {
				names[event.EventId] = in.Part
				parts[in.Part] = applying{scheduled: at, task: a.WorkflowTaskCompletedEventId}
			}
		}
		if a := event.GetActivityTaskCompletedEventAttributes(); a != nil {
			end(a.ScheduledEventId, at, false)
		}
		if a := event.GetActivityTaskFailedEventAttributes(); a != nil {
			end(a.ScheduledEventId, at, true)
		}
	}
	return parts
}

func TestAFailedHarborServiceDoesNotDelayTheOthers(t *testing.T) {
	reserve(t, "spoke-1")
	spoke := newHarborSpoke(t, theFleet.Spokes[0])
	const namespace = "harbor-concurrent"
	require.NoError(t, theFleet.AddHarborNamespace(t.Context(), spoke.Cluster, namespace))
	foreign := &unstructured.Unstructured{Object: map[string]any{"spec": map[string]any{"redis": map[string]any{}, "sentinel": map[string]any{}}}}
	foreign.SetGroupVersionKind(harbor.RedisFailover)
	foreign.SetNamespace(namespace)
	foreign.SetName("main-redis")
	require.NoError(t, spoke.api.Create(t.Context(), foreign))
	spoke.apply(t, namespace)
	spoke.becomes(t, namespace, "ready except for its cache", func(s goharborv1.HarborClusterStatus) bool {
		return harbor.ConditionOf(s, goharborv1.DatabaseReady).Status == metav1.ConditionTrue && harbor.ConditionOf(s, goharborv1.StorageReady).Status == metav1.ConditionTrue &&
			isFalse(s, harbor.ReasonApplyFailed, goharborv1.CacheReady, goharborv1.ConfigurationReady) &&
			strings.Contains(harbor.ConditionOf(s, goharborv1.CacheReady).Message, "is not of this HarborCluster")
	})
	runs, err := history.Read(t.Context(), temporalClient(t), temporal.HarborClusterID(spoke.Name, namespace, "main"))
	require.NoError(t, err)
	parts := appliedParts(t, runs[0])
	database, cache, storage := parts[harbor.PartDatabase], parts[harbor.PartCache], parts[harbor.PartStorage]
	require.True(t, cache.failed)
	require.False(t, database.failed || storage.failed)
	for _, one := range []applying{database, cache, storage} {
		require.Equal(t, database.task, one.task, "one workflow task schedules all services")
		for _, other := range []applying{database, cache, storage} {
			require.True(t, one.scheduled.Before(other.ended), "%v does not overlap with %v", one, other)
		}
	}
	require.NotContains(t, parts, harbor.PartHarbor)
	succeeds(t, "harbor", "delete", "main", "-n", namespace, "--cluster", spoke.Name, "--wait")
}
