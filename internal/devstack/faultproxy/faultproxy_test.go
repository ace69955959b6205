package faultproxy_test

import (
	"context"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/client-go/kubernetes"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/devstack/faultproxy"
)

var configMaps = schema.GroupResource{Resource: "configmaps"}

func TestProxy(t *testing.T) {
	cluster := devstacktest.Start(t, devstack.Options{Clusters: []devstack.ClusterOptions{{Name: "hub", ControlPlaneOnly: true}}}).Cluster("hub")
	for _, test := range []struct {
		name string
		run  func(*testing.T, *proxied)
	}{
		{"forwards credentials and watches", forwards},
		{"refuses requests as an API server does", refuses},
		{"applies a fault to one in N matching requests", appliesToOneInN},
		{"holds a request until it is released", holdsRequests},
		{"never forwards a request whose client has disconnected", dropsRequestsOfDisconnectedClients},
		{"holds the answer to an executed request", holdsAnswers},
		{"closes the connection before or after the request is executed", hangsUp},
		{"delays requests", delays},
		{"does not answer while the API server is down", failsWithoutServer},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newProxied(t, cluster)) })
	}
}

// proxied is a cluster that a ServiceAccount reaches through a proxy, as the worker does.
type proxied struct {
	proxy     *faultproxy.Proxy
	cluster   *devstack.Cluster
	namespace string
	through   kubernetes.Interface
}

func newProxied(t *testing.T, cluster *devstack.Cluster) *proxied {
	t.Helper()
	proxy, err := faultproxy.Start(cluster.Config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	p := &proxied{proxy: proxy, cluster: cluster, namespace: devstacktest.Namespace(t, cluster)}
	account := &corev1.ServiceAccount{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}
	_, err = cluster.Client.CoreV1().ServiceAccounts(p.namespace).Create(t.Context(), account, metav1.CreateOptions{})
	require.NoError(t, err)
	_, err = cluster.Client.RbacV1().ClusterRoleBindings().Create(t.Context(), &rbacv1.ClusterRoleBinding{
		ObjectMeta: metav1.ObjectMeta{Name: p.namespace},
		RoleRef:    rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"},
		Subjects:   []rbacv1.Subject{{Kind: rbacv1.ServiceAccountKind, Namespace: p.namespace, Name: "worker"}},
	}, metav1.CreateOptions{})
	require.NoError(t, err)
	config, err := cluster.ServiceAccountConfig(t.Context(), p.namespace, "worker")
	require.NoError(t, err)
	p.through, err = kubernetes.NewForConfig(proxy.Config(config))
	require.NoError(t, err)
	require.Eventually(t, func() bool { // the API server applies a binding with a delay
		_, err := p.through.CoreV1().ConfigMaps(p.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	}, 5*time.Minute, 20*time.Millisecond)
	return p
}

// create creates a ConfigMap through the proxy.
func (p *proxied) create(ctx context.Context, name string) error {
	_, err := p.through.CoreV1().ConfigMaps(p.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// createAsync is create in the background.
func (p *proxied) createAsync(ctx context.Context, name string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.create(ctx, name) }()
	return done
}

// exists reads from the API server directly.
func (p *proxied) exists(t *testing.T, name string) bool {
	t.Helper()
	_, err := p.cluster.Client.CoreV1().ConfigMaps(p.namespace).Get(t.Context(), name, metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		require.NoError(t, err)
	}
	return err == nil
}

func creates() faultproxy.Match {
	return faultproxy.Match{Verbs: []string{"create"}, Resource: "configmaps"}
}

func forwards(t *testing.T, p *proxied) {
	watch, err := p.through.CoreV1().ConfigMaps(p.namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	require.NoError(t, p.create(t.Context(), "seen"))
	require.Equal(t, "seen", (<-watch.ResultChan()).Object.(*corev1.ConfigMap).Name)
}

func refuses(t *testing.T, p *proxied) {
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Refuse(apierrors.NewConflict(configMaps, "refused", nil))})
	require.True(t, apierrors.IsConflict(p.create(t.Context(), "refused")))
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded))})
	require.True(t, apierrors.IsInternalError(p.create(t.Context(), "refused")))
	require.False(t, p.exists(t, "refused"))

	busy := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Refuse(apierrors.NewTooManyRequests("busy", 1))})
	began := time.Now()
	require.NoError(t, p.create(t.Context(), "later"), "client-go obeys Retry-After")
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	require.Equal(t, 2, busy.Matched())
	require.Equal(t, 1, busy.Injected())
}

func appliesToOneInN(t *testing.T, p *proxied) {
	rule := faultproxy.Rule{Match: creates(), After: 1, OneIn: 2, Fault: faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded))}
	rule.Match.Body, rule.Match.Namespace, rule.Match.UserAgent = "some-", p.namespace, "faultproxy.test"
	injection := p.proxy.Inject(rule)
	counted := p.proxy.Inject(faultproxy.Rule{Match: faultproxy.Match{Verbs: faultproxy.Writes(), Resource: "configmaps"}})
	var failed []string
	for _, name := range []string{"some-1", "other-1", "some-2", "some-3", "other-2", "some-4", "some-5"} {
		if p.create(t.Context(), name) != nil {
			failed = append(failed, name)
		}
	}
	require.Len(t, failed, 2)
	require.Contains(t, []string{"some-2", "some-3"}, failed[0])
	require.Contains(t, []string{"some-4", "some-5"}, failed[1])
	require.Equal(t, 5, injection.Matched())
	require.Equal(t, 5, counted.Matched(), "a rule counts no request to which an earlier rule applied a fault")
	p.proxy.RemoveAll()
	require.NoError(t, p.create(t.Context(), failed[0]))
}

func holdsRequests(t *testing.T, p *proxied) {
	injection := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Stop()})
	done := p.createAsync(t.Context(), "held")
	stopped := <-injection.Stopped()
	require.Equal(t, "configmaps", stopped.Resource)
	require.Same(t, stopped, injection.Pending())
	require.NoError(t, p.create(t.Context(), "passing"), "only one request is held")
	require.False(t, p.exists(t, "held"))

	stopped.Release()
	require.NoError(t, <-done)
	<-stopped.Ended()
	require.Nil(t, injection.Pending())
	require.True(t, p.exists(t, "held"))
}

func dropsRequestsOfDisconnectedClients(t *testing.T, p *proxied) {
	injection := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Stop()})
	ctx, cancel := context.WithCancel(t.Context())
	done := p.createAsync(ctx, "dropped")
	stopped := <-injection.Stopped()
	cancel()
	require.ErrorIs(t, <-done, context.Canceled)
	<-stopped.Ended()
	require.False(t, stopped.Forward())
	require.NoError(t, p.create(t.Context(), "next"), "the connection still works")
	require.False(t, p.exists(t, "dropped"))
}

func holdsAnswers(t *testing.T, p *proxied) {
	injection := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Stop()})
	done := p.createAsync(t.Context(), "unanswered")
	stopped := <-injection.Stopped()
	require.True(t, stopped.Forward())
	require.True(t, p.exists(t, "unanswered"))
	require.Empty(t, done)
	stopped.Release()
	require.NoError(t, <-done)
}

func hangsUp(t *testing.T, p *proxied) {
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.HangUp()})
	require.Error(t, p.create(t.Context(), "not-executed"))
	require.False(t, p.exists(t, "not-executed"))
	began := time.Now()
	lost := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.LoseAnswer()})
	require.Error(t, p.create(t.Context(), "executed"))
	require.True(t, p.exists(t, "executed"))
	require.Len(t, lost.Disconnects(), 1)
	require.WithinRange(t, lost.Disconnects()[0], began, time.Now())
	require.NoError(t, p.create(t.Context(), "afterwards"))
}

func delays(t *testing.T, p *proxied) {
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Delay(300 * time.Millisecond)})
	began := time.Now()
	require.NoError(t, p.create(t.Context(), "slow"))
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
}

func failsWithoutServer(t *testing.T, p *proxied) {
	require.NoError(t, p.cluster.APIServer.Kill())
	require.True(t, utilnet.IsProbableEOF(p.create(t.Context(), "down")), "a closed connection, not an answer")
	require.NoError(t, p.cluster.APIServer.Start(t.Context()))
	require.NoError(t, p.create(t.Context(), "up"))
}
