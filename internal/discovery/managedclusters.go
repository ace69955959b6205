package discovery

import (
	"errors"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/internal/policies"
)

func (m *ManagedClusters) source() Source {
	selector, _ := labels.Parse(m.Selector) // Check did
	known := map[endpoint]*rest.Config{}
	registered := &unstructured.Unstructured{}
	registered.SetGroupVersionKind(policies.ManagedClusters)
	return Source{
		Name: "ManagedClusters",
		Reads: []Selection{
			{Object: registered, Options: client.ListOptions{LabelSelector: selector}, Trim: trimManagedCluster},
			{Object: &corev1.Secret{}, Options: client.ListOptions{FieldSelector: fields.OneTermEqualSelector(metav1.ObjectNameField, TokenSecret)}, Trim: trimToken},
		},
		Find: func(read [][]client.Object) (found []Cluster) {
			tokens := map[string]*corev1.Secret{}
			for _, object := range read[1] {
				tokens[object.GetNamespace()] = object.(*corev1.Secret)
			}
			next := map[endpoint]*rest.Config{}
			for _, object := range read[0] {
				found = append(found, m.cluster(object.(*unstructured.Unstructured), tokens[object.GetName()], func(at endpoint) (config *rest.Config, err error) {
					if config = known[at]; config == nil {
						config, err = at.config()
					}
					next[at] = config
					return config, err
				}))
			}
			known = next
			return found
		},
	}
}

// endpoint is where a cluster is, and how. Its configuration is made once: a change of one cluster must not cost a look at the certificates of all others.
type endpoint struct{ url, authority, token string }

func (e endpoint) config() (*rest.Config, error) {
	return configFor(&rest.Config{Host: e.url, BearerToken: e.token, TLSClientConfig: rest.TLSClientConfig{CAData: []byte(e.authority)}})
}

// trimToken keeps what the add-on writes.
func trimToken(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		metadata := metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion}
		return &corev1.Secret{ObjectMeta: metadata, Data: keep(secret.Data, corev1.ServiceAccountTokenKey, corev1.ServiceAccountRootCAKey)}, nil
	}
	return object, nil
}

// trimManagedCluster keeps the addresses.
func trimManagedCluster(object any) (any, error) {
	cluster, ok := object.(*unstructured.Unstructured)
	if !ok {
		return object, nil
	}
	trimmed := &unstructured.Unstructured{Object: map[string]any{"spec": cluster.Object["spec"]}}
	trimmed.SetGroupVersionKind(cluster.GroupVersionKind())
	trimmed.SetName(cluster.GetName())
	trimmed.SetUID(cluster.GetUID())
	trimmed.SetResourceVersion(cluster.GetResourceVersion())
	return trimmed, nil
}

// cluster returns the cluster of a ManagedCluster and the Secret with its token, which is nil if there is none.
func (m *ManagedClusters) cluster(registered *unstructured.Unstructured, token *corev1.Secret, configOf func(endpoint) (*rest.Config, error)) Cluster {
	found := Cluster{Name: registered.GetName(), From: describe("ManagedCluster", registered)}
	accepted, _, _ := unstructured.NestedBool(registered.Object, "spec", "hubAcceptsClient")
	switch {
	case token == nil:
		found.NoCredentials = true
		found.Problem = fmt.Sprintf("there is no Secret %s/%s with its token", found.Name, TokenSecret)
	case !accepted:
		found.Problem = "the hub has not accepted it: spec.hubAcceptsClient is not true"
	case len(token.Data[corev1.ServiceAccountTokenKey]) == 0:
		found.Problem = fmt.Sprintf("Secret %s/%s has no key %s", found.Name, TokenSecret, corev1.ServiceAccountTokenKey)
	default:
		at, err := m.endpoint(registered, token)
		if err != nil {
			found.Problem = err.Error()
			break
		}
		found.use(configOf(at))
	}
	return found
}

// endpoint is the first address of a ManagedCluster that is allowed.
func (m *ManagedClusters) endpoint(registered *unstructured.Unstructured, token *corev1.Secret) (endpoint, error) {
	type clientConfig struct {
		URL      string `json:"url"`
		CABundle []byte `json:"caBundle"`
	}
	var spec struct {
		Addresses []clientConfig `json:"managedClusterClientConfigs"`
	}
	fromSpec, _ := registered.Object["spec"].(map[string]any)
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(fromSpec, &spec); err != nil {
		return endpoint{}, fmt.Errorf("spec.managedClusterClientConfigs: %w", err)
	}
	refused := errors.New("spec.managedClusterClientConfigs has no address of its API server")
	for i, at := range spec.Addresses {
		if err := m.Servers.allow(at.URL); err != nil {
			refused = fmt.Errorf("spec.managedClusterClientConfigs[%d].url: %w", i, err)
			continue
		}
		authority := at.CABundle
		if len(authority) == 0 {
			authority = token.Data[corev1.ServiceAccountRootCAKey]
		}
		return endpoint{at.URL, string(authority), string(token.Data[corev1.ServiceAccountTokenKey])}, nil
	}
	return endpoint{}, refused
}
