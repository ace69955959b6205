package kube

import (
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/rest"
)

// mapper finds the resources of kinds. It asks for each group and version on first use, and again for kinds that it did not find. Most clusters give the same
// answers, which are kept once for all of them.
type mapper struct {
	// The methods that Drydock and the clients of a cluster do not use are those of nil: all name the version of a kind.
	meta.RESTMapper

	client rest.Interface

	mu       sync.Mutex
	versions map[schema.GroupVersion]mappings
}

// mappings are those of a group and version, by kind.
type mappings map[string]*meta.RESTMapping

// knownMappings are all mappings, by the answers of API servers.
var knownMappings sync.Map // [sha256.Size]byte to mappings

func newMapper(config *rest.Config, connections *http.Client) (*mapper, error) {
	client, err := discovery.NewDiscoveryClientForConfigAndClient(config, connections)
	if err != nil {
		return nil, err
	}
	return &mapper{client: client.RESTClient(), versions: map[schema.GroupVersion]mappings{}}, nil
}

// RESTMapping implements meta.RESTMapper for one version.
func (m *mapper) RESTMapping(kind schema.GroupKind, versions ...string) (*meta.RESTMapping, error) {
	if len(versions) != 1 || versions[0] == "" {
		return nil, fmt.Errorf("the version of %s is missing", kind)
	}
	of := kind.WithVersion(versions[0])
	m.mu.Lock()
	found := m.versions[of.GroupVersion()][of.Kind]
	m.mu.Unlock()
	if found != nil {
		return found, nil
	}
	served, err := m.discover(of.GroupVersion())
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.versions[of.GroupVersion()] = served
	if found = served[of.Kind]; found == nil {
		return nil, &meta.NoKindMatchError{GroupKind: kind, SearchedVersions: versions}
	}
	return found, nil
}

// RESTMappings implements meta.RESTMapper for one version.
func (m *mapper) RESTMappings(kind schema.GroupKind, versions ...string) ([]*meta.RESTMapping, error) {
	found, err := m.RESTMapping(kind, versions...)
	if err != nil {
		return nil, err
	}
	return []*meta.RESTMapping{found}, nil
}

// discoveryTimeout limits a request for the kinds of a group, as in client-go.
const discoveryTimeout = 32 * time.Second

// discover asks the API server which kinds a group and version has; none if it does not serve them.
func (m *mapper) discover(of schema.GroupVersion) (mappings, error) {
	path := "/apis/" + of.String()
	if of.Group == "" {
		path = "/api/" + of.Version
	}
	ctx, cancel := context.WithTimeout(context.Background(), discoveryTimeout) // the interface of mappers has no context
	defer cancel()
	answer, err := m.client.Get().AbsPath(path).SetHeader("Accept", "application/json").Do(ctx).Raw()
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	digest := sha256.Sum256(answer)
	if known, ok := knownMappings.Load(digest); ok {
		return known.(mappings), nil
	}
	var list metav1.APIResourceList
	if err := json.Unmarshal(answer, &list); err != nil {
		return nil, fmt.Errorf("read the kinds of %s: %w", of, err)
	}
	found := mappings{}
	for _, resource := range list.APIResources {
		if strings.Contains(resource.Name, "/") { // a subresource
			continue
		}
		scope := meta.RESTScopeRoot
		if resource.Namespaced {
			scope = meta.RESTScopeNamespace
		}
		found[resource.Kind] = &meta.RESTMapping{Resource: of.WithResource(resource.Name), GroupVersionKind: of.WithKind(resource.Kind), Scope: scope}
	}
	known, _ := knownMappings.LoadOrStore(digest, found)
	return known.(mappings), nil
}
