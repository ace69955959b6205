package kube

import (
	"fmt"
	"maps"
	"os"
	"reflect"
	"slices"
	"strings"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/discovery"
	"drydock.dev/drydock/internal/temporal"
)

// Source lists the clusters, the access to each, and which is the hub. The zero value has none.
type Source struct {
	hub      access
	clusters map[string]access
	// allowed is what the requests of users may make this process do.
	allowed allow.List
	// hint completes "cluster x is not known; ".
	hint string
	// discovery says which objects on the hub name more clusters.
	discovery discovery.Settings
}

// access is how to reach one cluster.
type access struct {
	// config is read when the cluster is opened, which picks up renewed credentials. Nil: this process cannot reach it.
	config func() (*rest.Config, error)
	// lockController is read in the same way, for writes to workload locks. Nil: config.
	lockController func() (*rest.Config, error)
	// inClusterWorker: an activity-only worker inside the cluster runs its activities.
	inClusterWorker bool
	// ended is closed when these credentials, which an object on the hub had, must no longer be used. Nil: they do not end.
	ended chan struct{}
}

// FromKubeconfig reads clusters from contexts of a kubeconfig; a cluster has the name of its context. An empty path means $KUBECONFIG or
// ~/.kube/config; an empty hub means that there is none.
func FromKubeconfig(path, hub string, contexts ...string) (Source, error) {
	source := Source{clusters: map[string]access{}, hint: "name it among the kubeconfig contexts the worker is started with, or use a clusters file"}
	for _, context := range contexts {
		if _, twice := source.clusters[context]; twice {
			return Source{}, fmt.Errorf("kubeconfig context %s is named twice", context)
		}
		if err := ValidateName(context); err != nil {
			return Source{}, fmt.Errorf("kubeconfig context %q cannot be a cluster's name: %w; rename the context, or name the cluster in a clusters file", context, err)
		}
		source.clusters[context] = kubeconfigAccess(path, context)
	}
	if hub != "" {
		source.hub = kubeconfigAccess(path, hub)
	}
	return source, nil
}

// FromWithin is the source of an activity-only worker inside the cluster: its ServiceAccount, or the current context of a kubeconfig, is the only access.
func FromWithin(name, kubeconfig string) (Source, error) {
	if err := ValidateName(name); err != nil {
		return Source{}, fmt.Errorf("%q cannot be a cluster's name: %w", name, err)
	}
	within := access{config: rest.InClusterConfig}
	if kubeconfig != "" {
		within = kubeconfigAccess(kubeconfig, "")
	} else if _, err := rest.InClusterConfig(); err != nil {
		return Source{}, fmt.Errorf("there is no ServiceAccount of a pod of cluster %s: %w", name, err)
	}
	within.inClusterWorker = true
	return Source{
		clusters: map[string]access{name: within},
		hint:     "this worker runs inside " + name + " and has no access to other clusters",
	}, nil
}

// Allowing returns the source with another list of what the requests of users may make this process do.
func (s Source) Allowing(list allow.List) Source {
	s.allowed = list
	return s
}

// Allowed is what the requests of users may make this process do.
func (s Source) Allowed() allow.List { return s.allowed }

// Reachable returns the names of the clusters whose credentials this process has at its start, in order.
func (s Source) Reachable() []string {
	var names []string
	for name, access := range s.clusters {
		if access.config != nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	return names
}

// Names returns the names of the clusters that the source itself has, in order.
func (s Source) Names() []string { return slices.Sorted(maps.Keys(s.clusters)) }

// Discovers reports whether objects on the hub name more clusters.
func (s Source) Discovers() bool { return !s.discovery.IsZero() }

// HasHub reports whether this process has a hub.
func (s Source) HasHub() bool { return s.hub.config != nil }

// FromConfigs is a source of client configurations; hub may be nil.
func FromConfigs(hub *rest.Config, clusters map[string]*rest.Config) Source {
	source := Source{clusters: map[string]access{}, hint: "known are " + fmt.Sprint(slices.Sorted(maps.Keys(clusters)))}
	for name, config := range clusters {
		source.clusters[name] = access{config: func() (*rest.Config, error) { return config, nil }}
	}
	if hub != nil {
		source.hub = access{config: func() (*rest.Config, error) { return hub, nil }}
	}
	return source
}

// kubeconfigAccess reads a context of a kubeconfig. An empty path means the default files, an empty context the current one; both empty, and without
// such files, mean a pod's ServiceAccount. Any other empty file, for example one that is being written, is an error: kubectl's loader would use the
// ServiceAccount, which may be of another cluster.
func kubeconfigAccess(path, context string) access {
	return access{config: func() (*rest.Config, error) {
		rules := clientcmd.NewDefaultClientConfigLoadingRules()
		rules.ExplicitPath = path
		loaded, err := rules.Load()
		if err != nil {
			return nil, err
		}
		if path == "" && context == "" && clientcmdapi.IsConfigEmpty(loaded) {
			return rest.InClusterConfig()
		}
		config, err := clientcmd.NewNonInteractiveClientConfig(*loaded, context, &clientcmd.ConfigOverrides{}, rules).ClientConfig()
		if err != nil {
			return nil, fmt.Errorf("kubeconfig %s: %w", strings.Join(rules.GetLoadingPrecedence(), ", "), err)
		}
		if config.CAFile != "" { // its content, to notice a new certificate authority
			config.CAData, err = os.ReadFile(config.CAFile)
		}
		return config, err
	}}
}

// credentials are the client configurations of a cluster, by role.
type credentials struct {
	config *rest.Config
	// lockController is nil when it has none of its own.
	lockController *rest.Config
	// ended is closed when they must no longer be used. Nil: they do not end.
	ended <-chan struct{}
}

// hubCredentials returns the access to the hub. Errors: NoHub, ClusterUnreachable.
func (s Source) hubCredentials() (credentials, error) {
	if s.hub.config == nil {
		return credentials{}, temporal.Error(temporal.ErrNoHub, "this worker has no hub; add one to its clusters file, or name its kubeconfig context", nil)
	}
	return s.hub.read("the hub")
}

// names reports whether the source itself has a cluster with that name.
func (s Source) names(name string) bool {
	_, ok := s.clusters[name]
	return ok
}

func (a access) read(what string) (found credentials, err error) {
	found.ended = a.ended
	if found.config, err = a.config(); err == nil && a.lockController != nil {
		found.lockController, err = a.lockController()
	}
	if err != nil {
		return credentials{}, temporal.Error(temporal.ErrClusterUnreachable, fmt.Sprintf("read the credentials of %s: %v", what, err), err)
	}
	return found, nil
}

// same reports whether two configurations are equal: address, trusted authorities and identity.
func (c credentials) same(other credentials) bool {
	return sameConfig(c.config, other.config) && sameConfig(c.lockController, other.lockController)
}

func sameConfig(a, b *rest.Config) bool {
	if a == b || a == nil || b == nil {
		return a == b
	}
	a, b = rest.CopyConfig(a), rest.CopyConfig(b)
	for _, config := range []*rest.Config{a, b} {
		config.Proxy, config.WrapTransport = nil, nil // functions are never equal
		if config.BearerTokenFile != "" {
			config.BearerToken = "" // the client reads renewed tokens of a file by itself
		}
	}
	return reflect.DeepEqual(a, b)
}
