package drain

import (
	"context"
	"slices"
	"sync"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// world simulates the API server, kubelet and disruption controller that a drain needs. It answers as the real ones do, and a test can change its
// answers. Its clock is that of testing/synctest.
type world struct {
	mu       sync.Mutex
	changed  chan struct{}
	snapshot Snapshot
	// others are the nodes beside the one that is drained.
	others []corev1.Node
	// grace is how long an evicted pod takes to end.
	grace time.Duration
	// refuse, if not nil, is called first for an eviction; it returns the refusal, or nil.
	refuse func(eviction *policyv1.Eviction) error
	// replace, if not nil, simulates the controller of an evicted pod, except for pods that leaves selects.
	replace func(s *Snapshot, evicted corev1.Pod)
	leaves  func(pod corev1.Pod) bool
	// requests are the names of the pods whose eviction was requested, with the time since the world began.
	requests []evictionRequest
	began    time.Time
}

type evictionRequest struct {
	pod string
	at  time.Duration
}

func newWorld(pods []corev1.Pod, budgets ...policyv1.PodDisruptionBudget) *world {
	return &world{changed: make(chan struct{}), snapshot: snapshotOf(pods, budgets...), grace: 30 * time.Second, began: time.Now()}
}

// drain returns a drain of the world's node with a cache that is always current.
func (w *world) drain() Drain {
	return Drain{Node: node, Attempt: 1, Cache: w, Server: w, Watcher: w, Evictor: w}
}

// change changes the world and wakes all watches.
func (w *world) change(apply func(*Snapshot)) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.changeLocked(apply)
}

func (w *world) changeLocked(apply func(*Snapshot)) {
	pods, budgets := slices.Clone(w.snapshot.Pods), slices.Clone(w.snapshot.Budgets)
	w.snapshot.Pods, w.snapshot.Budgets = pods, budgets
	apply(&w.snapshot)
	close(w.changed)
	w.changed = make(chan struct{})
}

func (w *world) budget(change func(*policyv1.PodDisruptionBudget)) {
	w.change(func(s *Snapshot) {
		change(&s.Budgets[0])
		s.Budgets[0].ResourceVersion += "+"
	})
}

func (w *world) remove(pod string) {
	w.change(func(s *Snapshot) {
		s.Pods = slices.DeleteFunc(s.Pods, func(p corev1.Pod) bool { return p.Name == pod })
	})
}

func (w *world) evictionRequests() []evictionRequest {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.requests)
}

// Evict is the eviction API.
func (w *world) Evict(_ context.Context, eviction *policyv1.Eviction) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.requests = append(w.requests, evictionRequest{eviction.Name, time.Since(w.began)})
	if w.refuse != nil {
		if err := w.refuse(eviction); err != nil {
			return err
		}
	}
	i := slices.IndexFunc(w.snapshot.Pods, func(p corev1.Pod) bool { return p.Name == eviction.Name })
	if i < 0 {
		return apierrors.NewNotFound(corev1.Resource("pods"), eviction.Name)
	}
	pod := w.snapshot.Pods[i]
	if uid := eviction.DeleteOptions.Preconditions.UID; *uid != pod.UID {
		return apierrors.NewConflict(corev1.Resource("pods"), pod.Name, nil)
	}
	for j, budget := range w.snapshot.Budgets {
		if selector, _ := metav1.LabelSelectorAsSelector(budget.Spec.Selector); !selector.Matches(labels.Set(pod.Labels)) {
			continue
		}
		if budget.Status.DisruptionsAllowed == 0 {
			return budgetRefusal("The disruption budget " + budget.Name + " needs more healthy pods")
		}
		w.changeLocked(func(s *Snapshot) {
			s.Budgets[j].Status.DisruptionsAllowed--
			s.Budgets[j].ResourceVersion += "-"
		})
	}
	w.changeLocked(func(s *Snapshot) {
		s.Pods[i].DeletionTimestamp = &metav1.Time{Time: time.Now().Add(w.grace)}
		if w.replace != nil && (w.leaves == nil || !w.leaves(pod)) {
			w.replace(s, pod)
		}
	})
	time.AfterFunc(w.grace, func() { w.remove(pod.Name) })
	return nil
}

func budgetRefusal(message string) error {
	err := apierrors.NewTooManyRequests("Cannot evict pod as it would violate the pod's disruption budget.", 0)
	err.ErrStatus.Details.Causes = []metav1.StatusCause{{Type: policyv1.DisruptionBudgetCause, Message: message}}
	return err
}

// Await implements Watcher as kube.Cluster does.
func (w *world) Await(ctx context.Context, _ []client.Object, check func(context.Context) (bool, error)) error {
	for {
		w.mu.Lock()
		changed := w.changed
		w.mu.Unlock()
		if done, err := check(ctx); done || err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-changed:
		case <-time.After(30 * time.Second):
		}
	}
}

// Get reads a node or a pod.
func (w *world) Get(_ context.Context, key client.ObjectKey, object client.Object, _ ...client.GetOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	if into, ok := object.(*corev1.Pod); ok {
		i := slices.IndexFunc(w.snapshot.Pods, func(p corev1.Pod) bool { return client.ObjectKeyFromObject(&p) == key })
		if i < 0 {
			return apierrors.NewNotFound(corev1.Resource("pods"), key.Name)
		}
		w.snapshot.Pods[i].DeepCopyInto(into)
		return nil
	}
	if i := slices.IndexFunc(w.others, func(n corev1.Node) bool { return n.Name == key.Name }); i >= 0 {
		w.others[i].DeepCopyInto(object.(*corev1.Node))
		return nil
	}
	if w.snapshot.Node == nil || w.snapshot.Node.Name != key.Name {
		return apierrors.NewNotFound(corev1.Resource("nodes"), key.Name)
	}
	w.snapshot.Node.DeepCopyInto(object.(*corev1.Node))
	return nil
}

// List lists nodes, pods, budgets and DaemonSets.
func (w *world) List(_ context.Context, list client.ObjectList, options ...client.ListOption) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	listOptions := (&client.ListOptions{}).ApplyOptions(options)
	switch list := list.(type) {
	case *corev1.PodList:
		for _, pod := range w.snapshot.Pods {
			if listOptions.FieldSelector == nil || listOptions.FieldSelector.Matches(fields.Set{nodeNameField: pod.Spec.NodeName}) {
				list.Items = append(list.Items, pod)
			}
		}
		list.Items = inNamespace(listOptions.Namespace, list.Items, func(p corev1.Pod) string { return p.Namespace })
		list.Items = slices.DeleteFunc(list.Items, func(p corev1.Pod) bool {
			return listOptions.LabelSelector != nil && !listOptions.LabelSelector.Matches(labels.Set(p.Labels))
		})
	case *corev1.NodeList:
		list.Items = append([]corev1.Node{*w.snapshot.Node}, w.others...)
	case *policyv1.PodDisruptionBudgetList:
		list.Items = inNamespace(listOptions.Namespace, w.snapshot.Budgets, func(b policyv1.PodDisruptionBudget) string { return b.Namespace })
	case *appsv1.DaemonSetList:
		list.Items = inNamespace(listOptions.Namespace, w.snapshot.DaemonSets, func(d appsv1.DaemonSet) string { return d.Namespace })
	}
	return nil
}

func inNamespace[T any](namespace string, objects []T, namespaceOf func(T) string) (found []T) {
	for _, object := range objects {
		if namespace == "" || namespaceOf(object) == namespace {
			found = append(found, object)
		}
	}
	return found
}
