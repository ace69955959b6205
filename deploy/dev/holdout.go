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

// The holdout is a pod that does not leave its node when it is evicted.
const (
	holdoutName      = "holdout"
	holdoutNamespace = "shop"
	holdoutNode      = "worker-1"
)

func createHoldout(ctx context.Context, spoke *devstack.Cluster) error {
	_, err := spoke.Client.CoreV1().Pods(holdoutNamespace).Create(ctx, &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{
			Name: holdoutName, Namespace: holdoutNamespace, Annotations: map[string]string{devstack.AnnotationLeaveAfter: "1000h"},
		},
		Spec: corev1.PodSpec{NodeName: holdoutNode, Containers: []corev1.Container{{Name: holdoutName, Image: "registry.example.com/holdout:1.0"}}},
	}, metav1.CreateOptions{})
	return err
}

func awaitHoldoutEvicted(ctx context.Context, f *fleet.Fleet, spoke *devstack.Cluster) error {
	return f.Await(ctx, spoke, "the holdout is evicted", []client.Object{&corev1.Pod{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		var pod corev1.Pod
		err := reader.Get(ctx, client.ObjectKey{Namespace: holdoutNamespace, Name: holdoutName}, &pod)
		return pod.DeletionTimestamp != nil, client.IgnoreNotFound(err)
	})
}

// releaseHoldout lets the pod terminate, if there is one.
func releaseHoldout(ctx context.Context, spoke *devstack.Cluster) error {
	patch := fmt.Appendf(nil, `{"metadata":{"annotations":{%q:null}}}`, devstack.AnnotationLeaveAfter)
	_, err := spoke.Client.CoreV1().Pods(holdoutNamespace).Patch(ctx, holdoutName, types.MergePatchType, patch, metav1.PatchOptions{})
	return client.IgnoreNotFound(err)
}

// removeHoldout is releaseHoldout, even for a pod that was not evicted, and returns when the pod is gone.
func removeHoldout(ctx context.Context, f *fleet.Fleet, spoke *devstack.Cluster) error {
	if err := releaseHoldout(ctx, spoke); err != nil {
		return err
	}
	err := spoke.Client.CoreV1().Pods(holdoutNamespace).Delete(ctx, holdoutName, metav1.DeleteOptions{})
	if err != nil {
		return client.IgnoreNotFound(err)
	}
	return f.Await(ctx, spoke, "the holdout is gone", []client.Object{&corev1.Pod{}}, func(ctx context.Context, reader client.Reader) (bool, error) {
		err := reader.Get(ctx, client.ObjectKey{Namespace: holdoutNamespace, Name: holdoutName}, &corev1.Pod{})
		return apierrors.IsNotFound(err), client.IgnoreNotFound(err)
	})
}
