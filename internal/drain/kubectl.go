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

// kubectlRules asks kubectl's filters about pods. They are the rules that everyone expects of a drain, so they are called, not copied.
type kubectlRules struct {
	spec       maintenancev1.DrainSpec
	daemonSets map[types.NamespacedName]*appsv1.DaemonSet
}

func newKubectlRules(spec maintenancev1.DrainSpec, daemonSets []appsv1.DaemonSet) kubectlRules {
	rules := kubectlRules{spec: spec, daemonSets: make(map[types.NamespacedName]*appsv1.DaemonSet, len(daemonSets))}
	for i := range daemonSets {
		rules.daemonSets[types.NamespacedName{Namespace: daemonSets[i].Namespace, Name: daemonSets[i].Name}] = &daemonSets[i]
	}
	return rules
}

// verdict is what kubectl says of one pod. The filters' own answer is not exported, but which of them gave it follows from the pod.
func (k kubectlRules) verdict(ctx context.Context, pod *corev1.Pod) (Action, Reason) {
	helper := kubectldrain.Helper{
		Ctx:                 ctx,
		Client:              onePodClient{pod: pod, daemonSets: k.daemonSets},
		Force:               k.spec.Force,
		DeleteEmptyDirData:  k.spec.DeleteEmptyDir,
		IgnoreAllDaemonSets: true,
	}
	list, refusals := helper.GetPodsForDeletion(pod.Spec.NodeName)
	switch {
	case len(refusals) > 0:
		return Block, refusedBy(pod, k.spec)
	case len(list.Pods()) > 0:
		return Evict, ""
	case ownedByDaemonSet(pod):
		return Skip, ReasonDaemonSet
	}
	return Skip, ReasonMirror
}

// refusedBy names the filter that refused a pod, in the order kubectl applies them.
func refusedBy(pod *corev1.Pod, spec maintenancev1.DrainSpec) Reason {
	hasEmptyDir := slices.ContainsFunc(pod.Spec.Volumes, func(v corev1.Volume) bool { return v.EmptyDir != nil })
	switch {
	case ownedByDaemonSet(pod):
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

// onePodClient is all of Kubernetes that kubectl's filters look at: one pod, and the DaemonSets of a snapshot. Every other call would
// be a change in kubectl; the embedded nil interfaces make it panic in the tests.
type onePodClient struct {
	kubernetes.Interface
	pod        *corev1.Pod
	daemonSets map[types.NamespacedName]*appsv1.DaemonSet
}

func (c onePodClient) CoreV1() coreclient.CoreV1Interface { return onePodCore{pod: c.pod} }
func (c onePodClient) AppsV1() appsclient.AppsV1Interface {
	return snapshotApps{daemonSets: c.daemonSets}
}

type onePodCore struct {
	coreclient.CoreV1Interface
	pod *corev1.Pod
}

func (c onePodCore) Pods(string) coreclient.PodInterface { return onePod{pod: c.pod} }

type onePod struct {
	coreclient.PodInterface
	pod *corev1.Pod
}

func (c onePod) List(context.Context, metav1.ListOptions) (*corev1.PodList, error) {
	return &corev1.PodList{Items: []corev1.Pod{*c.pod}}, nil
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
