package lockcontroller

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
)

// slowly is a client whose requests a test releases one by one.
type slowly struct {
	client.Client
	ctx context.Context
	// wants receives the next request, which is sent after a value on proceed.
	wants   chan string
	proceed chan struct{}
}

func (s slowly) await(verb, name string) {
	select {
	case s.wants <- verb + " " + name:
		<-s.proceed
	case <-s.ctx.Done():
	}
}

func (s slowly) Get(ctx context.Context, key client.ObjectKey, object client.Object, options ...client.GetOption) error {
	s.await("get", key.Name)
	return s.Client.Get(ctx, key, object, options...)
}

func (s slowly) Create(ctx context.Context, object client.Object, options ...client.CreateOption) error {
	s.await("create", object.GetName())
	return s.Client.Create(ctx, object, options...)
}

func (s slowly) Delete(ctx context.Context, object client.Object, options ...client.DeleteOption) error {
	s.await("delete", object.GetName())
	return s.Client.Delete(ctx, object, options...)
}

func (s slowly) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.PatchOption) error {
	s.await("patch", object.GetName())
	return s.Client.Patch(ctx, object, patch, options...)
}

func (s slowly) Status() client.SubResourceWriter { return slowStatus{s.Client.Status(), s} }

type slowStatus struct {
	client.SubResourceWriter
	slowly slowly
}

func (s slowStatus) Patch(ctx context.Context, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
	s.slowly.await("patch status of", object.GetName())
	return s.SubResourceWriter.Patch(ctx, object, patch, options...)
}

// race interleaves the requests of several controllers of the same locks. Each has its own view, which may be outdated.
type race struct {
	t      require.TestingT
	ctx    context.Context
	api    client.Client
	policy drydockv1.WorkloadLockPolicySpec
	// views are states of the cluster over time; a controller starts with one of them.
	views       []locks.Snapshot
	controllers []*racer
	// served are the requests for which inactive locks were released.
	served map[string]types.UID
	nodes  []string
	// reached is the reported progress of the cluster lock, which must not decrease during a request for the cluster.
	reached     int32
	maintenance bool
}

type racer struct {
	client slowly
	ended  chan error
	// next is the pending request.
	next string
}

func newRace(ctx context.Context, t require.TestingT, limit int32) *race {
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	r := &race{t: t, ctx: ctx, served: map[string]types.UID{}, nodes: []string{"n1", "n2", "n3"}, policy: drydockv1.WorkloadLockPolicySpec{
		ControllerName: "tf", Namespace: "tf", MaxInactiveNodes: ptr.To(limit),
	}}
	api := fake.NewClientBuilder().WithScheme(scheme).WithStatusSubresource(&lcmv1.NodeWorkloadLock{}, &lcmv1.ClusterWorkloadLock{}).
		WithIndex(&corev1.Pod{}, kube.IndexNodeName, func(pod client.Object) []string { return []string{pod.(*corev1.Pod).Spec.NodeName} })
	for _, node := range r.nodes {
		api.WithObjects(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node}})
	}
	r.api = api.Build()
	for _, node := range r.nodes {
		r.setPod(node, true)
	}
	r.addView()
	r.finish(r.start(0))
	r.addView()
	return r
}

// addView adds a view of the current state.
func (r *race) addView() {
	var nodes corev1.NodeList
	var pods corev1.PodList
	var clusterRequests lcmv1.ClusterMaintenanceRequestList
	var nodeRequests lcmv1.NodeMaintenanceRequestList
	var clusterLocks lcmv1.ClusterWorkloadLockList
	var nodeLocks lcmv1.NodeWorkloadLockList
	for _, list := range []client.ObjectList{&nodes, &pods, &clusterRequests, &nodeRequests, &clusterLocks, &nodeLocks} {
		require.NoError(r.t, r.api.List(r.ctx, list))
	}
	r.views = append(r.views, locks.Snapshot{
		Nodes: nodes.Items, Pods: pods.Items,
		ClusterRequests: clusterRequests.Items, NodeRequests: nodeRequests.Items,
		ClusterLocks: clusterLocks.Items, NodeLocks: nodeLocks.Items,
	})
}

// start starts another controller with a view, and stops it before its first request.
func (r *race) start(view int) *racer {
	one := &racer{client: slowly{Client: r.api, ctx: r.ctx, wants: make(chan string), proceed: make(chan struct{})}, ended: make(chan error, 1)}
	c := &controller{cluster: &kube.Cluster{Name: "test", Client: one.client, LockController: one.client}, in: Input{Policy: r.policy}}
	snapshot := r.views[view]
	c.snapshot = locks.Snapshot{
		Nodes: snapshot.Nodes, Pods: slices.Clone(snapshot.Pods),
		ClusterRequests: slices.Clone(snapshot.ClusterRequests), NodeRequests: slices.Clone(snapshot.NodeRequests),
		ClusterLocks: slices.Clone(snapshot.ClusterLocks), NodeLocks: slices.Clone(snapshot.NodeLocks),
	}
	go func() {
		_, err := c.keep(r.ctx)
		one.ended <- err
	}()
	r.controllers = append(r.controllers, one)
	r.settle(one)
	return one
}

// startNow starts another controller with the last view.
func (r *race) startNow() *racer { return r.start(len(r.views) - 1) }

// settle waits until a controller has a pending request, and removes a controller that has ended.
func (r *race) settle(one *racer) {
	select {
	case one.next = <-one.client.wants:
	case err := <-one.ended:
		require.NoError(r.t, err)
		one.next = ""
		r.controllers = slices.DeleteFunc(r.controllers, func(k *racer) bool { return k == one })
	}
}

// step executes one request of a controller, and checks the locks.
func (r *race) step(one *racer) {
	one.client.proceed <- struct{}{}
	r.settle(one)
	r.requireOrder()
}

// stepUntil runs a controller until this is its pending request.
func (r *race) stepUntil(one *racer, request string) {
	for one.next != request {
		require.NotEmpty(r.t, one.next, "it ended without %q", request)
		r.step(one)
	}
}

func (r *race) finish(one *racer) {
	for one.next != "" {
		r.step(one)
	}
}

func (r *race) inactive() []string {
	var list lcmv1.NodeWorkloadLockList
	require.NoError(r.t, r.api.List(r.ctx, &list))
	var nodes []string
	for _, lock := range list.Items {
		if lock.Status.State == lcmv1.LockInactive {
			nodes = append(nodes, lock.Spec.NodeName)
		}
	}
	return nodes
}

// requireOrder checks the invariants of locks: at most the limit is inactive, none is active again during the request that it was released
// for, and the progress does not decrease.
func (r *race) requireOrder() {
	inactive := r.inactive()
	require.LessOrEqual(r.t, len(inactive), int(*r.policy.MaxInactiveNodes), "inactive at the same time: %v", inactive)
	for node, served := range r.served {
		if !slices.Contains(inactive, node) {
			require.NotContains(r.t, r.requests(), served, "%s is active again", node)
			delete(r.served, node)
		}
	}
	for _, node := range inactive {
		if _, known := r.served[node]; !known {
			r.served[node] = r.turn(node).Requests[0].UID
		}
	}
	if r.maintenance {
		reported := r.reported()
		require.GreaterOrEqual(r.t, reported, r.reached, "progress in percent")
		r.reached = reported
	}
}

// reported returns the progress on the cluster's lock, in percent.
func (r *race) reported() int32 {
	lock := &lcmv1.ClusterWorkloadLock{}
	require.NoError(r.t, r.api.Get(r.ctx, client.ObjectKey{Name: r.policy.ControllerName}, lock))
	return lock.Status.InactivationProgress.Percentage
}

// requestCluster replaces the request for the cluster, and releases its lock. From then on the progress must not decrease.
func (r *race) requestCluster(serial int) {
	r.replaceClusterRequest(serial)
	r.finish(r.startNow())
	r.addView()
	r.maintenance, r.reached = true, r.reported()
}

// replaceClusterRequest replaces the request for the cluster, which no controller has seen yet.
func (r *race) replaceClusterRequest(serial int) {
	request := &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: "maintenance"}}
	require.NoError(r.t, client.IgnoreNotFound(r.api.Delete(r.ctx, request)))
	r.maintenance = false
	request = &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: request.Name, UID: types.UID(fmt.Sprintf("maintenance-%d", serial))}}
	require.NoError(r.t, r.api.Create(r.ctx, request))
	r.addView()
}

// updatedFor returns the maintenances that the lock of a node records.
func (r *race) updatedFor(node string) string {
	lock := &lcmv1.NodeWorkloadLock{}
	require.NoError(r.t, r.api.Get(r.ctx, client.ObjectKey{Name: "tf-" + node}, lock))
	return lock.Annotations[lcmv1.AnnotationUpdatedFor]
}

func (r *race) requests() []types.UID {
	var list lcmv1.NodeMaintenanceRequestList
	require.NoError(r.t, r.api.List(r.ctx, &list))
	var uids []types.UID
	for _, request := range list.Items {
		uids = append(uids, request.UID)
	}
	return uids
}

func (r *race) turn(node string) locks.Permit {
	lock := &lcmv1.ClusterWorkloadLock{}
	require.NoError(r.t, r.api.Get(r.ctx, client.ObjectKey{Name: r.policy.ControllerName}, lock))
	book, err := locks.ReadPermits(lock)
	require.NoError(r.t, err)
	return book.Nodes[node]
}

func (r *race) setPod(node string, ready bool) {
	r.removePod(node)
	r.addPod(node, node, ready)
}

func (r *race) removePod(node string) {
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "tf", Name: node}}
	require.NoError(r.t, client.IgnoreNotFound(r.api.Delete(r.ctx, pod)))
}

func (r *race) addPod(node, name string, ready bool) {
	require.NoError(r.t, r.api.Create(r.ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "tf", Name: name}, Spec: corev1.PodSpec{NodeName: node},
		Status: corev1.PodStatus{ContainerStatuses: []corev1.ContainerStatus{{Ready: ready}}},
	}))
}

func (r *race) state(node string) lcmv1.LockState {
	lock := &lcmv1.NodeWorkloadLock{}
	require.NoError(r.t, r.api.Get(r.ctx, client.ObjectKey{Name: "tf-" + node}, lock))
	return lock.Status.State
}

// setRequest replaces or withdraws the request for a node.
func (r *race) setRequest(node string, wanted bool, serial int) {
	request := &lcmv1.NodeMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: node}}
	require.NoError(r.t, client.IgnoreNotFound(r.api.Delete(r.ctx, request)))
	if !wanted {
		return
	}
	require.NoError(r.t, r.api.Create(r.ctx, &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: node, UID: types.UID(fmt.Sprintf("%s-%d", node, serial))},
		Spec:       lcmv1.NodeMaintenanceRequestSpec{NodeName: node},
	}))
}

// writes runs another controller to completion and returns its writes.
func (r *race) writes() []string {
	r.addView()
	var written []string
	one := r.startNow()
	for one.next != "" {
		if !strings.HasPrefix(one.next, "get ") {
			written = append(written, one.next)
		}
		r.step(one)
	}
	return written
}
