package kube

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/json"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/discovery"
)

// ClustersFile is the content of a clusters file.
type ClustersFile struct {
	// Hub is the cluster with the objects that rollouts are planned from. Absent: this worker plans no rollouts.
	Hub *KubeconfigContext `json:"hub,omitempty"`
	// Clusters that nodes are maintained in.
	Clusters []ClusterEntry `json:"clusters"`
	// Allow is what the requests of users may make the worker do. Absent: nothing of it.
	Allow allow.List `json:"allow,omitzero"`
	// Discovery says which objects on the hub name more clusters. Absent: none.
	Discovery discovery.Settings `json:"discovery,omitzero"`
}

// ClusterEntry is one cluster of a clusters file.
type ClusterEntry struct {
	// Name of the cluster: that of its ManagedCluster.
	Name              string `json:"name"`
	KubeconfigContext `json:",inline"`
	// InCluster: the worker runs in this cluster, and reaches it with the ServiceAccount of its pod.
	InCluster bool `json:"inCluster,omitempty"`
	// LockController are the credentials to write workload locks where Drydock manages them for an application. Absent: the cluster's other
	// credentials.
	LockController *KubeconfigContext `json:"lockController,omitempty"`
	// InClusterWorker: an activity-only worker inside the cluster runs its activities; this file needs no credentials for it.
	InClusterWorker bool `json:"inClusterWorker,omitempty"`
}

// KubeconfigContext selects a cluster in a kubeconfig.
type KubeconfigContext struct {
	// Kubeconfig is a path; a relative one starts at the clusters file's directory. Empty: $KUBECONFIG or ~/.kube/config.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Context of the kubeconfig. Empty: the current one.
	Context string `json:"context,omitempty"`
}

// FromClustersFile reads a clusters file (see ClustersFile). The error names every invalid field.
func FromClustersFile(path string) (Source, error) {
	content, err := os.ReadFile(path)
	if err != nil {
		return Source{}, fmt.Errorf("read the clusters file: %w", err)
	}
	file, err := decode(content)
	if err != nil {
		return Source{}, fmt.Errorf("clusters file %s: %w", path, err)
	}
	return file.source(path), nil
}

func decode(content []byte) (file ClustersFile, err error) {
	document, err := yaml.YAMLToJSONStrict(content)
	if err != nil {
		return file, err
	}
	unknown, err := json.UnmarshalStrict(document, &file)
	if err := errors.Join(append(unknown, err)...); err != nil {
		return file, err
	}
	return file, file.validate().ToAggregate()
}

func (f ClustersFile) source(path string) Source {
	source := Source{
		allowed: f.Allow, clusters: map[string]access{}, discovery: f.Discovery,
		hint: "add it to the clusters file " + path + " and restart every worker, which reads it at its start",
	}
	if !f.Discovery.IsZero() {
		source.hint = "`drydock doctor --clusters` shows which clusters the hub has; " + source.hint
	}
	directory := filepath.Dir(path)
	for i := range f.Allow.Webhooks {
		webhook := &f.Allow.Webhooks[i]
		webhook.SecretFile, webhook.TokenFile = relativeTo(directory, webhook.SecretFile), relativeTo(directory, webhook.TokenFile)
	}
	if email := f.Allow.Email; email != nil {
		email.PasswordFile, email.CAFile = relativeTo(directory, email.PasswordFile), relativeTo(directory, email.CAFile)
	}
	if f.Hub != nil {
		source.hub = f.Hub.access(directory)
	}
	for _, entry := range f.Clusters {
		known := access{inClusterWorker: entry.InClusterWorker}
		switch {
		case entry.InCluster:
			known.config = rest.InClusterConfig
		case !entry.InClusterWorker || entry.KubeconfigContext != (KubeconfigContext{}):
			known.config = entry.access(directory).config
		}
		if entry.LockController != nil {
			known.lockController = entry.LockController.access(directory).config
		}
		source.clusters[entry.Name] = known
	}
	return source
}

func (k KubeconfigContext) access(directory string) access {
	return kubeconfigAccess(relativeTo(directory, k.Kubeconfig), k.Context)
}

// relativeTo returns a path that starts at a directory unless it is absolute or empty.
func relativeTo(directory, path string) string {
	if path == "" || filepath.IsAbs(path) {
		return path
	}
	return filepath.Join(directory, path)
}

func (f ClustersFile) validate() field.ErrorList {
	var problems field.ErrorList
	names := map[string]bool{}
	for i, entry := range f.Clusters {
		path := field.NewPath("clusters").Index(i)
		if err := ValidateName(entry.Name); err != nil {
			problems = append(problems, field.Invalid(path.Child("name"), entry.Name, err.Error()))
		}
		if names[entry.Name] {
			problems = append(problems, field.Duplicate(path.Child("name"), entry.Name))
		}
		names[entry.Name] = true
		switch {
		case entry.InCluster && (entry.InClusterWorker || entry.KubeconfigContext != (KubeconfigContext{})):
			problems = append(problems, field.Forbidden(path.Child("inCluster"), "excludes kubeconfig, context and inClusterWorker"))
		case !entry.InCluster && !entry.InClusterWorker && entry.KubeconfigContext == (KubeconfigContext{}):
			problems = append(problems, field.Required(path, "kubeconfig or context, inCluster, or inClusterWorker"))
		}
		switch {
		case entry.LockController == nil:
		case entry.KubeconfigContext == (KubeconfigContext{}):
			problems = append(problems, field.Forbidden(path.Child("lockController"), "a worker inside the cluster has one ServiceAccount"))
		case *entry.LockController == (KubeconfigContext{}): // the current context, or a pod's ServiceAccount, would be another cluster's
			problems = append(problems, field.Required(path.Child("lockController"), "kubeconfig or context"))
		}
	}
	if f.Hub == nil && len(f.Clusters) == 0 { // for example while it is being written
		problems = append(problems, field.Required(field.NewPath("clusters"), "the file has neither a cluster nor a hub"))
	}
	if f.Hub == nil && !f.Discovery.IsZero() {
		problems = append(problems, field.Required(field.NewPath("hub"), "the objects of discovery are on it"))
	}
	problems = append(problems, f.Discovery.Check(field.NewPath("discovery"))...)
	return append(problems, f.Allow.Check(field.NewPath("allow"))...)
}

// ValidateName checks that a name could be that of a ManagedCluster: it becomes part of workflow ids and task queues.
func ValidateName(name string) error {
	if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
		return errors.New(strings.Join(problems, "; "))
	}
	return nil
}
