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
		run  func(*testing.T, *passage)
	}{
		{"passes credentials and watches on", passesOn},
		{"refuses as an API server does", refuses},
		{"harms one of so many requests that match, and no other", harmsOneOfSoMany},
		{"holds a request back until it is released", holdsRequestsBack},
		{"never forwards a request whose client has given up", forgetsRequestsOfTheGone},
		{"holds back the answer to a request that was carried out", holdsAnswersBack},
		{"closes the connection before or after the request is carried out", hangsUp},
		{"delays", delays},
		{"does not answer for an API server that is down", isDownWithItsServer},
	} {
		t.Run(test.name, func(t *testing.T) { test.run(t, newPassage(t, cluster)) })
	}
}

// passage is the way of a ServiceAccount to a cluster through a proxy, as the worker has it.
type passage struct {
	proxy     *faultproxy.Proxy
	cluster   *devstack.Cluster
	namespace string
	through   kubernetes.Interface
}

func newPassage(t *testing.T, cluster *devstack.Cluster) *passage {
	t.Helper()
	proxy, err := faultproxy.Start(cluster.Config)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, proxy.Close()) })
	p := &passage{proxy: proxy, cluster: cluster, namespace: devstacktest.Namespace(t, cluster)}
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
	require.Eventually(t, func() bool { // the API server learns of a binding an instant later
		_, err := p.through.CoreV1().ConfigMaps(p.namespace).List(t.Context(), metav1.ListOptions{})
		return err == nil
	}, time.Minute, 20*time.Millisecond)
	return p
}

// create creates a ConfigMap through the proxy.
func (p *passage) create(ctx context.Context, name string) error {
	_, err := p.through.CoreV1().ConfigMaps(p.namespace).Create(ctx, &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	return err
}

// creating is create in the background.
func (p *passage) creating(ctx context.Context, name string) <-chan error {
	done := make(chan error, 1)
	go func() { done <- p.create(ctx, name) }()
	return done
}

// exists asks the API server itself.
func (p *passage) exists(t *testing.T, name string) bool {
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

func passesOn(t *testing.T, p *passage) {
	watch, err := p.through.CoreV1().ConfigMaps(p.namespace).Watch(t.Context(), metav1.ListOptions{})
	require.NoError(t, err)
	defer watch.Stop()
	require.NoError(t, p.create(t.Context(), "seen"))
	require.Equal(t, "seen", (<-watch.ResultChan()).Object.(*corev1.ConfigMap).Name)
}

func refuses(t *testing.T, p *passage) {
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Refuse(apierrors.NewConflict(configMaps, "refused", nil))})
	require.True(t, apierrors.IsConflict(p.create(t.Context(), "refused")))
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded))})
	require.True(t, apierrors.IsInternalError(p.create(t.Context(), "refused")))
	require.False(t, p.exists(t, "refused"))

	busy := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Refuse(apierrors.NewTooManyRequests("busy", 1))})
	began := time.Now()
	require.NoError(t, p.create(t.Context(), "later"), "client-go heeds Retry-After")
	require.GreaterOrEqual(t, time.Since(began), time.Second)
	require.Equal(t, 2, busy.Matched())
	require.Equal(t, 1, busy.Harmed())
}

func harmsOneOfSoMany(t *testing.T, p *passage) {
	rule := faultproxy.Rule{Match: creates(), After: 1, OneIn: 2, Fault: faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded))}
	rule.Match.Body, rule.Match.Namespace, rule.Match.UserAgent = "some-", p.namespace, "faultproxy.test"
	harm := p.proxy.Inject(rule)
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
	require.Equal(t, 5, harm.Matched())
	require.Equal(t, 5, counted.Matched(), "those that were harmed met no further rule")
	p.proxy.Heal()
	require.NoError(t, p.create(t.Context(), failed[0]))
}

func holdsRequestsBack(t *testing.T, p *passage) {
	harm := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Stop()})
	done := p.creating(t.Context(), "held")
	stopped := <-harm.Stopped()
	require.Equal(t, "configmaps", stopped.Resource)
	require.Same(t, stopped, harm.Standing())
	require.NoError(t, p.create(t.Context(), "passing"), "only one is held")
	require.False(t, p.exists(t, "held"))

	stopped.Release()
	require.NoError(t, <-done)
	<-stopped.Ended()
	require.Nil(t, harm.Standing())
	require.True(t, p.exists(t, "held"))
}

func forgetsRequestsOfTheGone(t *testing.T, p *passage) {
	harm := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Stop()})
	ctx, giveUp := context.WithCancel(t.Context())
	done := p.creating(ctx, "forgotten")
	stopped := <-harm.Stopped()
	giveUp()
	require.ErrorIs(t, <-done, context.Canceled)
	<-stopped.Ended()
	require.False(t, stopped.Forward())
	require.NoError(t, p.create(t.Context(), "next"), "the connection is as good as before")
	require.False(t, p.exists(t, "forgotten"))
}

func holdsAnswersBack(t *testing.T, p *passage) {
	harm := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Stop()})
	done := p.creating(t.Context(), "unanswered")
	stopped := <-harm.Stopped()
	require.True(t, stopped.Forward())
	require.True(t, p.exists(t, "unanswered"))
	require.Empty(t, done)
	stopped.Release()
	require.NoError(t, <-done)
}

func hangsUp(t *testing.T, p *passage) {
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.HangUp()})
	require.Error(t, p.create(t.Context(), "unheard"))
	require.False(t, p.exists(t, "unheard"))
	began := time.Now()
	lost := p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.LoseAnswer()})
	require.Error(t, p.create(t.Context(), "heard"))
	require.True(t, p.exists(t, "heard"))
	require.Len(t, lost.Cut(), 1)
	require.WithinRange(t, lost.Cut()[0], began, time.Now())
	require.NoError(t, p.create(t.Context(), "afterwards"))
}

func delays(t *testing.T, p *passage) {
	p.proxy.Inject(faultproxy.Rule{Match: creates(), Times: 1, Fault: faultproxy.Delay(300 * time.Millisecond)})
	began := time.Now()
	require.NoError(t, p.create(t.Context(), "slow"))
	require.GreaterOrEqual(t, time.Since(began), 300*time.Millisecond)
}

func isDownWithItsServer(t *testing.T, p *passage) {
	require.NoError(t, p.cluster.APIServer.Kill())
	require.True(t, utilnet.IsProbableEOF(p.create(t.Context(), "down")), "a closed connection, not an answer")
	require.NoError(t, p.cluster.APIServer.Start(t.Context()))
	require.NoError(t, p.create(t.Context(), "up"))
}
