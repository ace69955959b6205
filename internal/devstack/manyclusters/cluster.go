// Package manyclusters simulates the API servers of many clusters in one process, for measurements: each with its own address, certificate authority, token and
// objects. Nothing but the requests of clients changes an object: no controllers run, and a deleted or evicted pod is gone at once.
package manyclusters

import (
	"crypto/rand"
	"crypto/tls"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	clientgoscheme "k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/internal/devstack"
)

// Options of clusters.
type Options struct {
	// Definitions are the CRDs of every cluster.
	Definitions []*apiextensionsv1.CustomResourceDefinition
	// Objects returns the first objects of a cluster, with their status. Those that are the same in all clusters need little memory.
	Objects func(cluster string) []runtime.Object
}

// Cluster is one simulated cluster.
type Cluster struct {
	Name string
	// Config is the access with all rights.
	Config *rest.Config

	resources []*resource
	store     *store
	server    *http.Server

	mu       sync.Mutex
	requests map[string]int
}

// Clusters are simulated clusters. Close ends them.
type Clusters []*Cluster

// Start starts clusters with these names.
func Start(names []string, options Options) (Clusters, error) {
	resources := builtIn()
	for _, definition := range options.Definitions {
		resources = append(resources, resourcesOf(definition)...)
	}
	definitions, err := encodeAll(definitionsOf(options.Definitions))
	if err != nil {
		return nil, err
	}
	var all Clusters
	for _, name := range names {
		cluster, err := start(name, resources, definitions, options)
		if err != nil {
			return nil, errors.Join(err, all.Close())
		}
		all = append(all, cluster)
	}
	return all, nil
}

func definitionsOf(definitions []*apiextensionsv1.CustomResourceDefinition) []runtime.Object {
	var objects []runtime.Object
	for _, definition := range definitions {
		definition = definition.DeepCopy()
		definition.SetGroupVersionKind(apiextensionsv1.SchemeGroupVersion.WithKind("CustomResourceDefinition"))
		definition.Status.Conditions = []apiextensionsv1.CustomResourceDefinitionCondition{{Type: apiextensionsv1.Established, Status: apiextensionsv1.ConditionTrue}}
		objects = append(objects, definition)
	}
	return objects
}

// seeded is a first object.
type seeded struct {
	kind    schema.GroupVersionKind
	key     types.NamespacedName
	content json.RawMessage
}

func encodeAll(objects []runtime.Object) ([]seeded, error) {
	var all []seeded
	for _, object := range objects {
		fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(object)
		if err != nil {
			return nil, err
		}
		encoded := &unstructured.Unstructured{Object: fields}
		if encoded.GetKind() == "" {
			kinds, _, err := clientgoscheme.Scheme.ObjectKinds(object)
			if err != nil {
				return nil, err
			}
			encoded.SetGroupVersionKind(kinds[0])
		}
		if encoded.GetUID() == "" {
			encoded.SetUID(types.UID(rand.Text()))
		}
		encoded.SetResourceVersion("1")
		encoded.SetGeneration(1)
		content, err := encoded.MarshalJSON()
		if err != nil {
			return nil, err
		}
		all = append(all, seeded{encoded.GroupVersionKind(), keyOf(encoded), content})
	}
	return all, nil
}

func start(name string, resources []*resource, definitions []seeded, options Options) (*Cluster, error) {
	c := &Cluster{Name: name, resources: resources, store: newStore(), requests: map[string]int{}}
	var objects []runtime.Object
	if options.Objects != nil {
		objects = options.Objects(name)
	}
	own, err := encodeAll(objects)
	if err != nil {
		return nil, err
	}
	for _, object := range slices.Concat(definitions, own) {
		of := c.resourceOf(func(r *resource) bool { return r.kind == object.kind })
		if of == nil {
			return nil, fmt.Errorf("cluster %s serves no %s", name, object.kind)
		}
		c.store.seed(of, object.key, object.content)
	}
	authority, err := devstack.NewAuthority(name)
	if err != nil {
		return nil, err
	}
	certificate, key, err := authority.Server()
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	c.Config = &rest.Config{Host: "https://" + listener.Addr().String(), BearerToken: rand.Text(), TLSClientConfig: rest.TLSClientConfig{CAData: authority.PEM()}, QPS: -1}
	c.server = &http.Server{
		Handler: c, TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}}, ReadHeaderTimeout: time.Minute, ErrorLog: log.New(io.Discard, "", 0),
	}
	go func() { _ = c.server.ServeTLS(listener, "", "") }() // until Close
	return c, nil
}

// Close ends the clusters.
func (all Clusters) Close() error {
	var errs []error
	for _, c := range all {
		errs = append(errs, c.server.Close())
	}
	return errors.Join(errs...)
}

// Requests returns the number of requests to all clusters since their start, by verb and resource: "list nodes", "get /apis".
func (all Clusters) Requests() map[string]int {
	total := map[string]int{}
	for _, c := range all {
		for request, count := range c.Requests() {
			total[request] += count
		}
	}
	return total
}

// Requests returns the number of requests to the cluster since its start, by verb and resource.
func (c *Cluster) Requests() map[string]int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return maps.Clone(c.requests)
}

func (c *Cluster) count(request string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.requests[request]++
}

func (c *Cluster) resourceOf(matches func(*resource) bool) *resource {
	if i := slices.IndexFunc(c.resources, matches); i >= 0 {
		return c.resources[i]
	}
	return nil
}

// ServeHTTP answers a request to the API server.
func (c *Cluster) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.Header.Get("Authorization") != "Bearer "+c.Config.BearerToken {
		c.count("unauthorized")
		refuse(w, apierrors.NewUnauthorized("the token is not that of the cluster"))
		return
	}
	parts := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
	core := parts[0] == "api"
	switch {
	case parts[0] == "livez" || parts[0] == "readyz":
		c.count("get " + r.URL.Path)
		_, _ = io.WriteString(w, "ok")
	case parts[0] == "version":
		c.count("get " + r.URL.Path)
		answer(w, http.StatusOK, map[string]string{"major": "1", "minor": "37", "gitVersion": "v1.37.0"})
	case len(parts) == 1 && (core || parts[0] == "apis"):
		c.count("get " + r.URL.Path)
		c.discover(w, r, core)
	case core && len(parts) == 2:
		c.count("get " + r.URL.Path)
		answer(w, http.StatusOK, apiResources(c.resources, schema.GroupVersion{Version: parts[1]}))
	case parts[0] == "apis" && len(parts) == 3:
		c.count("get " + r.URL.Path)
		list := apiResources(c.resources, schema.GroupVersion{Group: parts[1], Version: parts[2]})
		if len(list.APIResources) == 0 {
			http.NotFound(w, r)
			return
		}
		answer(w, http.StatusOK, list)
	default:
		c.serveObjects(w, r, parts)
	}
}

// answer writes an object as JSON, which all clients accept.
func answer(w http.ResponseWriter, code int, object any) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", "application/json")
	}
	w.WriteHeader(code)
	_ = json.NewEncoder(w).Encode(object) // the client may be gone
}

// refuse answers with an error.
func refuse(w http.ResponseWriter, err error) {
	status, known := errors.AsType[*apierrors.StatusError](err)
	if !known {
		status = apierrors.NewInternalError(err)
	}
	of := status.Status()
	of.Kind, of.APIVersion = "Status", "v1"
	answer(w, int(of.Code), of)
}
