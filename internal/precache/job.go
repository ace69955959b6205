package precache

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Kind is precaching or backup.
type Kind string

// The kinds.
const (
	Precaching Kind = "precaching"
	Backup     Kind = "backup"
)

// Work is the content of a preparation. It is the same on all clusters.
type Work struct {
	Kind Kind `json:"kind"`
	// Image of the Job.
	Image string `json:"image"`
	// Spec is the content to pull; nil for a backup.
	Spec *ranv1.PrecachingSpec `json:"spec,omitempty"`
	// Timeout of the Job.
	Timeout time.Duration `json:"timeout"`
}

// Namespace and service account of the Jobs, as in TALM. deploy/rbac/preparation.yaml creates both.
const (
	NamespacePrecaching = "openshift-talo-pre-cache"
	NamespaceBackup     = "openshift-talo-backup"
	accountPrecaching   = "pre-cache-agent"
	accountBackup       = "backup-agent"
)

// Namespace of the Jobs.
func (k Kind) Namespace() string {
	if k == Backup {
		return NamespaceBackup
	}
	return NamespacePrecaching
}

// JobName is how the names of the Jobs begin.
func (k Kind) JobName() string {
	if k == Backup {
		return "backup-agent"
	}
	return "pre-cache"
}

// jobTTL is how long a failed Job is kept, so that its log can be read.
const jobTTL = 24 * time.Hour

// managementWorkload puts the pods on the management cores of a partitioned node.
const managementWorkload = "target.workload.openshift.io/management"

// Job returns the Job of that name. Its configuration is in the ConfigMap of the same name. It ends and expires by itself.
func (w Work) Job(name string) *batchv1.Job {
	pod := w.precachingPod(name)
	if w.Kind == Backup {
		pod = w.backupPod()
	}
	annotations := map[string]string{managementWorkload: `{"effect":"PreferredDuringScheduling"}`}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Namespace: w.Kind.Namespace(), Name: name, Annotations: annotations},
		Spec: batchv1.JobSpec{
			ActiveDeadlineSeconds:   new(int64(w.Timeout / time.Second)),
			BackoffLimit:            new(int32(0)),
			TTLSecondsAfterFinished: new(int32(jobTTL / time.Second)),
			Template:                corev1.PodTemplateSpec{ObjectMeta: metav1.ObjectMeta{Annotations: annotations}, Spec: pod},
		},
	}
}

// Config is the data of the ConfigMap that configures the Job; nil: there is none.
func (w Work) Config() map[string]string {
	if w.Spec == nil {
		return nil
	}
	return map[string]string{
		"operators.indexes":             strings.Join(w.Spec.OperatorsIndexes, "\n"),
		"operators.packagesAndChannels": strings.Join(w.Spec.OperatorsPackagesAndChannels, "\n"),
		"excludePrecachePatterns":       strings.Join(w.Spec.ExcludePrecachePatterns, "\n"),
		"additionalImages":              strings.Join(w.Spec.AdditionalImages, "\n"),
		"platform.image":                w.Spec.PlatformImage,
		"spaceRequired":                 w.Spec.SpaceRequired,
	}
}

// hostMount is a directory of the node in the pod, below /host.
type hostMount struct {
	path     string
	kind     corev1.HostPathType
	readOnly bool
}

// precachingHost are the directories of the node that the tools to pull images need.
var precachingHost = []hostMount{
	{"/etc/containers", corev1.HostPathDirectory, true},
	{"/etc/pki/ca-trust", corev1.HostPathDirectory, true},
	{"/etc/resolv.conf", corev1.HostPathFile, true},
	{"/lib64", corev1.HostPathDirectory, true},
	{"/proc", corev1.HostPathDirectory, true},
	{"/run", corev1.HostPathDirectory, false},
	{"/sys/fs/cgroup", corev1.HostPathDirectory, true},
	{"/tmp", corev1.HostPathDirectory, false},
	{"/usr/bin", corev1.HostPathDirectory, true},
	{"/usr/lib", corev1.HostPathDirectory, true},
	{"/usr/lib64", corev1.HostPathDirectory, true},
	{"/usr/libexec", corev1.HostPathDirectory, true},
	{"/usr/share/containers", corev1.HostPathDirectory, true},
	{"/var/lib/cni", corev1.HostPathDirectory, true},
	{"/var/lib/containers", corev1.HostPathDirectory, false},
	{"/var/lib/kubelet", corev1.HostPathDirectory, true},
	{"/var/tmp", corev1.HostPathDirectory, false},
}

// backupHost are the directories of the node that a backup needs.
var backupHost = []hostMount{
	{"/boot", corev1.HostPathDirectory, true},
	{"/dev/log", corev1.HostPathSocket, false},
	{"/etc", corev1.HostPathDirectory, false},
	{"/proc", corev1.HostPathDirectory, true},
	{"/run", corev1.HostPathDirectory, false},
	{"/sys/fs/cgroup", corev1.HostPathDirectory, true},
	{"/sysroot", corev1.HostPathDirectory, false},
	{"/tmp", corev1.HostPathDirectory, false},
	{"/usr/bin", corev1.HostPathDirectory, true},
	{"/usr/lib", corev1.HostPathDirectory, true},
	{"/usr/lib64", corev1.HostPathDirectory, true},
	{"/usr/libexec", corev1.HostPathDirectory, true},
	{"/usr/local", corev1.HostPathDirectory, true},
	{"/usr/share/containers", corev1.HostPathDirectory, true},
	{"/var/lib", corev1.HostPathDirectory, false},
	{"/var/recovery", corev1.HostPathDirectoryOrCreate, false},
	{"/var/tmp", corev1.HostPathDirectory, false},
}

func (w Work) precachingPod(config string) corev1.PodSpec {
	pod := w.pod(accountPrecaching, precachingHost)
	pod.PriorityClassName = "system-cluster-critical"
	container := &pod.Containers[0]
	container.Name = "pre-cache-container"
	container.Command, container.Args = []string{"/bin/bash", "-c"}, []string{"/opt/precache/precache.sh"}
	container.Env = []corev1.EnvVar{
		{Name: "config_volume_path", Value: "/tmp/precache/config"},
		{Name: "NODE_NAME", ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "spec.nodeName"}}},
	}
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "config-volume", MountPath: "/etc/config", ReadOnly: true})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "config-volume", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}},
	}})
	return pod
}

func (w Work) backupPod() corev1.PodSpec {
	pod := w.pod(accountBackup, backupHost)
	container := &pod.Containers[0]
	container.Name, container.Args, container.TTY = "container-image", []string{"launchBackup"}, true
	return pod
}

// pod is a privileged pod with directories of its node below /host.
func (w Work) pod(account string, mounts []hostMount) corev1.PodSpec {
	container := corev1.Container{
		Image:           w.Image,
		SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
		VolumeMounts:    []corev1.VolumeMount{{Name: "host", MountPath: "/host"}},
	}
	volumes := []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for _, mount := range mounts {
		name := "host-" + strings.NewReplacer("/", "-", ".", "-").Replace(strings.Trim(mount.path, "/"))
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: "/host" + mount.path, ReadOnly: mount.readOnly})
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: mount.path, Type: &mount.kind},
		}})
	}
	return corev1.PodSpec{
		Containers: []corev1.Container{container}, Volumes: volumes, RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: account,
	}
}
