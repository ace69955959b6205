package allow_test

import (
	"testing"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/allow"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

const image = "registry.example.com/firmware/nic:2.1"

// jobWith returns a Job in a namespace, with one container and these fields of its pod.
func jobWith(t *testing.T, namespace, pod string) maintenancev1.JobAction {
	t.Helper()
	job := maintenancev1.JobAction{Namespace: namespace}
	spec := &job.Template.Spec.Template.Spec
	require.NoError(t, yaml.UnmarshalStrict([]byte(pod), spec))
	if len(spec.Containers) == 0 {
		spec.Containers = []corev1.Container{{Name: "work"}}
	}
	for i := range spec.Containers {
		if spec.Containers[i].Image == "" {
			spec.Containers[i].Image = image
		}
	}
	return job
}

func refused(list allow.List, job maintenancev1.JobAction) []string {
	var found []string
	for _, err := range list.CheckJob(field.NewPath("spec", "action", "job"), job) {
		found = append(found, err.Error())
	}
	return found
}

const inPod = "spec.action.job.template.spec.template.spec."

// privileges are what a pod may not have unless an entry of the list allows it.
var privileges = []struct {
	name, pod string
	// path of the refused field in the pod.
	path  string
	entry allow.Job
}{
	{"the PID namespace of the node", "hostPID: true", "hostPID", allow.Job{HostNamespaces: []allow.HostNamespace{allow.HostPID}}},
	{"the network of the node", "hostNetwork: true", "hostNetwork", allow.Job{HostNamespaces: []allow.HostNamespace{allow.HostNetwork}}},
	{"the IPC namespace of the node", "hostIPC: true", "hostIPC", allow.Job{HostNamespaces: []allow.HostNamespace{allow.HostIPC}}},
	{"a port of the node", "containers: [{name: work, ports: [{containerPort: 80, hostPort: 80}]}]", "containers[0].ports[0].hostPort", allow.Job{HostNamespaces: []allow.HostNamespace{allow.HostNetwork}}},
	{"a probe of another host", "containers: [{name: work, livenessProbe: {httpGet: {host: 169.254.169.254, port: 80}}}]", "containers[0].livenessProbe.httpGet.host", allow.Job{HostNamespaces: []allow.HostNamespace{allow.HostNetwork}}},
	{"a hook that connects to another host", "containers: [{name: work, lifecycle: {postStart: {tcpSocket: {host: 10.0.0.1, port: 80}}}}]", "containers[0].lifecycle.postStart.tcpSocket.host", allow.Job{HostNamespaces: []allow.HostNamespace{allow.HostNetwork}}},
	{"a privileged container", "containers: [{name: work, securityContext: {privileged: true}}]", "containers[0].securityContext.privileged", allow.Job{Privileged: true}},
	{"a privileged init container", "initContainers: [{name: i, image: registry.example.com/firmware/i, securityContext: {privileged: true}}]", "initContainers[0].securityContext.privileged", allow.Job{Privileged: true}},
	{"a capability", "containers: [{name: work, securityContext: {capabilities: {add: [SYS_ADMIN]}}}]", "containers[0].securityContext.capabilities.add[0]", allow.Job{Capabilities: []string{"SYS_ADMIN"}}},
	{"a directory of the node", "volumes: [{name: v, hostPath: {path: /dev/nic/}}]", "volumes[0].hostPath.path", allow.Job{HostPaths: []string{"/dev"}}},
	{"a service account", "serviceAccountName: flash", "serviceAccountName", allow.Job{ServiceAccounts: []string{"flash"}}},
	{"a service account in the former field", "serviceAccount: flash", "serviceAccount", allow.Job{ServiceAccounts: []string{"flash"}}},
	{"a mounted Secret", "volumes: [{name: v, secret: {secretName: key}}]", "volumes[0].secret.secretName", allow.Job{Secrets: []string{"key"}}},
	{"a projected Secret", "volumes: [{name: v, projected: {sources: [{secret: {name: key}}]}}]", "volumes[0].projected.sources[0].secret.name", allow.Job{Secrets: []string{"key"}}},
	{"a Secret in the environment", "containers: [{name: work, env: [{name: E, valueFrom: {secretKeyRef: {name: key, key: k}}}]}]", "containers[0].env[0].valueFrom.secretKeyRef.name", allow.Job{Secrets: []string{"key"}}},
	{"all of a Secret in the environment", "containers: [{name: work, envFrom: [{secretRef: {name: key}}]}]", "containers[0].envFrom[0].secretRef.name", allow.Job{Secrets: []string{"key"}}},
	{"the /proc of the node", "containers: [{name: work, securityContext: {procMount: Unmasked}}]", "containers[0].securityContext.procMount", allow.Job{Privileged: true}},
	{"no seccomp profile", "securityContext: {seccompProfile: {type: Unconfined}}", "securityContext.seccompProfile.type", allow.Job{Privileged: true}},
	{"no AppArmor profile", "securityContext: {appArmorProfile: {type: Unconfined}}", "securityContext.appArmorProfile.type", allow.Job{Privileged: true}},
	{"SELinux options", "containers: [{name: work, securityContext: {seLinuxOptions: {type: spc_t}}}]", "containers[0].securityContext.seLinuxOptions", allow.Job{Privileged: true}},
	{"a process of a Windows host", "securityContext: {windowsOptions: {hostProcess: true}}", "securityContext.windowsOptions.hostProcess", allow.Job{Privileged: true}},
	{"kernel parameters", "securityContext: {sysctls: [{name: kernel.msgmax, value: '1'}]}", "securityContext.sysctls", allow.Job{Privileged: true}},
}

func TestAPrivilegeNeedsAnEntryOfTheList(t *testing.T) {
	for _, tt := range privileges {
		t.Run(tt.name, func(t *testing.T) {
			plain := allow.Job{Images: []string{"registry.example.com/firmware/*"}, Namespaces: []string{"ops"}}
			job := jobWith(t, "ops", tt.pod)
			found := refused(allow.List{Jobs: []allow.Job{plain}}, job)
			require.Len(t, found, 1)
			require.Regexp(t, "^\\Q"+inPod+tt.path+": Forbidden: \\E.*: not allowed by allow.jobs\\[0\\] of the worker's clusters file$", found[0])

			tt.entry.Images, tt.entry.Namespaces = plain.Images, plain.Namespaces
			require.Empty(t, refused(allow.List{Jobs: []allow.Job{plain, tt.entry}}, job))
		})
	}
}

func TestAJobNeedsOneEntryThatAllowsAllOfIt(t *testing.T) {
	list := allow.List{Jobs: []allow.Job{
		{Images: []string{"registry.example.com/firmware/*"}},
		{Images: []string{"registry.example.com/disk:1"}, HostPaths: []string{"/dev"}, Privileged: true},
	}}
	for _, tt := range []struct {
		name, namespace, pod string
		refused              []string
	}{
		{"an image of the list", allow.NamespaceJobs, "", nil},
		{"a privileged image of the list", allow.NamespacePrivilegedJobs, "containers: [{name: work, image: 'registry.example.com/disk:1', securityContext: {privileged: true}}]", nil},
		{"another tag", allow.NamespacePrivilegedJobs, "containers: [{name: work, image: 'registry.example.com/disk:2', securityContext: {privileged: true}}]", []string{inPod + "containers[0].image: Forbidden: image registry.example.com/disk:2"}},
		{"an image that is not privileged in the list", allow.NamespacePrivilegedJobs, "containers: [{name: work, securityContext: {privileged: true}}]", []string{inPod + "containers[0].image: Forbidden"}},
		{"two images of two entries", allow.NamespacePrivilegedJobs, "containers: [{name: a}, {name: b, image: 'registry.example.com/disk:1', securityContext: {privileged: true}}]", []string{inPod + "containers[0].image: Forbidden"}},
		{"a namespace that no entry names", "shop", "", []string{"spec.action.job.namespace: Forbidden: namespace shop: not allowed by allow.jobs[0]"}},
		{"the namespace of Drydock", allow.NamespaceSystem, "", []string{"spec.action.job.namespace: Forbidden: Drydock's own accounts"}},
		{"a namespace of the privileged Jobs of rollouts", precache.NamespaceBackup, "", []string{"spec.action.job.namespace: Forbidden: Drydock's own accounts"}},
		{"a path beside the one of the list", allow.NamespacePrivilegedJobs, "{containers: [{name: work, image: 'registry.example.com/disk:1'}], volumes: [{name: v, hostPath: {path: /device}}]}", []string{inPod + "volumes[0].hostPath.path: Forbidden"}},
		{"a path that leaves the one of the list", allow.NamespacePrivilegedJobs, "{containers: [{name: work, image: 'registry.example.com/disk:1'}], volumes: [{name: v, hostPath: {path: /dev/fd/../x}}]}", []string{inPod + "volumes[0].hostPath.path: Forbidden"}},
		{"an image as a volume", allow.NamespaceJobs, "volumes: [{name: v, image: {reference: elsewhere/x}}]", []string{inPod + "volumes[0].image.reference: Forbidden"}},
		{"storage by its address", allow.NamespaceJobs, "volumes: [{name: v, nfs: {server: 10.0.0.1, path: /}}]", []string{inPod + "volumes[0]: Forbidden: this kind of volume"}},
		{"a claim, a ConfigMap and an empty directory", allow.NamespaceJobs, "volumes: [{name: a, persistentVolumeClaim: {claimName: c}}, {name: b, configMap: {name: c}}, {name: c, emptyDir: {}}]", nil},
		{"a token without an account", allow.NamespaceJobs, "automountServiceAccountToken: true", []string{inPod + "automountServiceAccountToken: Forbidden"}},
		{"a projected token without an account", allow.NamespaceJobs, "volumes: [{name: v, projected: {sources: [{serviceAccountToken: {path: t}}]}}]", []string{inPod + "volumes[0].projected.sources[0].serviceAccountToken: Forbidden"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			found := refused(list, jobWith(t, tt.namespace, tt.pod))
			require.Len(t, found, len(tt.refused), "%q", found)
			for i, says := range tt.refused {
				require.Contains(t, found[i], says)
			}
		})
	}
}

func TestAnAppArmorAnnotationIsAPrivilege(t *testing.T) {
	list := allow.List{Jobs: []allow.Job{{Images: []string{"*"}}}}
	job := jobWith(t, allow.NamespaceJobs, "")
	job.Template.Spec.Template.Annotations = map[string]string{"container.apparmor.security.beta.kubernetes.io/work": "unconfined"}
	require.Equal(t, []string{"spec.action.job.template.spec.template.metadata.annotations[container.apparmor.security.beta.kubernetes.io/work]: " +
		"Forbidden: AppArmor profile unconfined: not allowed by allow.jobs[0] of the worker's clusters file"}, refused(list, job))
}

func TestWithoutAListNoJobIsAllowed(t *testing.T) {
	require.Equal(t, []string{"spec.action.job: Forbidden: the worker's clusters file allows no Job: add its image to allow.jobs"},
		refused(allow.List{}, jobWith(t, allow.NamespaceJobs, "")))
	err := allow.List{PreparationImages: []string{"quay.io/precache:4.18"}}.CheckPreparationImage(field.NewPath("spec", "overrides", "preCacheImage"), "quay.io/precache:evil")
	require.ErrorContains(t, err, "spec.overrides.preCacheImage: Forbidden: image quay.io/precache:evil: the Job is privileged")
}

func TestAListIsChecked(t *testing.T) {
	for _, tt := range []struct{ list, says string }{
		{"jobs: [{}]", "allow.jobs[0].images: Required value"},
		{"jobs: [{images: [registry.example.com*]}]", "allow.jobs[0].images[0]: Invalid value"},
		{"jobs: [{images: ['*/x']}]", "allow.jobs[0].images[0]: Invalid value"},
		{"preparationImages: ['']", "allow.preparationImages[0]: Invalid value"},
		{"jobs: [{images: ['*'], namespaces: [drydock-system]}]", "allow.jobs[0].namespaces[0]: Forbidden: Drydock's own accounts"},
		{"jobs: [{images: ['*'], namespaces: [drydock-jobs], privileged: true}]", "allow.jobs[0].namespaces[0]: Forbidden: its pod-security level"},
		{"jobs: [{images: ['*'], namespaces: ['a*b']}]", "allow.jobs[0].namespaces[0]: Invalid value"},
		{"jobs: [{images: ['*'], hostNamespaces: [UTS]}]", "allow.jobs[0].hostNamespaces[0]: Unsupported value"},
		{"jobs: [{images: ['*'], hostPaths: [/dev/../etc]}]", "allow.jobs[0].hostPaths[0]: Invalid value"},
		{"jobs: [{images: ['*'], hostPaths: [dev]}]", "allow.jobs[0].hostPaths[0]: Invalid value"},
	} {
		var list allow.List
		require.NoError(t, yaml.UnmarshalStrict([]byte(tt.list), &list))
		require.ErrorContains(t, list.Check(field.NewPath("allow")).ToAggregate(), tt.says)
	}
	var good allow.List
	require.NoError(t, yaml.UnmarshalStrict([]byte("{jobs: [{images: [a, 'b/*', 'c:*', 'd@*', '*'], hostPaths: [/, /dev], hostNamespaces: [PID]}], preparationImages: ['quay.io/*']}"), &good))
	require.Empty(t, good.Check(field.NewPath("allow")))
}
