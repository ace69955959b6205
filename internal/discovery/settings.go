// Package discovery finds clusters in objects on the hub: in Secrets with kubeconfigs, and in ManagedClusters with tokens. It decides which of them are
// used and why others are not. It reads nothing by itself.
package discovery

import (
	"errors"
	"fmt"
	"net/url"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	metav1validation "k8s.io/apimachinery/pkg/apis/meta/v1/validation"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/allow"
)

// Settings say which objects on the hub name clusters. The zero value names none.
type Settings struct {
	// Secrets with kubeconfigs.
	Secrets []Secrets `json:"secrets,omitempty"`
	// ManagedClusters of Open Cluster Management, with the tokens of its add-on for managed service accounts.
	ManagedClusters *ManagedClusters `json:"managedClusters,omitempty"`
}

// Secrets selects Secrets with a kubeconfig, one for each cluster.
type Secrets struct {
	// Namespaces of the Secrets. Who may write Secrets there decides which clusters there are.
	Namespaces []string `json:"namespaces"`
	// Selector of the labels of the Secrets, as kubectl writes it.
	Selector string `json:"selector"`
	// Servers are the hosts of the API servers.
	Servers Servers `json:"servers"`
	// NameLabel is the label with the name of the cluster. Absent: drydock.dev/cluster, or none with NameSuffix.
	NameLabel string `json:"nameLabel,omitempty"`
	// NameSuffix is the end of the names of the Secrets; others are left out. The beginning is the name of the cluster.
	NameSuffix string `json:"nameSuffix,omitempty"`
	// Key of the kubeconfig in a Secret. Absent: kubeconfig.
	Key string `json:"key,omitempty"`
}

// ManagedClusters selects ManagedClusters. The token of one is in the Secret TokenSecret of its namespace.
type ManagedClusters struct {
	// Selector of the labels of the ManagedClusters, as kubectl writes it. Absent: all.
	Selector string `json:"selector,omitempty"`
	// Servers are the hosts of the API servers.
	Servers Servers `json:"servers"`
}

// LabelCluster is the label of a Secret with the name of its cluster.
const LabelCluster = "drydock.dev/cluster"

// TokenSecret is the name of the Secrets with the tokens of ManagedClusters, which is that of their ManagedServiceAccounts.
const TokenSecret = "drydock-initiator"

// IsZero reports whether no object names a cluster.
func (s Settings) IsZero() bool { return len(s.Secrets) == 0 && s.ManagedClusters == nil }

// Check returns the problems of the settings; at is the path of their field.
func (s Settings) Check(at *field.Path) field.ErrorList {
	var invalid field.ErrorList
	for i, secrets := range s.Secrets {
		invalid = append(invalid, secrets.check(at.Child("secrets").Index(i))...)
	}
	if s.ManagedClusters != nil {
		at := at.Child("managedClusters")
		_, problems := parseSelector(at.Child("selector"), s.ManagedClusters.Selector)
		invalid = append(append(invalid, problems...), s.ManagedClusters.Servers.check(at.Child("servers"))...)
	}
	return invalid
}

func (s Secrets) check(at *field.Path) field.ErrorList {
	var invalid field.ErrorList
	if len(s.Namespaces) == 0 {
		invalid = append(invalid, field.Required(at.Child("namespaces"), "the namespaces of the Secrets"))
	}
	for i, namespace := range s.Namespaces {
		if problems := validation.IsDNS1123Label(namespace); len(problems) > 0 {
			invalid = append(invalid, field.Invalid(at.Child("namespaces").Index(i), namespace, problems[0]))
		}
		if slices.Contains(s.Namespaces[:i], namespace) {
			invalid = append(invalid, field.Duplicate(at.Child("namespaces").Index(i), namespace))
		}
	}
	selector, problems := parseSelector(at.Child("selector"), s.Selector)
	invalid = append(invalid, problems...)
	if len(problems) == 0 && selector.Empty() {
		invalid = append(invalid, field.Required(at.Child("selector"), "the labels of the Secrets with kubeconfigs, such as "+LabelCluster))
	}
	if s.NameLabel != "" {
		invalid = append(invalid, metav1validation.ValidateLabelName(s.NameLabel, at.Child("nameLabel"))...)
	}
	if s.Key != "" {
		for _, problem := range validation.IsConfigMapKey(s.Key) {
			invalid = append(invalid, field.Invalid(at.Child("key"), s.Key, problem))
		}
	}
	return append(invalid, s.Servers.check(at.Child("servers"))...)
}

func parseSelector(at *field.Path, text string) (labels.Selector, field.ErrorList) {
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, field.ErrorList{field.Invalid(at, text, err.Error())}
	}
	return selector, nil
}

func (s Secrets) withDefaults() Secrets {
	if s.Key == "" {
		s.Key = "kubeconfig"
	}
	if s.NameLabel == "" && s.NameSuffix == "" {
		s.NameLabel = LabelCluster
	}
	return s
}

// Servers are the hosts of API servers, as those of allow.Hosts; "*" is any host.
type Servers []string

func (s Servers) check(at *field.Path) field.ErrorList {
	switch {
	case len(s) == 0:
		return field.ErrorList{field.Required(at, `the hosts of the API servers, such as "*.example.com:6443"; "*" for any`)}
	case s.any():
		return nil
	}
	return allow.Hosts(s).Check(at)
}

func (s Servers) any() bool { return slices.Contains(s, "*") }

// allow returns why a worker must not send requests to the address of an API server.
func (s Servers) allow(address string) error {
	parsed, err := url.Parse(address)
	switch {
	case err != nil || parsed.Scheme != "https" || parsed.Hostname() == "" || parsed.User != nil:
		return errors.New("must be https://HOST:PORT")
	case !s.any() && !allow.Hosts(s).Allow(parsed):
		return fmt.Errorf("host %s is not one of the servers that the clusters file allows here", parsed.Host)
	}
	return nil
}

// describe names an object as users see it.
func describe(kind string, object metav1.Object) string {
	if object.GetNamespace() == "" {
		return kind + " " + object.GetName()
	}
	return kind + " " + object.GetNamespace() + "/" + object.GetName()
}
