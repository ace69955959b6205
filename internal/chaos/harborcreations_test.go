package chaos

import (
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"
	temporalclient "go.temporal.io/sdk/client"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/harbor"
)

// harborCreations returns a HarborCluster for each request that creates a Harbor.
func harborCreations(s *scenarioRun, spoke *devstack.Cluster) []*harborCrash {
	var all []*harborCrash
	for _, answered := range []bool{false, true} {
		for _, request := range []faultproxy.Match{
			requestTo("patch", "harborclusters", "main"), requestTo("update", "harborclusters/status", "main"), requestTo("create", "secrets", ""),
			requestTo("patch", "postgresqls", "*"), requestTo("patch", "redisfailovers", "*"), requestTo("patch", "tenants", "*"), requestTo("patch", "ingresses", "*"),
			requestTo("create", "jobs", ""), requestTo("patch", "secrets", "main-database-password"), requestTo("patch", "secrets", "minio-main"), requestTo("patch", "harbors", "*"),
		} {
			p := &harborCrash{request: request, answered: answered}
			p.locate(s, spoke, len(all))
			all = append(all, p)
		}
	}
	return all
}

// harborCreationCrashes: each object is created exactly once.
func harborCreationCrashes(t *testing.T, s *scenarioRun) {
	spoke, api := s.harborSpoke(t)
	all := harborCreations(s, spoke)
	for _, p := range all {
		require.NoError(t, s.AddHarborNamespace(t.Context(), spoke, p.namespace))
		p.stop(s, spoke)
		p.start(t, s, spoke, api)
	}
	s.crashAt(t, spoke, all)
	for _, p := range all {
		require.NoError(t, p.awaitHealthy(t.Context(), s, spoke))
	}
	events := devstacktest.AuditEvents(t, spoke)
	for _, p := range all {
		created := map[string]int{}
		for _, object := range []string{
			"postgresqls/postgresql-" + p.namespace + "-main", "redisfailovers/main-redis", "tenants/minio-main", "ingresses/minio-main", "jobs/minio-main", "harbors/main-harbor",
			"secrets/main-redis", "secrets/minio-main-creds", "secrets/minio-main-configuration", "secrets/main-database-password", "secrets/minio-main",
		} {
			created[object] = 1
		}
		require.Equal(t, created, writesOf(events, p.namespace, func(e auditv1.Event) bool { return e.ResponseStatus.Code == http.StatusCreated }), "%s", p)
		require.NoError(t, api.Delete(t.Context(), &goharborv1.HarborCluster{ObjectMeta: metav1.ObjectMeta{Namespace: p.namespace, Name: "main"}}))
	}
	s.requireEnds(t)
	s.removeNamespaces(t, spoke, api, all)
}

// start creates the HarborCluster, and starts its workflow.
func (p *harborCrash) start(t *testing.T, s *scenarioRun, spoke *devstack.Cluster, api client.Client) {
	t.Helper()
	object, err := fleet.HarborCluster{Namespace: p.namespace, Redirected: true, DeletionPolicy: goharborv1.DeleteData}.Object()
	require.NoError(t, err)
	require.NoError(t, api.Create(t.Context(), object))
	_, err = s.temporal.ExecuteWorkflow(t.Context(), temporalclient.StartWorkflowOptions{ID: p.workflow, TaskQueue: temporal.TaskQueue},
		temporal.HarborCluster, harbor.Input{Cluster: spoke.Name, Namespace: p.namespace, Name: "main"})
	require.NoError(t, err)
	s.started(&work{name: p.namespace, workflow: p.workflow, end: ended})
}
