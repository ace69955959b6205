package rollouts

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// registered reads a ManagedCluster from the hub's API server.
func registered(t *testing.T, name string) *metav1.PartialObjectMetadata {
	t.Helper()
	object := &metav1.PartialObjectMetadata{}
	object.SetGroupVersionKind(activitykit.ManagedClusterKind)
	require.NoError(t, activitytest.BareCluster(t).Client.Get(t.Context(), client.ObjectKey{Name: name}, object))
	return object
}

// patchesOf counts the patches of a ManagedCluster on the hub.
func patchesOf(t *testing.T, name string) int {
	t.Helper()
	count := 0
	for _, event := range devstacktest.AuditEvents(t, activitytest.Stack.Cluster(activitytest.HubName)) {
		if event.ObjectRef != nil && event.ObjectRef.Resource == "managedclusters" && event.ObjectRef.Name == name && event.Verb != "create" && event.Verb != "get" {
			count++
		}
	}
	return count
}

func TestLabelsAndAnnotationsOfClustersAreChangedInOnePatchEach(t *testing.T) {
	activitytest.ManagedCluster(t, "labelled-1", map[string]string{"note": "old", "kept": "yes"})
	activitytest.ManagedCluster(t, "labelled-2", nil)
	in := ChangeClustersInput{
		Clusters: []string{"labelled-1", "labelled-2", "was-here", "labelled-1"},
		Change: rollout.ClusterChange{
			Labels:      map[string]*string{"ztp-running": new(""), "absent": nil},
			Annotations: map[string]*string{"note": nil, "when": new("now")},
		},
	}
	rollouts := &Activities{Clusters: activitytest.Clusters}
	refused, err := rollouts.ChangeClusters(t.Context(), in)
	require.NoError(t, err)
	require.Empty(t, refused, "a deleted cluster is skipped")

	first := registered(t, "labelled-1")
	require.Equal(t, map[string]string{"name": "labelled-1", "ztp-running": ""}, first.Labels)
	require.Equal(t, map[string]string{"kept": "yes", "when": "now"}, first.Annotations)
	require.Contains(t, registered(t, "labelled-2").Labels, "ztp-running")
	require.Equal(t, 1, patchesOf(t, "labelled-1"))

	_, err = rollouts.ChangeClusters(t.Context(), in)
	require.NoError(t, err)
	require.Equal(t, first.ResourceVersion, registered(t, "labelled-1").ResourceVersion, "a repeated call changes nothing")
}

// refusing refuses changes of one ManagedCluster, like an admission webhook, before any other change is answered.
type refusing struct {
	http.RoundTripper
	cluster string
	refused chan struct{}
}

func (r *refusing) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method != http.MethodPatch {
		return r.RoundTripper.RoundTrip(request)
	}
	if strings.HasSuffix(request.URL.Path, "/managedclusters/"+r.cluster) {
		defer close(r.refused)
		body := `{"kind":"Status","apiVersion":"v1","status":"Failure","reason":"Forbidden","code":403,"message":"admission webhook \"fleet\" denied the request: frozen"}`
		return &http.Response{
			StatusCode: http.StatusForbidden, Header: http.Header{"Content-Type": []string{"application/json"}},
			Body: io.NopCloser(strings.NewReader(body)), Request: request,
		}, nil
	}
	select {
	case <-r.refused:
	case <-request.Context().Done():
	}
	return r.RoundTripper.RoundTrip(request)
}

func TestARefusedChangeDoesNotStopOthers(t *testing.T) {
	var names []string
	for i := range 3 * parallelChanges {
		names = append(names, fmt.Sprintf("labelled-as-well-%02d", i))
		activitytest.ManagedCluster(t, names[i], nil)
	}
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.HubName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &refusing{RoundTripper: next, cluster: names[0], refused: make(chan struct{})}
	})
	hub, err := client.New(config, client.Options{})
	require.NoError(t, err)
	refused, err := changeClusters(t.Context(), &kube.Cluster{Name: activitytest.HubName, Client: client.WithFieldOwner(hub, "drydock")}, ChangeClustersInput{
		Clusters: names, Change: rollout.ClusterChange{Labels: map[string]*string{"done": new("")}},
	})
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.Equal(t, names[0], refused[0].Cluster)
	require.False(t, refused[0].Final)
	require.Contains(t, refused[0].Message, "ManagedCluster "+names[0])
	require.Contains(t, refused[0].Message, `admission webhook "fleet" denied the request: frozen`)
	for _, name := range names[1:] {
		require.Contains(t, registered(t, name).Labels, "done", name)
	}
}

// delayed runs a change of a ManagedCluster before its first patch arrives. The sender of that patch no longer waits.
type delayed struct {
	http.RoundTripper
	happens func()
}

func (d *delayed) RoundTrip(request *http.Request) (*http.Response, error) {
	if request.Method == http.MethodPatch {
		d.happens()
		request = request.WithContext(context.WithoutCancel(request.Context()))
	}
	return d.RoundTripper.RoundTrip(request)
}

func TestALatePatchDoesNotRestoreARemovedLabel(t *testing.T) {
	activitytest.ManagedCluster(t, "labelled-late", nil)
	ctx, cancel := context.WithCancel(t.Context())
	label := func(value *string) ChangeClustersInput {
		return ChangeClustersInput{Clusters: []string{"labelled-late"}, Change: rollout.ClusterChange{Labels: map[string]*string{"working": value}}}
	}
	config := rest.CopyConfig(activitytest.Stack.Cluster(activitytest.HubName).Config)
	config.Wrap(func(next http.RoundTripper) http.RoundTripper {
		return &delayed{RoundTripper: next, happens: func() {
			cancel()
			for _, value := range []*string{new(""), nil} { // like the attempts that took over
				_, err := (&Activities{Clusters: activitytest.Clusters}).ChangeClusters(t.Context(), label(value))
				require.NoError(t, err)
			}
		}}
	})
	hub, err := client.New(config, client.Options{})
	require.NoError(t, err)
	_, err = changeClusters(ctx, &kube.Cluster{Name: activitytest.HubName, Client: client.WithFieldOwner(hub, "drydock")}, label(new("")))
	require.Error(t, err)
	require.NotContains(t, registered(t, "labelled-late").Labels, "working")
}

func TestALabelThatNoClusterCanHaveIsRefused(t *testing.T) {
	activitytest.ManagedCluster(t, "labelled-3", nil)
	refused, err := (&Activities{Clusters: activitytest.Clusters}).ChangeClusters(t.Context(), ChangeClustersInput{
		Clusters: []string{"labelled-3"}, Change: rollout.ClusterChange{Labels: map[string]*string{"a": new("no good")}},
	})
	require.NoError(t, err)
	require.Len(t, refused, 1)
	require.True(t, refused[0].Final)
	require.Contains(t, refused[0].Message, "ManagedCluster labelled-3: ")

	cgu := activitytest.NodeRollout(activitytest.SpokeName)
	cgu.Spec.Actions.BeforeEnable = &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"a": "no good"}}
	_, err = (&Activities{Clusters: activitytest.Clusters}).PlanRollout(t.Context(), PlanInput{Object: cgu})
	require.Equal(t, temporal.ErrInvalidSpec, temporal.ErrorType(err), "a plan refuses such a label")
	require.ErrorContains(t, err, "spec.actions.beforeEnable.addClusterLabels")
}
