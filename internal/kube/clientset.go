package kube

import (
	"net/http"
	"sync"

	"k8s.io/client-go/discovery"
	appsv1 "k8s.io/client-go/kubernetes/typed/apps/v1"
	authenticationv1 "k8s.io/client-go/kubernetes/typed/authentication/v1"
	authorizationv1 "k8s.io/client-go/kubernetes/typed/authorization/v1"
	corev1 "k8s.io/client-go/kubernetes/typed/core/v1"
	rbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"
	"k8s.io/client-go/rest"
)

// Clientset has the clients of the groups of Kubernetes that Drydock uses. Each is made on first use: those of all groups need 30 KiB for each cluster.
type Clientset struct {
	discovery      *discovery.DiscoveryClient
	apps           func() *appsv1.AppsV1Client
	authentication func() *authenticationv1.AuthenticationV1Client
	authorization  func() *authorizationv1.AuthorizationV1Client
	core           func() *corev1.CoreV1Client
	rbac           func() *rbacv1.RbacV1Client
}

func newClientset(config *rest.Config, connections *http.Client) (*Clientset, error) {
	found, err := discovery.NewDiscoveryClientForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	return &Clientset{
		discovery:      found,
		apps:           onFirstUse(config, connections, appsv1.NewForConfigAndClient),
		authentication: onFirstUse(config, connections, authenticationv1.NewForConfigAndClient),
		authorization:  onFirstUse(config, connections, authorizationv1.NewForConfigAndClient),
		core:           onFirstUse(config, connections, corev1.NewForConfigAndClient),
		rbac:           onFirstUse(config, connections, rbacv1.NewForConfigAndClient),
	}, nil
}

func onFirstUse[T any](config *rest.Config, connections *http.Client, create func(*rest.Config, *http.Client) (T, error)) func() T {
	return sync.OnceValue(func() T {
		made, err := create(config, connections)
		if err != nil {
			panic(err) // a config is invalid for all groups, and newClientset has failed
		}
		return made
	})
}

// Discovery returns the client that asks what the API server serves, and for paths without a type.
func (c *Clientset) Discovery() discovery.DiscoveryInterface { return c.discovery }

// AppsV1 returns the client of apps/v1.
func (c *Clientset) AppsV1() appsv1.AppsV1Interface { return c.apps() }

// AuthenticationV1 returns the client of authentication.k8s.io/v1.
func (c *Clientset) AuthenticationV1() authenticationv1.AuthenticationV1Interface {
	return c.authentication()
}

// AuthorizationV1 returns the client of authorization.k8s.io/v1.
func (c *Clientset) AuthorizationV1() authorizationv1.AuthorizationV1Interface {
	return c.authorization()
}

// CoreV1 returns the client of v1.
func (c *Clientset) CoreV1() corev1.CoreV1Interface { return c.core() }

// RbacV1 returns the client of rbac.authorization.k8s.io/v1.
func (c *Clientset) RbacV1() rbacv1.RbacV1Interface { return c.rbac() }
