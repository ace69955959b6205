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

// harborCrash is a HarborCluster named main, and the request during which the worker crashes.
type harborCrash struct {
	namespace, workflow string
	request             faultproxy.Match
	// answered: the API server executes the request, and its answer is lost.
	answered  bool
	injection *faultproxy.Injection
}

// locate sets the namespace of the HarborCluster.
func (p *harborCrash) locate(s *scenarioRun, spoke *devstack.Cluster, i int) {
	p.namespace = fmt.Sprintf("%s-harbor-%d", s.name, i)
	p.workflow = temporal.HarborClusterID(spoke.Name, p.namespace, "main")
}

func (p *harborCrash) String() string {
	return fmt.Sprintf("%s, at %s %s %s, answered: %t", p.namespace, p.request.Verbs, p.request.Resource, p.request.Name, p.answered)
}

// stop stops the request in the proxy.
func (p *harborCrash) stop(s *scenarioRun, spoke *devstack.Cluster) {
	match := p.request
	match.Namespace = p.namespace
	p.injection = s.Proxy(spoke).Inject(faultproxy.Rule{Match: match, Fault: faultproxy.Stop()})
}

// requestTo matches requests for an object.
func requestTo(verb, resource, name string) faultproxy.Match {
	return faultproxy.Match{Verbs: []string{verb}, Resource: resource, Name: name}
}

// harborSpoke returns a spoke without other work, with the operators that Harbor needs.
func (s *scenarioRun) harborSpoke(t *testing.T) (*devstack.Cluster, client.Client) {
	t.Helper()
	spoke := s.Spokes[1]
	operators, err := s.SimulateHarborOperators(t.Context(), spoke)
	require.NoError(t, err)
	t.Cleanup(operators.Stop)
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	api, err := client.New(spoke.Config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	return spoke, api
}

// awaitHealthy waits until the HarborCluster is healthy.
func (p *harborCrash) awaitHealthy(ctx context.Context, s *scenarioRun, spoke *devstack.Cluster) error {
	return s.AwaitHarbor(ctx, spoke, p.namespace, "main", "healthy", func(status goharborv1.HarborClusterStatus) bool { return status.Status == goharborv1.StatusHealthy })
}

// crashAt kills the worker when all requests are stopped, and starts another.
func (s *scenarioRun) crashAt(t *testing.T, spoke *devstack.Cluster, targets []*harborCrash) {
	t.Helper()
	for _, p := range targets {
		awaitStopped(t, p.injection)
	}
	for _, p := range targets {
		if !p.answered {
			continue
		}
		stopped := p.injection.Pending()
		for stopped == nil || !stopped.Forward() { // the request timed out, and the worker sends it again
			stopped = awaitStopped(t, p.injection)
		}
	}
	require.NoError(t, s.Worker.Kill())
	s.Proxy(spoke).RemoveAll()
	require.NoError(t, s.Worker.Start(t.Context()))
}

// writesOf counts the successful writes of Drydock to each object of a namespace that match a condition.
func writesOf(events []auditv1.Event, namespace string, matches func(auditv1.Event) bool) map[string]int {
	writes := map[string]int{}
	for _, event := range events {
		if event.Stage == auditv1.StageResponseComplete && event.ObjectRef != nil && event.ObjectRef.Namespace == namespace && event.ResponseStatus != nil &&
			event.ResponseStatus.Code < http.StatusBadRequest && event.User.Username == "system:serviceaccount:drydock-system:drydock-initiator" && matches(event) {
			writes[event.ObjectRef.Resource+"/"+event.ObjectRef.Name]++
		}
	}
	return writes
}

// removeNamespaces removes remaining data and pods, which would affect the next scenario. The local stack does not delete claims.
func (s *scenarioRun) removeNamespaces(t *testing.T, spoke *devstack.Cluster, api client.Client, targets []*harborCrash) {
	t.Helper()
	for _, p := range targets {
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
