package bench

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
)

// loopOwner is the ownership mark of the loop.
const loopOwner = "bench/loop"

// byLoop maintains a cluster with the same writes, consistent reads and watches as a rollout, but in the memory of one process: it loses its state in
// a crash, and cannot be observed or stopped. The extra time of a rollout is the cost of these features.
type byLoop struct {
	*measurement
	clusters *kube.Clusters
	// used is the CPU time of the loop.
	used time.Duration
}

func newLoop(s *measurement) (*byLoop, error) {
	config, err := s.spoke.UserConfig(loopUser, adminGroup)
	if err != nil {
		return nil, err
	}
	return &byLoop{measurement: s, clusters: kube.New(kube.FromConfigs(nil, map[string]*rest.Config{s.spoke.Name: config}), kube.Options{QPS: 1e6, Burst: 1e6})}, nil
}

func (*byLoop) String() string { return "a loop" }

func (b *byLoop) maintain(ctx context.Context, _ int) (time.Duration, error) {
	before := ownCPU()
	defer func() { b.used += ownCPU() - before }()
	return timed(func() error {
		spoke, err := b.clusters.Cluster(ctx, b.spoke.Name)
		if err != nil {
			return err
		}
		return loop{spoke}.rollOut(ctx, b.measurement)
	})
}

func (b *byLoop) record(_ context.Context, rounds []round, result *Result) error {
	seen, err := b.observe(loopUser, rounds)
	if err != nil {
		return err
	}
	result.Wall.Loop = wallTime(rounds)
	result.LoopCPUSeconds = b.used.Seconds()
	result.LoopSlotIdle = latency(seen.slotIdle(b.size))
	result.LoopRequests = requestsOf(seen.requests, loopUser, b.size.maintenances())
	return nil
}

// loop maintains nodes of a cluster.
type loop struct{ *kube.Cluster }

// rollOut requests the workload locks of the cluster, and maintains the nodes.
func (l loop) rollOut(ctx context.Context, s *measurement) error {
	request := &lcmv1.ClusterMaintenanceRequest{ObjectMeta: metav1.ObjectMeta{Name: "loop"}, Spec: lcmv1.ClusterMaintenanceRequestSpec{Scope: lcmv1.ScopeOS}}
	if err := l.Client.Create(ctx, request); err != nil {
		return err
	}
	if err := l.Client.List(ctx, &lcmv1.ClusterWorkloadLockList{}); err != nil {
		return err
	}
	err := s.eachNode(ctx, func(ctx context.Context, node string) error {
		if err := l.maintain(ctx, node, !s.size.DrainOnly); err != nil {
			return fmt.Errorf("maintain %s: %w", node, err)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return l.Client.Delete(ctx, request)
}

// maintain maintains one node, with a Job or without.
func (l loop) maintain(ctx context.Context, node string, work bool) error {
	request := &lcmv1.NodeMaintenanceRequest{
		ObjectMeta: metav1.ObjectMeta{Name: "loop-" + node}, Spec: lcmv1.NodeMaintenanceRequestSpec{NodeName: node, Scope: lcmv1.ScopeOS},
	}
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: jobNamespace, Name: "loop-" + node}, Spec: batchv1.JobSpec{Template: jobPod()},
	}
	job.Spec.Template.Spec.NodeSelector = map[string]string{corev1.LabelHostname: node}
	job.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	var events errgroup.Group
	event := func(reason string) func() error {
		return func() error {
			events.Go(func() error { return l.writeEvent(ctx, node, reason) })
			return nil
		}
	}
	steps := []func() error{
		event("Scheduled"),
		func() error { return l.Client.Create(ctx, request) },
		func() error { return l.cordon(ctx, node) },
		event("Cordon"),
		func() error {
			return l.mark(ctx, node, on(kube.ConditionMaintenanceInProgress))
		},
		event("Draining"),
		func() error { return l.drain(ctx, node) },
		event("Drained"),
		event("Ready"),
		func() error {
			if !work {
				return nil
			}
			return errors.Join(event("JobStarted")(), l.run(ctx, job))
		},
		event("HealthChecks"),
		func() error { return l.awaitReady(ctx, node) },
		event("CleaningUp"),
		func() error { return l.uncordon(ctx, node) },
		event("Completed"),
		func() error { return l.Client.Delete(ctx, request) },
		events.Wait,
	}
	for _, step := range steps {
		if err := step(); err != nil {
			return err
		}
	}
	return nil
}

// writeEvent writes an Event of the node.
func (l loop) writeEvent(ctx context.Context, node, reason string) error {
	return l.Client.Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: node + "-"},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: node, UID: types.UID(node)},
		Type:           corev1.EventTypeNormal, Reason: reason, Message: "benchmark",
		FirstTimestamp: metav1.Now(), LastTimestamp: metav1.Now(), Count: 1,
	})
}

func on(condition corev1.NodeConditionType) corev1.NodeCondition {
	return kube.NodeCondition(condition, corev1.ConditionTrue, "benchmark")
}

func off(condition corev1.NodeConditionType) corev1.NodeCondition {
	return kube.NoNodeCondition(condition)
}

func (l loop) mark(ctx context.Context, node string, conditions ...corev1.NodeCondition) error {
	return l.SetNodeConditions(ctx, node, loopOwner, kube.AnyNode, conditions...)
}

// cordon checks the locks of the node immediately before the cordon.
func (l loop) cordon(ctx context.Context, name string) error {
	if err := l.Client.List(ctx, &lcmv1.NodeWorkloadLockList{}); err != nil {
		return err
	}
	return l.setSchedulable(ctx, name, false)
}

func (l loop) uncordon(ctx context.Context, name string) error {
	if err := l.mark(ctx, name, off(kube.ConditionMaintenanceInProgress), off(kube.ConditionDrained)); err != nil {
		return err
	}
	return l.setSchedulable(ctx, name, true)
}

// setSchedulable patches the node with the resource version that it has read, until there is no conflict.
func (l loop) setSchedulable(ctx context.Context, name string, schedulable bool) error {
	var unschedulable, owner any = true, loopOwner
	if schedulable {
		unschedulable, owner = nil, nil
	}
	for {
		node := &corev1.Node{}
		if err := l.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return err
		}
		patch, err := json.Marshal(map[string]any{
			"metadata": map[string]any{"resourceVersion": node.ResourceVersion, "annotations": map[string]any{kube.AnnotationOwner: owner}},
			"spec":     map[string]any{"unschedulable": unschedulable},
		})
		if err != nil {
			return err
		}
		if err := l.Client.Patch(ctx, node, client.RawPatch(types.MergePatchType, patch)); !apierrors.IsConflict(err) {
			return err
		}
	}
}

// drain evicts all pods of the node at the same time, and waits until the API server has none.
func (l loop) drain(ctx context.Context, node string) error {
	pods, err := l.podsOn(ctx, l.Client, node)
	if err != nil || len(pods) == 0 {
		return err
	}
	if err := l.mark(ctx, node, on(kube.ConditionDrainInProgress)); err != nil {
		return err
	}
	var evictions errgroup.Group
	for _, pod := range pods {
		evictions.Go(func() error {
			return l.Evictions.Evict(ctx, &policyv1.Eviction{ObjectMeta: metav1.ObjectMeta{Namespace: pod.Namespace, Name: pod.Name}})
		})
	}
	if err := evictions.Wait(); err != nil {
		return err
	}
	watched := []client.Object{&corev1.Pod{Spec: corev1.PodSpec{NodeName: node}}}
	err = l.Await(ctx, watched, func(ctx context.Context) (bool, error) {
		left, err := l.podsOn(ctx, l.Cache, node)
		if err == nil && len(left) == 0 {
			left, err = l.podsOn(ctx, l.Client, node)
		}
		return len(left) == 0, err
	})
	if err != nil {
		return err
	}
	return l.mark(ctx, node, off(kube.ConditionDrainInProgress), on(kube.ConditionDrained))
}

func (l loop) podsOn(ctx context.Context, reader client.Reader, node string) ([]corev1.Pod, error) {
	var list corev1.PodList
	err := reader.List(ctx, &list, client.MatchingFields{kube.IndexNodeName: node}, client.UnsafeDisableDeepCopy)
	return list.Items, err
}

// run creates the Job, waits until it is complete and deletes it.
func (l loop) run(ctx context.Context, job *batchv1.Job) error {
	if err := l.Client.Create(ctx, job); err != nil {
		return err
	}
	found := &batchv1.Job{}
	err := l.Await(ctx, []client.Object{job}, func(ctx context.Context) (bool, error) {
		err := l.Cache.Get(ctx, client.ObjectKeyFromObject(job), found)
		return found.Status.Succeeded > 0, client.IgnoreNotFound(err)
	})
	if err != nil {
		return err
	}
	return l.Client.Delete(ctx, job, client.PropagationPolicy(metav1.DeletePropagationBackground))
}

// awaitReady waits until the node is Ready.
func (l loop) awaitReady(ctx context.Context, name string) error {
	return l.Await(ctx, []client.Object{&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name}}}, func(ctx context.Context) (bool, error) {
		node := &corev1.Node{}
		if err := l.Client.Get(ctx, client.ObjectKey{Name: name}, node); err != nil {
			return false, err
		}
		ready := kube.FindNodeCondition(node, corev1.NodeReady)
		return ready != nil && ready.Status == corev1.ConditionTrue, nil
	})
}
