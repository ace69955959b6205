package manyclusters

import (
	"net/http"
	"strings"

	apidiscoveryv2 "k8s.io/api/apidiscovery/v2"
	apiextensionsv1 "k8s.io/apiextensions-apiserver/pkg/apis/apiextensions/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// resource is one resource that the clusters serve.
type resource struct {
	kind       schema.GroupVersionKind
	plural     string
	namespaced bool
	// status: its status has an endpoint of its own.
	status bool
}

func (r *resource) groupResource() schema.GroupResource {
	return schema.GroupResource{Group: r.kind.Group, Resource: r.plural}
}

// builtIn are the resources of Kubernetes that the clusters serve.
func builtIn() []*resource {
	of := func(group, version, kind, plural string, namespaced, status bool) *resource {
		return &resource{schema.GroupVersionKind{Group: group, Version: version, Kind: kind}, plural, namespaced, status}
	}
	return []*resource{
		of("", "v1", "Namespace", "namespaces", false, true),
		of("", "v1", "Node", "nodes", false, true),
		of("", "v1", "Pod", "pods", true, true),
		of("", "v1", "Event", "events", true, false),
		of("", "v1", "Secret", "secrets", true, false),
		of("", "v1", "ConfigMap", "configmaps", true, false),
		of("", "v1", "PersistentVolumeClaim", "persistentvolumeclaims", true, true),
		of("apps", "v1", "Deployment", "deployments", true, true),
		of("apps", "v1", "DaemonSet", "daemonsets", true, true),
		of("apps", "v1", "StatefulSet", "statefulsets", true, true),
		of("apps", "v1", "ReplicaSet", "replicasets", true, true),
		of("batch", "v1", "Job", "jobs", true, true),
		of("policy", "v1", "PodDisruptionBudget", "poddisruptionbudgets", true, true),
		of("rbac.authorization.k8s.io", "v1", "ClusterRole", "clusterroles", false, false),
		of("rbac.authorization.k8s.io", "v1", "ClusterRoleBinding", "clusterrolebindings", false, false),
		of("events.k8s.io", "v1", "Event", "events", true, false),
		of("apiextensions.k8s.io", "v1", "CustomResourceDefinition", "customresourcedefinitions", false, true),
	}
}

// resourcesOf returns the resources that a CRD defines.
func resourcesOf(definition *apiextensionsv1.CustomResourceDefinition) []*resource {
	var found []*resource
	for _, version := range definition.Spec.Versions {
		if version.Served {
			found = append(found, &resource{
				kind:       schema.GroupVersionKind{Group: definition.Spec.Group, Version: version.Name, Kind: definition.Spec.Names.Kind},
				plural:     definition.Spec.Names.Plural,
				namespaced: definition.Spec.Scope == apiextensionsv1.NamespaceScoped,
				status:     version.Subresources != nil && version.Subresources.Status != nil,
			})
		}
	}
	return found
}

var allVerbs = metav1.Verbs{"create", "delete", "get", "list", "patch", "update", "watch"}

// apiResources describes the resources of a group and version.
func apiResources(all []*resource, of schema.GroupVersion) *metav1.APIResourceList {
	list := &metav1.APIResourceList{TypeMeta: metav1.TypeMeta{Kind: "APIResourceList", APIVersion: "v1"}, GroupVersion: of.String()}
	for _, r := range all {
		if r.kind.GroupVersion() != of {
			continue
		}
		described := metav1.APIResource{Name: r.plural, SingularName: strings.ToLower(r.kind.Kind), Namespaced: r.namespaced, Kind: r.kind.Kind, Verbs: allVerbs}
		list.APIResources = append(list.APIResources, described)
		if r.status {
			described.Name, described.Verbs = r.plural+"/status", metav1.Verbs{"get", "patch", "update"}
			list.APIResources = append(list.APIResources, described)
		}
	}
	return list
}

// groupsOf returns the versions of each group, in order.
func groupsOf(all []*resource) (groups []string, versions map[string][]string) {
	seen := map[schema.GroupVersion]bool{}
	versions = map[string][]string{}
	for _, r := range all {
		if gv := r.kind.GroupVersion(); !seen[gv] {
			if seen[gv] = true; versions[gv.Group] == nil {
				groups = append(groups, gv.Group)
			}
			versions[gv.Group] = append(versions[gv.Group], gv.Version)
		}
	}
	return groups, versions
}

// aggregated is the media type of the whole discovery in one answer.
const aggregated = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList"

// discover answers /api and /apis.
func (c *Cluster) discover(w http.ResponseWriter, r *http.Request, core bool) {
	groups, versions := groupsOf(c.resources)
	if strings.Contains(r.Header.Get("Accept"), "as=APIGroupDiscoveryList") {
		list := &apidiscoveryv2.APIGroupDiscoveryList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupDiscoveryList", APIVersion: "apidiscovery.k8s.io/v2"}}
		for _, group := range groups {
			if (group == "") == core {
				list.Items = append(list.Items, c.aggregate(group, versions[group]))
			}
		}
		w.Header().Set("Content-Type", aggregated)
		answer(w, http.StatusOK, list)
		return
	}
	if core {
		answer(w, http.StatusOK, &metav1.APIVersions{TypeMeta: metav1.TypeMeta{Kind: "APIVersions", APIVersion: "v1"}, Versions: versions[""]})
		return
	}
	list := &metav1.APIGroupList{TypeMeta: metav1.TypeMeta{Kind: "APIGroupList", APIVersion: "v1"}}
	for _, group := range groups {
		if group == "" {
			continue
		}
		described := metav1.APIGroup{Name: group}
		for _, version := range versions[group] {
			described.Versions = append(described.Versions, metav1.GroupVersionForDiscovery{GroupVersion: group + "/" + version, Version: version})
		}
		described.PreferredVersion = described.Versions[0]
		list.Groups = append(list.Groups, described)
	}
	answer(w, http.StatusOK, list)
}

func (c *Cluster) aggregate(group string, versions []string) apidiscoveryv2.APIGroupDiscovery {
	described := apidiscoveryv2.APIGroupDiscovery{ObjectMeta: metav1.ObjectMeta{Name: group}}
	for _, version := range versions {
		of := apidiscoveryv2.APIVersionDiscovery{Version: version, Freshness: apidiscoveryv2.DiscoveryFreshnessCurrent}
		for _, r := range c.resources {
			if r.kind.Group != group || r.kind.Version != version {
				continue
			}
			scope := apidiscoveryv2.ScopeCluster
			if r.namespaced {
				scope = apidiscoveryv2.ScopeNamespace
			}
			kind := &metav1.GroupVersionKind{Group: group, Version: version, Kind: r.kind.Kind}
			found := apidiscoveryv2.APIResourceDiscovery{
				Resource: r.plural, ResponseKind: kind, Scope: scope, SingularResource: strings.ToLower(r.kind.Kind), Verbs: allVerbs,
			}
			if r.status {
				found.Subresources = []apidiscoveryv2.APISubresourceDiscovery{{Subresource: "status", ResponseKind: kind, Verbs: []string{"get", "patch", "update"}}}
			}
			of.Resources = append(of.Resources, found)
		}
		described.Versions = append(described.Versions, of)
	}
	return described
}
