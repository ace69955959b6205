package chaos

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// harborCrashes are scenarios in which a worker crashes during changes of Harbor clusters.
func harborCrashes() []scenario {
	return []scenario{
		{name: "the worker is killed at every step of the creation of Harbor clusters", run: harborCreationCrashes},
		{name: "the worker is killed at every step of the deletion of Harbor clusters", run: harborDeletionCrashes},
	}
}

// harborPlace is a HarborCluster main, and the request at which its worker crashes.
type harborPlace struct {
	namespace, workflow string
	request             faultproxy.Match
	// answered: the request is executed, and its answer is lost.
	answered  bool
	injection *faultproxy.Injection
}

// locate sets the namespace of the HarborCluster.
func (p *harborPlace) locate(s *scene, spoke *devstack.Cluster, i int) {
	p.namespace = fmt.Sprintf("%s-harbor-%d", s.name, i)
	p.workflow = temporal.HarborClusterID(spoke.Name, p.namespace, "main")
}

func (p *harborPlace) String() string {
	return fmt.Sprintf("%s, at %s %s %s, answered: %t", p.namespace, p.request.Verbs, p.request.Resource, p.request.Name, p.answered)
}

// stop stops the request in the proxy.
func (p *harborPlace) stop(s *scene, spoke *devstack.Cluster) {
	match := p.request
	match.Namespace = p.namespace
	p.injection = s.Proxy(spoke).Inject(faultproxy.Rule{Match: match, Fault: faultproxy.Stop()})
}

// requestTo picks requests about an object.
func requestTo(verb, resource, name string) faultproxy.Match {
	return faultproxy.Match{Verbs: []string{verb}, Resource: resource, Name: name}
}

// harborSpoke returns a spoke without other work, with the operators that Harbor needs.
func (s *scene) harborSpoke(t *testing.T) (*devstack.Cluster, client.Client) {
	t.Helper()
	spoke := s.Spokes[1]
	played, err := s.SimulateHarborOperators(t.Context(), spoke)
	require.NoError(t, err)
	t.Cleanup(played.Stop)
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	api, err := client.New(spoke.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return spoke, api
}

// awaitHealthy waits until the HarborCluster is healthy.
func (p *harborPlace) awaitHealthy(ctx context.Context, s *scene, spoke *devstack.Cluster) error {
	return s.AwaitHarbor(ctx, spoke, p.namespace, "main", "healthy", func(status goharborv1.HarborClusterStatus) bool { return status.Status == goharborv1.StatusHealthy })
}

// crashAt kills the worker when all of the requests are stopped, and starts another.
func (s *scene) crashAt(t *testing.T, spoke *devstack.Cluster, places []*harborPlace) {
	t.Helper()
	for _, p := range places {
		awaitStopped(t, p.injection)
	}
	for _, p := range places {
		if !p.answered {
			continue
		}
		standing := p.injection.Standing()
		for standing == nil || !standing.Forward() { // the worker has given up meanwhile, and comes again
			standing = awaitStopped(t, p.injection)
		}
	}
	require.NoError(t, s.Worker.Kill())
	s.Proxy(spoke).Heal()
	require.NoError(t, s.Worker.Start(t.Context()))
}

// writesOf counts the writes of Drydock to each object of a namespace that match a condition.
func writesOf(events []auditv1.Event, namespace string, such func(auditv1.Event) bool) map[string]int {
	writes := map[string]int{}
	for _, event := range events {
		if event.Stage == auditv1.StageResponseComplete && event.ObjectRef != nil && event.ObjectRef.Namespace == namespace && event.ResponseStatus != nil &&
			event.ResponseStatus.Code < http.StatusBadRequest && event.User.Username == "system:serviceaccount:drydock-system:drydock-initiator" && such(event) {
			writes[event.ObjectRef.Resource+"/"+event.ObjectRef.Name]++
		}
	}
	return writes
}

// settledEvents returns the audit log with all requests so far.
func settledEvents(t *testing.T, spoke *devstack.Cluster) []auditv1.Event {
	t.Helper()
	settledActions(t, spoke)
	events, err := spoke.AuditEvents()
	require.NoError(t, err)
	return events
}

// removeNamespaces removes the remaining data and pods, which would affect the next scenario. The stack does not delete claims.
func (s *scene) removeNamespaces(t *testing.T, spoke *devstack.Cluster, api client.Client, places []*harborPlace) {
	t.Helper()
	for _, p := range places {
		require.NoError(t, api.Delete(t.Context(), &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: p.namespace}}))
		var claims corev1.PersistentVolumeClaimList
		require.NoError(t, api.List(t.Context(), &claims, client.InNamespace(p.namespace)))
		for _, claim := range claims.Items {
			err := api.Patch(t.Context(), &claim, client.RawPatch(types.MergePatchType, []byte(`{"metadata":{"finalizers":null}}`)))
			require.NoError(t, client.IgnoreNotFound(err))
		}
	}
	require.NoError(t, s.Await(t.Context(), spoke, "the namespaces are gone", []client.Object{&corev1.Namespace{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		var left corev1.NamespaceList
		err := reader.List(ctx, &left)
		return !slices.ContainsFunc(left.Items, func(n corev1.Namespace) bool { return strings.HasPrefix(n.Name, s.name+"-harbor-") }), err
	}))
}
