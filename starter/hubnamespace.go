package main

import (
	"context"
	"fmt"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/setup"
)

// examineHubNamespace checks whether Drydock can save holds and the final status of rollouts.
func examineHubNamespace(ctx context.Context, config *rest.Config, at place) finding {
	check := at.String() + ": namespace"
	namespaces, err := setup.Namespaces(config)
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
