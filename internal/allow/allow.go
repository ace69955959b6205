// Package allow holds the allow-lists of the clusters file: what the requests of users may make a worker do. Every function is pure.
package allow

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"drydock.dev/drydock/internal/precache"
)

// List is what the administrator of a worker allows. The zero value allows nothing.
type List struct {
	// Jobs on nodes. A Job needs one entry that allows all of it.
	Jobs []Job `json:"jobs,omitempty"`
	// PreparationImages of the privileged Jobs that prepare clusters, in addition to those of the worker's flags.
	PreparationImages []string `json:"preparationImages,omitempty"`
	// HealthCheckHosts are the hosts to which health checks may send requests: host, host:port or host:* for any port; *.example.com for all below.
	HealthCheckHosts Hosts `json:"healthCheckHosts,omitempty"`
	// Webhooks are receivers of notifications. The first that has the address of a receiver counts.
	Webhooks []Webhook `json:"webhooks,omitempty"`
	// Email is how notifications are sent as e-mails. Absent: none are sent.
	Email *Email `json:"email,omitempty"`
}

// Namespaces of Jobs on nodes. deploy/rbac creates both.
const (
	// NamespaceJobs has the pod-security level "baseline".
	NamespaceJobs = "drydock-jobs"
	// NamespacePrivilegedJobs has the level "privileged".
	NamespacePrivilegedJobs = "drydock-privileged-jobs"
)

// NamespaceSystem has Drydock's own accounts.
const NamespaceSystem = "drydock-system"

// reserved are the namespaces in which no Job of a user runs: those with accounts of Drydock, and of its privileged Jobs.
var reserved = []string{NamespaceSystem, precache.NamespacePrecaching, precache.NamespaceBackup}

// Job is what a Job on a node may use.
type Job struct {
	// Images, each a name, or the beginning of names with an asterisk: registry.example.com/firmware/*.
	Images []string `json:"images"`
	// Namespaces of the Job; also with an asterisk at the end. Absent: drydock-jobs, or drydock-privileged-jobs if the entry allows what the
	// pod-security level "baseline" forbids.
	Namespaces []string `json:"namespaces,omitempty"`
	// ServiceAccounts of its pods. The account "default" without a token is always allowed.
	ServiceAccounts []string `json:"serviceAccounts,omitempty"`
	// Secrets that its pods may mount or have in their environment.
	Secrets []string `json:"secrets,omitempty"`
	// Privileged containers. They can do anything on the node, with or without the other fields.
	Privileged bool `json:"privileged,omitempty"`
	// HostNamespaces of the node that the pods share.
	HostNamespaces []HostNamespace `json:"hostNamespaces,omitempty"`
	// HostPaths of the node that the pods may mount, with all below them.
	HostPaths []string `json:"hostPaths,omitempty"`
	// Capabilities that containers may add.
	Capabilities []string `json:"capabilities,omitempty"`
}

// HostNamespace is a Linux namespace of the node.
type HostNamespace string

// The namespaces of the node that a pod can share.
const (
	HostNetwork HostNamespace = "Network"
	HostPID     HostNamespace = "PID"
	HostIPC     HostNamespace = "IPC"
)

// beyondBaseline reports whether the entry allows what the pod-security level "baseline" forbids.
func (j Job) beyondBaseline() bool {
	return j.Privileged || len(j.HostNamespaces)+len(j.HostPaths)+len(j.Capabilities) > 0
}

func (j Job) namespaces() []string {
	switch {
	case len(j.Namespaces) > 0:
		return j.Namespaces
	case j.beyondBaseline():
		return []string{NamespacePrivilegedJobs}
	}
	return []string{NamespaceJobs}
}

// JobsIn reports whether Jobs on nodes may run in a namespace, at all.
func (l List) JobsIn(namespace string) bool {
	if slices.Contains(reserved, namespace) {
		return false
	}
	return namespace == NamespaceJobs || namespace == NamespacePrivilegedJobs ||
		slices.ContainsFunc(l.Jobs, func(entry Job) bool { return matches(entry.namespaces(), namespace) })
}

// matches reports whether a name is one of the patterns. An asterisk at the end of a pattern stands for any text.
func matches(patterns []string, name string) bool {
	return slices.ContainsFunc(patterns, func(pattern string) bool {
		if prefix, open := strings.CutSuffix(pattern, "*"); open {
			return strings.HasPrefix(name, prefix)
		}
		return name == pattern
	})
}

// CheckPreparationImage checks the image of a Job that prepares a cluster.
func (l List) CheckPreparationImage(at *field.Path, image string) *field.Error {
	if matches(l.PreparationImages, image) {
		return nil
	}
	return field.Forbidden(at, fmt.Sprintf("image %s: the Job is privileged, and neither allow.preparationImages of the worker's clusters file nor "+
		"its flags --precache-image and --backup-image allow this image", image))
}

// Check returns the problems of a list; at is the path of its field.
func (l List) Check(at *field.Path) field.ErrorList {
	invalid := checkImages(at.Child("preparationImages"), l.PreparationImages)
	for i, entry := range l.Jobs {
		invalid = append(invalid, entry.check(at.Child("jobs").Index(i))...)
	}
	invalid = append(invalid, l.HealthCheckHosts.Check(at.Child("healthCheckHosts"))...)
	for i, webhook := range l.Webhooks {
		invalid = append(invalid, webhook.check(at.Child("webhooks").Index(i))...)
	}
	if l.Email != nil {
		invalid = append(invalid, l.Email.check(at.Child("email"))...)
	}
	return invalid
}

func (j Job) check(at *field.Path) field.ErrorList {
	invalid := checkImages(at.Child("images"), j.Images)
	if len(j.Images) == 0 {
		invalid = append(invalid, field.Required(at.Child("images"), `the images of the containers; "*" for any`))
	}
	for i, namespace := range j.Namespaces {
		at := at.Child("namespaces").Index(i)
		switch {
		case slices.Contains(reserved, namespace):
			invalid = append(invalid, field.Forbidden(at, "Drydock's own accounts are in "+namespace))
		case j.beyondBaseline() && namespace == NamespaceJobs:
			invalid = append(invalid, field.Forbidden(at, "its pod-security level would refuse the pods: name "+NamespacePrivilegedJobs))
		case strings.Contains(strings.TrimSuffix(namespace, "*"), "*"):
			invalid = append(invalid, field.Invalid(at, namespace, "an asterisk may only be at the end"))
		}
	}
	for i, namespace := range j.HostNamespaces {
		if known := []HostNamespace{HostNetwork, HostPID, HostIPC}; !slices.Contains(known, namespace) {
			invalid = append(invalid, field.NotSupported(at.Child("hostNamespaces").Index(i), namespace, known))
		}
	}
	for i, host := range j.HostPaths {
		if !path.IsAbs(host) || path.Clean(host) != host {
			invalid = append(invalid, field.Invalid(at.Child("hostPaths").Index(i), host, "must be an absolute path, without .. and without / at the end"))
		}
	}
	return invalid
}

// checkImages: an asterisk ends at a boundary of a name. registry.example.com* would allow registry.example.com.elsewhere.org, too.
func checkImages(at *field.Path, images []string) field.ErrorList {
	var invalid field.ErrorList
	for i, image := range images {
		prefix, open := strings.CutSuffix(image, "*")
		if image == "" || strings.Contains(prefix, "*") || open && prefix != "" && !strings.ContainsAny(prefix[len(prefix)-1:], "/:@") {
			invalid = append(invalid, field.Invalid(at.Index(i), image, "must be the name of an image; an asterisk may be at the end, after / or : or @"))
		}
	}
	return invalid
}
