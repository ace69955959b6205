package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
)

// The slow pod does not terminate when it is evicted.
const (
	slowPodName      = "slow-pod"
	slowPodNamespace = "shop"
	slowPodNode      = "worker-1"
)

func createSlowPod(ctx context.Context, spoke *devstack.Cluster) error {
	_, err := spoke.Client.CoreV1().Pods(slowPodNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: slowPodName, Namespace: slowPodNamespace, Annotations: map[string]string{devstack.AnnotationLeaveAfter: "1000h"},
		},
		Spec: corev1.PodSpec{NodeName: slowPodNode, Containers: []corev1.Container{{Name: slowPodName, Image: "registry.example.com/slow-pod:1.0"}}},
	}, metav1.CreateOptions{})
	return err
}

func awaitSlowPodEvicted(ctx context.Context, f *fleet.Fleet, spoke *devstack.Cluster) error {
	return f.Await(ctx, spoke, "the slow pod is evicted", []client.Object{&corev1.Pod{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		var pod corev1.Pod
		err := reader.Get(ctx, client.ObjectKey{Namespace: slowPodNamespace, Name: slowPodName}, &pod)
		return pod.DeletionTimestamp != nil, client.IgnoreNotFound(err)
	})
}

// releaseSlowPod lets the pod terminate, if there is one.
func releaseSlowPod(ctx context.Context, spoke *devstack.Cluster) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, devstack.AnnotationLeaveAfter)
	_, err := spoke.Client.CoreV1().Pods(slowPodNamespace).Patch(ctx, slowPodName, types.MergePatchType, patch, metav1.PatchOptions{})
	return client.IgnoreNotFound(err)
}

// removeSlowPod deletes the pod, if there is one, and waits until it is gone.
func removeSlowPod(ctx context.Context, f *fleet.Fleet, spoke *devstack.Cluster) error {
	if err := releaseSlowPod(ctx, spoke); err != nil {
		return err
	}
	err := spoke.Client.CoreV1().Pods(slowPodNamespace).Delete(ctx, slowPodName, metav1.DeleteOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return f.Await(ctx, spoke, "the slow pod is gone", []client.Object{&corev1.Pod{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		err := reader.Get(ctx, client.ObjectKey{Namespace: slowPodNamespace, Name: slowPodName}, &corev1.Pod{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
