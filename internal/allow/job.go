package allow

import (
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// CheckJob returns what the list does not allow a Job on a node; at is the path of the Job's field. Several entries are not combined, because a
// privilege is given to an image: the result is that of the entry that comes nearest.
func (l List) CheckJob(at *field.Path, job maintenancev1.JobAction) field.ErrorList {
	if slices.Contains(reserved, job.Namespace) {
		return field.ErrorList{field.Forbidden(at.Child("namespace"), "Drydock's own accounts are in "+job.Namespace+": name "+NamespaceJobs+", or another one that the worker's clusters file allows")}
	}
	if len(l.Jobs) == 0 {
		return field.ErrorList{field.Forbidden(at, "the worker's clusters file allows no Job: add its image to allow.jobs")}
	}
	var nearest field.ErrorList
	for i, entry := range l.Jobs {
		found := entry.refuses(fmt.Sprintf("allow.jobs[%d] of the worker's clusters file", i), at, job)
		if len(found) == 0 {
			return nil
		}
		if nearest == nil || len(found) < len(nearest) {
			nearest = found
		}
	}
	return nearest
}

// refusal collects what one entry does not allow.
type refusal struct {
	entry   Job
	name    string
	invalid field.ErrorList
}

// unless adds an error if the entry does not allow a field.
func (r *refusal) unless(allowed bool, at *field.Path, what string) {
	if !allowed {
		r.invalid = append(r.invalid, field.Forbidden(at, what+": not allowed by "+r.name))
	}
}

func (j Job) refuses(name string, at *field.Path, job maintenancev1.JobAction) field.ErrorList {
	r := &refusal{entry: j, name: name}
	r.unless(matches(j.namespaces(), job.Namespace), at.Child("namespace"), "namespace "+job.Namespace)
	template := job.Template.Spec.Template
	at = at.Child("template", "spec", "template")
	r.annotations(at.Child("metadata", "annotations"), template.Annotations)
	r.pod(at.Child("spec"), template.Spec)
	return r.invalid
}

// annotations: the former way to choose an AppArmor profile.
func (r *refusal) annotations(at *field.Path, annotations map[string]string) {
	for _, key := range slices.Sorted(maps.Keys(annotations)) {
		if strings.HasPrefix(key, corev1.DeprecatedAppArmorBetaContainerAnnotationKeyPrefix) && annotations[key] == corev1.DeprecatedAppArmorBetaProfileNameUnconfined {
			r.unless(r.entry.Privileged, at.Key(key), "AppArmor profile "+annotations[key])
		}
	}
}

func (r *refusal) pod(at *field.Path, pod corev1.PodSpec) {
	r.account(at, pod)
	for _, shared := range []struct {
		is    bool
		field string
		host  HostNamespace
	}{{pod.HostNetwork, "hostNetwork", HostNetwork}, {pod.HostPID, "hostPID", HostPID}, {pod.HostIPC, "hostIPC", HostIPC}} {
		if shared.is {
			r.unless(slices.Contains(r.entry.HostNamespaces, shared.host), at.Child(shared.field), "the "+string(shared.host)+" namespace of the node")
		}
	}
	for i, volume := range pod.Volumes {
		r.volume(at.Child("volumes").Index(i), volume.VolumeSource, pod)
	}
	if security := pod.SecurityContext; security != nil {
		at := at.Child("securityContext")
		r.profiles(at, security.SeccompProfile, security.AppArmorProfile, security.SELinuxOptions, security.WindowsOptions)
		if len(security.Sysctls) > 0 {
			r.unless(r.entry.Privileged, at.Child("sysctls"), "kernel parameters")
		}
	}
	for i, container := range pod.InitContainers {
		r.container(at.Child("initContainers").Index(i), container)
	}
	for i, container := range pod.Containers {
		r.container(at.Child("containers").Index(i), container)
	}
}

// account checks the ServiceAccount. Without a token the default account of the namespace has no rights.
func (r *refusal) account(at *field.Path, pod corev1.PodSpec) {
	for _, account := range []struct{ field, name string }{{"serviceAccountName", pod.ServiceAccountName}, {"serviceAccount", pod.DeprecatedServiceAccount}} {
		if account.name != "" && account.name != "default" {
			r.unless(slices.Contains(r.entry.ServiceAccounts, account.name), at.Child(account.field), "service account "+account.name)
		}
	}
	if pod.AutomountServiceAccountToken != nil && *pod.AutomountServiceAccountToken {
		r.unless(r.allowsToken(pod), at.Child("automountServiceAccountToken"), "the token of a service account that is not named")
	}
}

// allowsToken reports whether the pod may have a token of its ServiceAccount.
func (r *refusal) allowsToken(pod corev1.PodSpec) bool {
	return slices.Contains(r.entry.ServiceAccounts, pod.ServiceAccountName)
}

func (r *refusal) secret(at *field.Path, name string) {
	r.unless(slices.Contains(r.entry.Secrets, name), at, "Secret "+name)
}

// volume: the kinds that it does not name reach storage by an address and a Secret of the user's choice.
func (r *refusal) volume(at *field.Path, volume corev1.VolumeSource, pod corev1.PodSpec) {
	if host := volume.HostPath; host != nil {
		r.unless(within(r.entry.HostPaths, host.Path), at.Child("hostPath", "path"), "path "+host.Path+" of the node")
	}
	if secret := volume.Secret; secret != nil {
		r.secret(at.Child("secret", "secretName"), secret.SecretName)
	}
	if projected := volume.Projected; projected != nil {
		for i, source := range projected.Sources {
			at := at.Child("projected", "sources").Index(i)
			if source.Secret != nil {
				r.secret(at.Child("secret", "name"), source.Secret.Name)
			}
			if source.ServiceAccountToken != nil {
				r.unless(r.allowsToken(pod), at.Child("serviceAccountToken"), "the token of a service account that is not named")
			}
		}
	}
	if image := volume.Image; image != nil {
		r.unless(matches(r.entry.Images, image.Reference), at.Child("image", "reference"), "image "+image.Reference)
	}
	volume.HostPath, volume.Secret, volume.Projected, volume.Image = nil, nil, nil, nil
	volume.EmptyDir, volume.ConfigMap, volume.DownwardAPI, volume.PersistentVolumeClaim, volume.Ephemeral = nil, nil, nil, nil, nil
	r.unless(volume == corev1.VolumeSource{}, at, "this kind of volume (use a persistentVolumeClaim)")
}

// within reports whether a path of the node is one of these directories, or below one. The API server accepts paths that are not clean.
func within(directories []string, host string) bool {
	if slices.Contains(strings.Split(host, "/"), "..") {
		return false
	}
	host = path.Clean(host)
	return slices.ContainsFunc(directories, func(directory string) bool {
		return host == directory || strings.HasPrefix(host, strings.TrimSuffix(directory, "/")+"/")
	})
}

func (r *refusal) container(at *field.Path, container corev1.Container) {
	r.unless(matches(r.entry.Images, container.Image), at.Child("image"), "image "+container.Image)
	for i, port := range container.Ports {
		if port.HostPort != 0 {
			r.unless(slices.Contains(r.entry.HostNamespaces, HostNetwork), at.Child("ports").Index(i).Child("hostPort"), "a port of the node")
		}
	}
	for i, source := range container.EnvFrom {
		if source.SecretRef != nil {
			r.secret(at.Child("envFrom").Index(i).Child("secretRef", "name"), source.SecretRef.Name)
		}
	}
	for i, variable := range container.Env {
		if variable.ValueFrom != nil && variable.ValueFrom.SecretKeyRef != nil {
			r.secret(at.Child("env").Index(i).Child("valueFrom", "secretKeyRef", "name"), variable.ValueFrom.SecretKeyRef.Name)
		}
	}
	r.requests(at, container)
	if security := container.SecurityContext; security != nil {
		r.security(at.Child("securityContext"), *security)
	}
}

// requests: the kubelet sends those of probes and hooks in the network of the node, to any host that they name.
func (r *refusal) requests(at *field.Path, container corev1.Container) {
	for _, probe := range []struct {
		name string
		*corev1.Probe
	}{{"livenessProbe", container.LivenessProbe}, {"readinessProbe", container.ReadinessProbe}, {"startupProbe", container.StartupProbe}} {
		if probe.Probe != nil {
			r.request(at.Child(probe.name), probe.HTTPGet, probe.TCPSocket)
		}
	}
	if container.Lifecycle == nil {
		return
	}
	for _, hook := range []struct {
		name string
		*corev1.LifecycleHandler
	}{{"postStart", container.Lifecycle.PostStart}, {"preStop", container.Lifecycle.PreStop}} {
		if hook.LifecycleHandler != nil {
			r.request(at.Child("lifecycle", hook.name), hook.HTTPGet, hook.TCPSocket)
		}
	}
}

func (r *refusal) request(at *field.Path, get *corev1.HTTPGetAction, connect *corev1.TCPSocketAction) {
	network := slices.Contains(r.entry.HostNamespaces, HostNetwork)
	if get != nil && get.Host != "" {
		r.unless(network, at.Child("httpGet", "host"), "a request from the node to "+get.Host)
	}
	if connect != nil && connect.Host != "" {
		r.unless(network, at.Child("tcpSocket", "host"), "a connection from the node to "+connect.Host)
	}
}

func (r *refusal) security(at *field.Path, security corev1.SecurityContext) {
	if security.Privileged != nil && *security.Privileged {
		r.unless(r.entry.Privileged, at.Child("privileged"), "a privileged container")
	}
	if security.Capabilities != nil {
		for i, capability := range security.Capabilities.Add {
			r.unless(slices.Contains(r.entry.Capabilities, string(capability)), at.Child("capabilities", "add").Index(i), "capability "+string(capability))
		}
	}
	if security.ProcMount != nil && *security.ProcMount != corev1.DefaultProcMount {
		r.unless(r.entry.Privileged, at.Child("procMount"), "procMount "+string(*security.ProcMount))
	}
	r.profiles(at, security.SeccompProfile, security.AppArmorProfile, security.SELinuxOptions, security.WindowsOptions)
}

// profiles: only a privileged Job may loosen the confinement of its containers.
func (r *refusal) profiles(at *field.Path, seccomp *corev1.SeccompProfile, appArmor *corev1.AppArmorProfile, selinux *corev1.SELinuxOptions, windows *corev1.WindowsSecurityContextOptions) {
	if seccomp != nil && seccomp.Type == corev1.SeccompProfileTypeUnconfined {
		r.unless(r.entry.Privileged, at.Child("seccompProfile", "type"), "seccomp profile "+string(seccomp.Type))
	}
	if appArmor != nil && appArmor.Type == corev1.AppArmorProfileTypeUnconfined {
		r.unless(r.entry.Privileged, at.Child("appArmorProfile", "type"), "AppArmor profile "+string(appArmor.Type))
	}
	if selinux != nil {
		r.unless(r.entry.Privileged, at.Child("seLinuxOptions"), "SELinux options")
	}
	if windows != nil && windows.HostProcess != nil && *windows.HostProcess {
		r.unless(r.entry.Privileged, at.Child("windowsOptions", "hostProcess"), "a process of the host")
	}
}
