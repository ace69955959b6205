package drain

import (
	"context"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	appsclient "k8s.io/client-go/kubernetes/typed/apps/v1"
	coreclient "k8s.io/client-go/kubernetes/typed/core/v1"
	kubectldrain "k8s.io/kubectl/pkg/drain"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// kubectlRules applies kubectl's filters to pods. Users expect exactly these rules of a drain, so kubectl's code is called, not copied.
type kubectlRules struct {
	spec       maintenancev1.DrainSpec
	daemonSets map[types.NamespacedName]*appsv1.DaemonSet
}

func newKubectlRules(spec maintenancev1.DrainSpec, daemonSets []appsv1.DaemonSet) kubectlRules {
	rules := kubectlRules{spec: spec, daemonSets: make(map[types.NamespacedName]*appsv1.DaemonSet, len(daemonSets))}
	for i := range daemonSets {
		key := types.NamespacedName{Namespace: daemonSets[i].Namespace, Name: daemonSets[i].Name}
		rules.daemonSets[key] = &daemonSets[i]
	}
	return rules
}

// verdict is kubectl's answer for a pod: it leaves, it stays, or it must not be deleted.
type verdict struct {
	action Action
	reason Reason
}

// verdicts evaluates the pods of one node. kubectl lists those that leave. Each other pod is evaluated alone, which distinguishes a refused pod from
// one that stays. The filter follows from the pod.
func (k kubectlRules) verdicts(ctx context.Context, pods []corev1.Pod) map[types.NamespacedName]verdict {
	found := make(map[types.NamespacedName]verdict, len(pods))
	leaving, _ := k.filter(ctx, pods)
	for _, pod := range leaving.Pods() {
		found[nameOf(&pod)] = verdict{action: Evict}
	}
	for i := range pods {
		pod := &pods[i]
		if _, leaves := found[nameOf(pod)]; leaves {
			continue
		}
		_, refusals := k.filter(ctx, pods[i:i+1])
		switch {
		case len(refusals) > 0:
			found[nameOf(pod)] = verdict{Block, refusedBy(pod, k.spec)}
		case ownedByDaemonSet(pod):
			found[nameOf(pod)] = verdict{Skip, ReasonDaemonSet}
		default:
			found[nameOf(pod)] = verdict{Skip, ReasonMirror}
		}
	}
	return found
}

func (k kubectlRules) filter(ctx context.Context, pods []corev1.Pod) (*kubectldrain.PodDeleteList, []error) {
	helper := kubectldrain.Helper{
		Ctx:                 ctx,
		Client:              snapshotClient{pods: pods, daemonSets: k.daemonSets},
		Force:               k.spec.Force,
		DeleteEmptyDirData:  k.spec.DeleteEmptyDir,
		IgnoreAllDaemonSets: true,
		// SkipWaitForDeleteTimeoutSeconds is not set: kubectl would use the wall clock.
	}
	return helper.GetPodsForDeletion("")
}

func nameOf(pod *corev1.Pod) types.NamespacedName {
	return types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}
}

// refusedBy returns the filter that refused a pod, in kubectl's order.
func refusedBy(pod *corev1.Pod, spec maintenancev1.DrainSpec) Reason {
	hasEmptyDir := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
	switch {
	case ownedByDaemonSet(pod) && !spec.Force:
		return ReasonDaemonSetGone
	case hasEmptyDir && !spec.DeleteEmptyDir:
		return ReasonLocalStorage
	}
	return ReasonNoController
}

func ownedByDaemonSet(pod *corev1.Pod) bool {
	controller := metav1.GetControllerOf(pod)
	return controller != nil && controller.Kind == "DaemonSet" && controller.APIVersion == appsv1.SchemeGroupVersion.String()
}

func isMirror(pod *corev1.Pod) bool {
	_, mirror := pod.Annotations[corev1.MirrorPodAnnotationKey]
	return mirror
}

func isFinished(pod *corev1.Pod) bool {
	return pod.Status.Phase == corev1.PodSucceeded || pod.Status.Phase == corev1.PodFailed
}

// snapshotClient implements the part of the Kubernetes client that kubectl's filters use: the pods, and the DaemonSets of a snapshot. The embedded
// nil interfaces panic in the tests if a new version of kubectl calls another method.
type snapshotClient struct {
	kubernetes.Interface
	pods       []corev1.Pod
	daemonSets map[types.NamespacedName]*appsv1.DaemonSet
}

func (c snapshotClient) CoreV1() coreclient.CoreV1Interface { return snapshotCore{pods: c.pods} }

func (c snapshotClient) AppsV1() appsclient.AppsV1Interface {
	return snapshotApps{daemonSets: c.daemonSets}
}

type snapshotCore struct {
	coreclient.CoreV1Interface
	pods []corev1.Pod
}

func (c snapshotCore) Pods(string) coreclient.PodInterface { return snapshotPods{pods: c.pods} }

type snapshotPods struct {
	coreclient.PodInterface
	pods []corev1.Pod
}

func (c snapshotPods) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: c.pods}, nil
}

type snapshotApps struct {
	appsclient.AppsV1Interface
	daemonSets map[types.NamespacedName]*appsv1.DaemonSet
}

func (c snapshotApps) DaemonSets(namespace string) appsclient.DaemonSetInterface {
	return snapshotDaemonSets{namespace: namespace, daemonSets: c.daemonSets}
}

type snapshotDaemonSets struct {
	appsclient.DaemonSetInterface
	namespace  string
	daemonSets map[types.NamespacedName]*appsv1.DaemonSet
}

func (c snapshotDaemonSets) Get(_ context.Context, name string, _ metav1.GetOptions) (*appsv1.DaemonSet, error) {
	daemonSet, ok := c.daemonSets[types.NamespacedName{Namespace: c.namespace, Name: name}]
	if !ok {
		return nil, apierrors.NewNotFound(appsv1.Resource("daemonsets"), name)
	}
	return daemonSet, nil
}
