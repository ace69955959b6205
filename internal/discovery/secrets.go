package discovery

import (
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"
)

func (s Secrets) source(namespace string) Source {
	known := map[types.UID]parsed{}
	selector, _ := labels.Parse(s.Selector) // Check did
	return Source{
		Name: "Secrets in namespace " + namespace,
		Reads: []Selection{{
			Object: &corev1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: namespace}}, Options: client.ListOptions{LabelSelector: selector}, Trim: s.trim,
		}},
		Find: func(read [][]client.Object) (found []Cluster) {
			next := map[types.UID]parsed{}
			for _, object := range read[0] {
				secret := object.(*corev1.Secret)
				of := known[secret.UID]
				if of.version == "" || of.version != secret.ResourceVersion {
					of = parsed{secret.ResourceVersion, s.cluster(secret)}
				}
				next[secret.UID] = of
				if of.cluster != nil {
					found = append(found, *of.cluster)
				}
			}
			known = next
			return found
		},
	}
}

// parsed is what a version of a Secret says: one that changes must not cost a look at all others.
type parsed struct {
	version string
	cluster *Cluster
}

// trim keeps the kubeconfig: other keys may have secrets that Drydock does not need.
func (s Secrets) trim(object any) (any, error) {
	if secret, ok := object.(*corev1.Secret); ok {
		metadata := metav1.ObjectMeta{Namespace: secret.Namespace, Name: secret.Name, UID: secret.UID, ResourceVersion: secret.ResourceVersion, Labels: secret.Labels}
		return &corev1.Secret{ObjectMeta: metadata, Data: keep(secret.Data, s.Key)}, nil
	}
	return object, nil
}

func keep(data map[string][]byte, keys ...string) map[string][]byte {
	kept := map[string][]byte{}
	for _, key := range keys {
		if value, ok := data[key]; ok {
			kept[key] = value
		}
	}
	return kept
}

// cluster returns the cluster of a Secret; nil if its name does not end as those of kubeconfigs do.
func (s Secrets) cluster(secret *corev1.Secret) *Cluster {
	name, ends := strings.CutSuffix(secret.Name, s.NameSuffix)
	if !ends {
		return nil
	}
	if s.NameLabel != "" {
		named := secret.Labels[s.NameLabel]
		if s.NameSuffix != "" && named != name {
			return nil
		}
		name = named
	}
	found := &Cluster{From: describe("Secret", secret)}
	content, has := secret.Data[s.Key]
	switch problems := validation.IsDNS1123Subdomain(name); {
	case name == "":
		found.Problem = fmt.Sprintf("it has no label %s with the name of the cluster", s.NameLabel)
	case len(problems) > 0:
		found.Problem = fmt.Sprintf("%q cannot be the name of a cluster: %s", name, problems[0])
	case !has:
		found.Name, found.Problem = name, "it has no key "+s.Key
	default:
		found.Name = name
		found.use(configOf(content, s.Servers))
	}
	return found
}

// use sets the configuration of a cluster, or the problem.
func (c *Cluster) use(config *rest.Config, err error) {
	if err != nil {
		c.Problem = err.Error()
		return
	}
	c.Config = config
}
