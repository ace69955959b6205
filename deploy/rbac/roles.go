package rbac

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	"k8s.io/apimachinery/pkg/util/yaml"
)

// Role is a role of the manifests. Several rules of it may have the same verb.
type Role struct {
	// File is the manifest, without its directory.
	File string
	Name string
	// Description is the annotation kubernetes.io/description.
	Description string
	Rules       []rbacv1.PolicyRule
	// Cluster are the accounts to which a ClusterRoleBinding gives the role, and Namespaced those to which a RoleBinding gives it, by its namespace. All are
	// ServiceAccounts of drydock-system.
	Cluster    []string
	Namespaced map[string][]string
}

// document has the fields of all kinds in the manifests.
type document struct {
	Kind     string `json:"kind"`
	Metadata struct {
		Name        string            `json:"name"`
		Namespace   string            `json:"namespace"`
		Annotations map[string]string `json:"annotations"`
	} `json:"metadata"`
	Rules    []rbacv1.PolicyRule `json:"rules"`
	RoleRef  rbacv1.RoleRef      `json:"roleRef"`
	Subjects []rbacv1.Subject    `json:"subjects"`
}

// Roles returns the roles of all manifests, with their bindings, in the order of the files. A binding of a role that no manifest has, such as one of
// OpenShift, is left out.
func Roles() ([]Role, error) {
	files, err := fs.Glob(Files, "*.yaml")
	if err != nil {
		return nil, err
	}
	var roles []Role
	var bindings []document
	for _, file := range files {
		documents, err := read(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", file, err)
		}
		for _, d := range documents {
			switch d.Kind {
			case "ClusterRole", "Role":
				roles = append(roles, Role{
					File: file, Name: d.Metadata.Name, Description: d.Metadata.Annotations["kubernetes.io/description"],
					Rules: d.Rules, Namespaced: map[string][]string{},
				})
				if d.Kind == "Role" { // named like a ClusterRole, so it is known by its namespace, too
					roles[len(roles)-1].Name = d.Metadata.Namespace + "/" + d.Metadata.Name
				}
			case "ClusterRoleBinding", "RoleBinding":
				bindings = append(bindings, d)
			}
		}
	}
	for _, binding := range bindings {
		name := binding.RoleRef.Name
		if binding.RoleRef.Kind == "Role" {
			name = binding.Metadata.Namespace + "/" + name
		}
		at := slices.IndexFunc(roles, func(role Role) bool { return role.Name == name })
		if at < 0 {
			continue
		}
		for _, subject := range binding.Subjects {
			if binding.Kind == "ClusterRoleBinding" {
				roles[at].Cluster = append(roles[at].Cluster, subject.Name)
			} else {
				roles[at].Namespaced[binding.Metadata.Namespace] = append(roles[at].Namespaced[binding.Metadata.Namespace], subject.Name)
			}
		}
	}
	return roles, nil
}

func read(file string) ([]document, error) {
	opened, err := Files.Open(file)
	if err != nil {
		return nil, err
	}
	defer opened.Close()
	var documents []document
	for decoder := yaml.NewYAMLOrJSONDecoder(opened, 4096); ; {
		var d document
		err := decoder.Decode(&d)
		if errors.Is(err, io.EOF) {
			return documents, nil
		}
		if err != nil {
			return nil, err
		}
		documents = append(documents, d)
	}
}

// Resources are the resources of a rule as kubectl names them: RESOURCE.GROUP/SUBRESOURCE, without the core group.
func Resources(rule rbacv1.PolicyRule) []string {
	var resources []string
	for _, resource := range rule.Resources {
		for _, group := range rule.APIGroups {
			resources = append(resources, Resource(group, resource))
		}
	}
	return resources
}

// Resource names a resource as kubectl does.
func Resource(group, resource string) string {
	if group == corev1.GroupName {
		return resource
	}
	resource, subresource, sub := strings.Cut(resource, "/")
	resource += "." + group
	if sub {
		resource += "/" + subresource
	}
	return resource
}
