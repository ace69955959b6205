package main

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/kube"
)

// namespacesOf returns the namespaces of a cluster.
func namespacesOf(config *rest.Config) (dynamic.ResourceInterface, error) {
	client, err := dynamic.NewForConfig(config)
	if err != nil {
		return nil, err
	}
	return client.Resource(corev1.SchemeGroupVersion.WithResource("namespaces")), nil
}

// createHubNamespace creates the namespace of the hub in which Drydock saves holds and the final status of rollouts.
func (c *cli) createHubNamespace(ctx context.Context, at place) (setupStep, error) {
	step := setupStep{Where: at.String(), What: "namespace " + kube.SystemNamespace, Result: "added"}
	config, err := c.kube.config(at.context)
	if err != nil {
		return step, err
	}
	namespaces, err := namespacesOf(config)
	if err != nil {
		return step, fmt.Errorf("%s: %w", at, err)
	}
	var namespace unstructured.Unstructured
	namespace.SetAPIVersion("v1")
	namespace.SetKind("Namespace")
	namespace.SetName(kube.SystemNamespace)
	_, err = namespaces.Create(ctx, &namespace, metav1.CreateOptions{FieldManager: createdBySetup})
	switch {
	case apierrors.IsAlreadyExists(err):
		step.Result = "upToDate"
	case err != nil:
		return step, fmt.Errorf("%s: create namespace %s: %w", at, kube.SystemNamespace, err)
	}
	return step, nil
}

// examineHubNamespace checks whether Drydock can save holds and the final status of rollouts.
func examineHubNamespace(ctx context.Context, config *rest.Config, at place) finding {
	check := at.String() + ": namespace"
	namespaces, err := namespacesOf(config)
	if err != nil {
		return ill(check, "correct the kubeconfig", err)
	}
	_, err = namespaces.Get(ctx, kube.SystemNamespace, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		return finding{
			Check: check, Fix: fmt.Sprintf("run `drydock setup --hub-context %s`", at.context),
			Detail: kube.SystemNamespace + " is missing: holds and the final status of rollouts are not saved, and no rollout can be retried",
		}
	case err != nil:
		return ill(check, "give the user of this context the right to get namespaces", err)
	}
	return well(check, kube.SystemNamespace+" exists")
}
