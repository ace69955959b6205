package discovery

import (
	"k8s.io/client-go/rest"
	toolscache "k8s.io/client-go/tools/cache"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

// Source is a set of objects on the hub that name clusters.
type Source struct {
	// Name of the source for people: "Secrets in namespace clusters".
	Name string
	// Reads are the objects that Find needs.
	Reads []Selection
	// Find returns the clusters that the objects name; read has those of each of Reads. It may not be called by two at the same time.
	Find func(read [][]client.Object) []Cluster
}

// Selection selects objects of a kind.
type Selection struct {
	// Object has the kind, and the namespace if there is one.
	Object client.Object
	// Options narrow the selection, by labels or by the name.
	Options client.ListOptions
	// Trim keeps the fields that are used. Nil: all.
	Trim toolscache.TransformFunc
}

// Cluster is a cluster that an object on the hub names.
type Cluster struct {
	// Name is empty if the object does not have a valid one.
	Name string
	// From is the object: "Secret clusters/edge-1".
	From string
	// Config is nil if there is a Problem.
	Config *rest.Config
	// Problem is why the cluster is not used, and what to do.
	Problem string
	// NoCredentials: the Problem is that the hub has no credentials. A worker inside the cluster may serve it.
	NoCredentials bool
}

// Sources returns the sources of valid settings.
func (s Settings) Sources() []Source {
	var sources []Source
	for _, secrets := range s.Secrets {
		for _, namespace := range secrets.Namespaces {
			sources = append(sources, secrets.withDefaults().source(namespace))
		}
	}
	if s.ManagedClusters != nil {
		sources = append(sources, s.ManagedClusters.source())
	}
	return sources
}
