package lockcontroller

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"
	"pgregory.net/rapid"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
)

// slowly is a client that a test lets make one request at a time.
type slowly struct {
	client.Client
	ctx context.Context
	// wants is sent what the next request is; it is made when proceed is received from.
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

// race is several keepers of the same locks, each with a view that may be old, whose requests a test interleaves.
type race struct {
	t      require.TestingT
	ctx    context.Context
	api    client.Client
	policy drydockv1.WorkloadLockPolicySpec
	// views are what the cluster was at some time; a keeper begins with one of them.
	views   []locks.Snapshot
	keepers []*racer
	// served are the requests for which the nodes that are inactive have let go.
	served map[string]types.UID
	nodes  []string
	// reached is the progress that the cluster's lock has reported. While a maintenance of the cluster is asked for it does not fall.
	reached     int32
	maintenance bool
}

type racer struct {
	client slowly
	ended  chan error
	// next is the request that it wants to make.
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
	r.look()
	r.finish(r.start(0))
	r.look()
	return r
}

// look adds a view of the cluster as it is now.
func (r *race) look() {
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

// start lets another keeper begin with a view, and stop before its first request.
func (r *race) start(view int) *racer {
	one := &racer{client: slowly{Client: r.api, ctx: r.ctx, wants: make(chan string), proceed: make(chan struct{})}, ended: make(chan error, 1)}
	keeper := &controller{cluster: &kube.Cluster{Name: "test", Client: one.client, LockController: one.client}, in: Input{Policy: r.policy}}
	snapshot := r.views[view]
	keeper.snapshot = locks.Snapshot{
		Nodes: snapshot.Nodes, Pods: slices.Clone(snapshot.Pods),
		ClusterRequests: slices.Clone(snapshot.ClusterRequests), NodeRequests: slices.Clone(snapshot.NodeRequests),
		ClusterLocks: slices.Clone(snapshot.ClusterLocks), NodeLocks: slices.Clone(snapshot.NodeLocks),
	}
	go func() {
		_, err := keeper.keep(r.ctx)
		one.ended <- err
	}()
	r.keepers = append(r.keepers, one)
	r.settle(one)
	return one
}

// startNow is start with the view that was taken last.
func (r *race) startNow() *racer { return r.start(len(r.views) - 1) }

// settle waits until a keeper wants to make a request, and forgets it when it has ended.
func (r *race) settle(one *racer) {
	select {
	case one.next = <-one.client.wants:
	case err := <-one.ended:
		require.NoError(r.t, err)
		one.next = ""
		r.keepers = slices.DeleteFunc(r.keepers, func(k *racer) bool { return k == one })
	}
}

// step lets one keeper make one request, and looks at the locks.
func (r *race) step(one *racer) {
	one.client.proceed <- struct{}{}
	r.settle(one)
	r.requireOrder()
}

// stepUntil lets a keeper go on until this is its next request.
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

// requireOrder holds the locks to what must be so at every instant: no more are inactive than may be, none holds again while a request that
// it let go for stands, and what was reached is not taken back.
func (r *race) requireOrder() {
	inactive := r.inactive()
	require.LessOrEqual(r.t, len(inactive), int(*r.policy.MaxInactiveNodes), "inactive at the same time: %v", inactive)
	for node, served := range r.served {
		if !slices.Contains(inactive, node) {
			require.NotContains(r.t, r.requests(), served, "%s holds again", node)
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

// reported is the progress that the cluster's lock reports, in percent.
func (r *race) reported() int32 {
	lock := &lcmv1.ClusterWorkloadLock{}
	require.NoError(r.t, r.api.Get(r.ctx, client.ObjectKey{Name: r.policy.ControllerName}, lock))
	return lock.Status.InactivationProgress.Percentage
}

// requestCluster asks for a maintenance of the cluster, and has it let go of.
func (r *race) requestCluster() {
	require.NoError(r.t, r.api.Create(r.ctx, &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: "maintenance", UID: "maintenance"}}))
	r.look()
	r.finish(r.startNow())
	r.look()
	r.views = r.views[len(r.views)-1:]
	r.maintenance = true
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

// setRequest makes a request for a node, instead of the one before, or withdraws it.
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

func TestAFrozenWriterCannotUseAnEndedPermit(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.look()
	frozen := r.startNow()
	r.stepUntil(frozen, "patch status of tf-n1")

	r.setRequest("n1", false, 0)
	r.setRequest("n2", true, 2)
	r.look()
	r.finish(r.startNow())
	require.Equal(t, []string{"n2"}, r.inactive())
	r.finish(frozen)
	require.Equal(t, []string{"n2"}, r.inactive())
}

// A lock without a state whose node has a turn was deleted when it had let go. A new one must never look so.
func TestACrashBeforeANewLockIsReleasedLeavesNoPermit(t *testing.T) {
	for requests := 0; ; requests++ {
		r := newRace(t.Context(), t, 1)
		require.NoError(t, r.api.Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n4"}}))
		r.setPod("n4", true)
		r.setRequest("n4", true, 1)
		r.look()
		dies := r.startNow()
		for range requests {
			r.step(dies)
		}
		if slices.Contains(r.inactive(), "n4") {
			require.Greater(t, requests, 3, "it was made, held and had its turn before")
			return
		}
		r.setPod("n4", false)
		r.look()
		r.finish(r.startNow())
		require.Empty(t, r.inactive(), "after %d requests", requests)
		r.setRequest("n4", false, 0)
		r.look()
		r.finish(r.startNow())
		require.Empty(t, r.inactive(), "after %d requests", requests)
	}
}

func TestAFrozenWriterCannotHoldANodeRequestedSince(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.look()
	r.finish(r.startNow())
	r.setRequest("n1", false, 0)
	r.look()
	frozen := r.startNow()
	r.stepUntil(frozen, "patch status of tf-n1") // it is about to hold the node again

	r.setRequest("n1", true, 2)
	r.setRequest("n2", true, 1)
	r.look()
	r.finish(r.startNow())
	for frozen.next != "" {
		r.step(frozen)
		require.Equal(t, []string{"n1"}, r.inactive())
	}
}

func TestWritersThatStartAndEndAPermitAreOrdered(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.look()
	dead := r.startNow()
	r.stepUntil(dead, "patch status of tf-n1") // the turn is recorded, and nothing more comes of it
	r.look()
	withTurn := len(r.views) - 1

	r.setRequest("n2", true, 2)
	r.setPod("n1", false)
	r.look()
	ender := r.startNow()
	r.stepUntil(ender, "patch tf") // n1's lock says that its pod is not ready; the end of its turn is about to be recorded
	r.setPod("n1", true)
	taker := r.start(withTurn)
	r.stepUntil(taker, "patch status of tf-n1")
	r.step(taker) // and it has written nothing of the cluster's lock since
	require.Equal(t, []string{"n1"}, r.inactive())
	r.finish(ender)
	require.Equal(t, []string{"n1"}, r.inactive())
}

// Whoever asks for a node takes one whose lock is gone for let go.
func TestAFrozenWriterCannotDeleteTheLockOfAReturnedNode(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	node := func() *corev1.Node { return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "n1"}} }
	require.NoError(t, r.api.Delete(t.Context(), node()))
	r.look()
	frozen := r.startNow()
	r.stepUntil(frozen, "delete tf-n1")

	require.NoError(t, r.api.Create(t.Context(), node()))
	r.setPod("n1", false)
	r.setRequest("n1", true, 1)
	r.look()
	r.finish(r.startNow()) // it says why it is held
	for frozen.next != "" {
		r.step(frozen)
		require.Equal(t, lcmv1.LockActive, r.state("n1"))
	}
}

func TestALockDeletedDuringAMaintenanceIsRecreatedAsInactive(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.look()
	r.finish(r.startNow())
	r.setPod("n1", false)
	r.setRequest("n2", true, 2)
	require.NoError(t, r.api.Delete(t.Context(), &lcmv1.NodeWorkloadLock{ObjectMeta: metav1.ObjectMeta{Name: "tf-n1"}}))
	delete(r.served, "n1") // what let go for it is gone
	r.look()
	r.finish(r.startNow())
	require.Equal(t, []string{"n1"}, r.inactive())
}

// The watches of different kinds are not in step: what a lock has let go for may be seen later than what was asked for before.
func TestAPermitIsNotGivenToADeletedRequest(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	request := func(name string) *lcmv1.NodeMaintenanceRequest {
		return &lcmv1.NodeMaintenanceRequest{
			ObjectMeta: metav1.ObjectMeta{Name: name, UID: types.UID(name)}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: "n1"},
		}
	}
	require.NoError(t, r.api.Create(t.Context(), request("first")))
	r.look()
	first := r.views[len(r.views)-1].NodeRequests
	require.NoError(t, r.api.Delete(t.Context(), request("first")))
	require.NoError(t, r.api.Create(t.Context(), request("second")))
	r.look()
	r.finish(r.startNow())
	for _, seen := range [][]lcmv1.NodeMaintenanceRequest{first, nil} {
		r.look()
		r.views[len(r.views)-1].NodeRequests = seen
		r.finish(r.startNow())
		require.Equal(t, []string{"n1"}, r.inactive())
	}
}

func TestANewControllerResumesAfterACrashAtAnyRequest(t *testing.T) {
	for requests := 0; ; requests++ {
		r := newRace(t.Context(), t, 1)
		r.setRequest("n1", true, 1)
		r.look()
		dies := r.startNow()
		for i := 0; i < requests && dies.next != ""; i++ {
			r.step(dies)
		}
		if dies.next == "" {
			require.Greater(t, requests, 4)
			return
		}
		r.look()
		r.finish(r.startNow())
		require.Equal(t, []string{"n1"}, r.inactive(), "dead before %q", dies.next)
	}
}

func TestANodeIsRecordedAsUpdatedBeforeItsLockIsActiveAgain(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	r.setRequest("n1", true, 1)
	r.look()
	r.finish(r.startNow())
	r.requestCluster()
	lock := &lcmv1.NodeWorkloadLock{}
	require.NoError(t, r.api.Get(r.ctx, client.ObjectKey{Name: "tf-n1"}, lock))
	lock.Annotations = nil // the controller died before it wrote this
	require.NoError(t, r.api.Update(r.ctx, lock))
	r.setRequest("n1", false, 0)
	r.look()
	dies := r.startNow()
	for len(r.inactive()) > 0 {
		r.step(dies)
	}
	r.look()
	r.finish(r.startNow())
	require.Equal(t, 33, int(r.reported()))
}

func TestALockDoesNotFailBeforeItsPodIsSeen(t *testing.T) {
	// away has the node maintained and its pod not back since a time that is recorded.
	away := func(t *testing.T) *race {
		r := newRace(t.Context(), t, 1)
		r.setRequest("n1", true, 1)
		r.look()
		r.finish(r.startNow())
		r.setPod("n1", false)
		r.setRequest("n1", false, 0)
		r.look()
		r.finish(r.startNow())
		require.NotNil(t, r.turn("n1").AwaitedSince)
		r.policy.NodePodDeadlineSeconds = new(int32) // it has passed
		return r
	}
	for name, seen := range map[string]func(r *race){
		"it is missing":                   func(r *race) { r.removePod("n1"); r.look() },
		"its predecessor was not ready":   func(r *race) { r.look(); r.removePod("n1") },
		"its predecessor was ready, even": func(r *race) { r.setPod("n1", true); r.look(); r.removePod("n1") },
	} {
		t.Run(name, func(t *testing.T) {
			r := away(t)
			seen(r)
			r.addPod("n1", "successor", true)
			one := r.startNow()
			r.stepUntil(one, "patch status of tf-n1")
			r.finish(one)
			require.Equal(t, lcmv1.LockActive, r.state("n1"))
			require.Empty(t, r.writes())
		})
	}
	t.Run("there is none", func(t *testing.T) {
		r := away(t)
		r.setPod("n1", true)
		r.look()
		r.removePod("n1")
		r.finish(r.startNow())
		require.Equal(t, lcmv1.LockFailed, r.state("n1"))
	})
}

// writes lets one more keeper do all that is due and returns what it has written.
func (r *race) writes() []string {
	r.look()
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

func TestUnchangedLocksAreNotWritten(t *testing.T) {
	r := newRace(t.Context(), t, 1)
	require.Empty(t, r.writes())
	r.requestCluster()
	require.Empty(t, r.writes())
	r.setRequest("n1", true, 1)
	require.Equal(t, []string{"patch tf", "patch status of tf-n1", "patch tf-n1", "patch status of tf"}, r.writes(), "turn, state, remembered as updated, progress")
	require.Empty(t, r.writes())
	r.setRequest("n1", false, 0)
	require.Equal(t, []string{"patch status of tf-n1", "patch tf"}, r.writes(), "state, end of the turn; what was reached remains")
	r.maintenance = false
	require.NoError(t, r.api.Delete(t.Context(), &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: "maintenance"}}))
	require.Equal(t, []string{"patch status of tf", "patch tf"}, r.writes(), "state and progress in one, end of the turn")
	require.Zero(t, r.reported())
}

func TestOverlappingWritersKeepLocksInOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		ctx, cancel := context.WithCancel(context.Background())
		defer cancel()
		r := newRace(ctx, t, rapid.Int32Range(1, 2).Draw(t, "maxInactiveNodes"))
		if rapid.Bool().Draw(t, "maintenance") {
			r.requestCluster()
		}
		for serial := range rapid.IntRange(1, 60).Draw(t, "events") {
			node := rapid.SampledFrom(r.nodes).Draw(t, "node")
			switch event := rapid.SampledFrom([]string{"request", "withdraw", "pod", "look", "start", "step", "step", "step"}).Draw(t, "event"); {
			case event == "request" || event == "withdraw":
				r.setRequest(node, event == "request", serial)
				r.look()
			case event == "pod":
				r.setPod(node, rapid.Bool().Draw(t, "ready"))
				r.look()
			case event == "look":
				r.look()
			case event == "start" && len(r.keepers) < 3:
				r.start(rapid.IntRange(max(0, len(r.views)-4), len(r.views)-1).Draw(t, "view"))
			case event == "step" && len(r.keepers) > 0:
				one := r.keepers[rapid.IntRange(0, len(r.keepers)-1).Draw(t, "keeper")]
				for range rapid.IntRange(1, 10).Draw(t, "requests") {
					if one.next != "" {
						r.step(one)
					}
				}
			}
		}
		for len(r.keepers) > 0 {
			r.finish(r.keepers[0])
		}
		r.look()
		r.finish(r.startNow())
		r.look()
		now := r.views[len(r.views)-1]
		require.Equal(t, locks.ProgressOf("tf", now.ClusterRequests, now.NodeLocks).Percentage, r.reported())
	})
}
