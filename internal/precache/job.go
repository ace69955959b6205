package precache

import (
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache/contract"
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
		contract.OperatorsIndexes:             strings.Join(w.Spec.OperatorsIndexes, "\n"),
		contract.OperatorsPackagesAndChannels: strings.Join(w.Spec.OperatorsPackagesAndChannels, "\n"),
		contract.ExcludePrecachePatterns:      strings.Join(w.Spec.ExcludePrecachePatterns, "\n"),
		contract.AdditionalImages:             strings.Join(w.Spec.AdditionalImages, "\n"),
		contract.PlatformImage:                w.Spec.PlatformImage,
		contract.SpaceRequired:                w.Spec.SpaceRequired,
	}
}

// hostMount is a directory of the node in the pod, below /host.
type hostMount struct {
	path     string
	kind     corev1.HostPathType
	readOnly bool
}

// precachingHost are the directories of the node that the tools to pull images need. The kubelet creates those that only OpenShift has.
var precachingHost = []hostMount{
	{"/etc/containers", corev1.HostPathDirectoryOrCreate, true},
	{"/etc/pki/ca-trust", corev1.HostPathDirectoryOrCreate, true},
	{"/etc/resolv.conf", corev1.HostPathFile, true},
	{"/lib64", corev1.HostPathDirectoryOrCreate, true},
	{"/proc", corev1.HostPathDirectory, true},
	{"/run", corev1.HostPathDirectory, false},
	{"/sys/fs/cgroup", corev1.HostPathDirectory, true},
	{"/tmp", corev1.HostPathDirectory, false},
	{"/usr/bin", corev1.HostPathDirectory, true},
	{"/usr/lib", corev1.HostPathDirectory, true},
	{"/usr/lib64", corev1.HostPathDirectoryOrCreate, true},
	{"/usr/libexec", corev1.HostPathDirectoryOrCreate, true},
	{"/usr/share/containers", corev1.HostPathDirectoryOrCreate, true},
	{"/var/lib/cni", corev1.HostPathDirectoryOrCreate, true},
	{"/var/lib/containers", corev1.HostPathDirectoryOrCreate, false},
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
	{"/sysroot", corev1.HostPathDirectoryOrCreate, false},
	{"/tmp", corev1.HostPathDirectory, false},
	{"/usr/bin", corev1.HostPathDirectory, true},
	{"/usr/lib", corev1.HostPathDirectory, true},
	{"/usr/lib64", corev1.HostPathDirectoryOrCreate, true},
	{"/usr/libexec", corev1.HostPathDirectoryOrCreate, true},
	{"/usr/local", corev1.HostPathDirectory, true},
	{"/usr/share/containers", corev1.HostPathDirectoryOrCreate, true},
	{"/var/lib", corev1.HostPathDirectory, false},
	{"/var/recovery", corev1.HostPathDirectoryOrCreate, false},
	{"/var/tmp", corev1.HostPathDirectory, false},
}

func (w Work) precachingPod(config string) corev1.PodSpec {
	pod := w.pod(accountPrecaching, precachingHost)
	pod.PriorityClassName = "system-cluster-critical"
	container := &pod.Containers[0]
	container.Name = "pre-cache-container"
	container.Command = []string{contract.PrecacheProgram}
	// TALM's scripts read this variable.
	container.Env = append(container.Env, corev1.EnvVar{Name: "config_volume_path", Value: "/tmp/precache/config"})
	container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: "config-volume", MountPath: contract.ConfigDirectory, ReadOnly: true})
	pod.Volumes = append(pod.Volumes, corev1.Volume{Name: "config-volume", VolumeSource: corev1.VolumeSource{
		ConfigMap: &corev1.ConfigMapVolumeSource{LocalObjectReference: corev1.LocalObjectReference{Name: config}},
	}})
	return pod
}

func (w Work) backupPod() corev1.PodSpec {
	pod := w.pod(accountBackup, backupHost)
	container := &pod.Containers[0]
	container.Name, container.Args, container.TTY = "container-image", []string{contract.BackupArgument}, true
	// etcd runs on these nodes. Without such a label the program says that its node has no etcd.
	pod.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{}}
	for _, role := range []string{"node-role.kubernetes.io/control-plane", "node-role.kubernetes.io/master"} {
		pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Key: role, Operator: corev1.TolerationOpExists, Effect: corev1.TaintEffectNoSchedule})
		pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution = append(pod.Affinity.NodeAffinity.PreferredDuringSchedulingIgnoredDuringExecution, corev1.PreferredSchedulingTerm{
			Weight: 100, Preference: corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{{Key: role, Operator: corev1.NodeSelectorOpExists}}},
		})
	}
	return pod
}

// pod is a privileged pod with directories of its node below /host.
func (w Work) pod(account string, mounts []hostMount) corev1.PodSpec {
	container := corev1.Container{
		Image:           w.Image,
		SecurityContext: &corev1.SecurityContext{Privileged: new(true), RunAsUser: new(int64(0))},
		Env: []corev1.EnvVar{
			fromField(contract.NodeName, "spec.nodeName"), fromField(contract.NodeIP, "status.hostIP"), fromField(contract.PodUID, "metadata.uid"),
		},
		VolumeMounts: []corev1.VolumeMount{{Name: "host", MountPath: contract.HostDirectory}},
	}
	volumes := []corev1.Volume{{Name: "host", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
	for _, mount := range mounts {
		name := "host-" + strings.NewReplacer("/", "-", ".", "-").Replace(strings.Trim(mount.path, "/"))
		container.VolumeMounts = append(container.VolumeMounts, corev1.VolumeMount{Name: name, MountPath: contract.HostDirectory + mount.path, ReadOnly: mount.readOnly})
		volumes = append(volumes, corev1.Volume{Name: name, VolumeSource: corev1.VolumeSource{
			HostPath: &corev1.HostPathVolumeSource{Path: mount.path, Type: &mount.kind},
		}})
	}
	return corev1.PodSpec{
		Containers: []corev1.Container{container}, Volumes: volumes, RestartPolicy: corev1.RestartPolicyNever, ServiceAccountName: account,
	}
}

func fromField(name, path string) corev1.EnvVar {
	return corev1.EnvVar{Name: name, ValueFrom: &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: path}}}
}
