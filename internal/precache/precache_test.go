package precache_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

func TestJobsHaveADeadlineAndNoRetries(t *testing.T) {
	for _, kind := range []precache.Kind{precache.Precaching, precache.Backup} {
		job := precache.Work{Kind: kind, Image: "work:1", Timeout: 2 * time.Hour}.Job("name")
		require.EqualValues(t, 7200, *job.Spec.ActiveDeadlineSeconds)
		require.EqualValues(t, 0, *job.Spec.BackoffLimit)
		require.NotNil(t, job.Spec.TTLSecondsAfterFinished)
		require.True(t, strings.HasPrefix(job.Namespace, "openshift-talo-"))
		pod := job.Spec.Template.Spec
		require.Equal(t, "work:1", pod.Containers[0].Image)
		mounts := map[string]bool{}
		for _, volume := range pod.Volumes {
			require.False(t, mounts[volume.Name], volume.Name)
			mounts[volume.Name] = true
		}
		for _, mount := range pod.Containers[0].VolumeMounts {
			require.True(t, mounts[mount.Name], mount.Name)
		}
		require.Equal(t, kind == precache.Precaching, mounts["config-volume"])
	}
}

// The images of TALM have a script that is executable, and an entry point. Images for these Jobs need no shell.
func TestJobsRunTheProgramsOfTheirImages(t *testing.T) {
	precaching := precache.Work{Kind: precache.Precaching}.Job("name").Spec.Template.Spec.Containers[0]
	require.Equal(t, []string{"/opt/precache/precache.sh"}, precaching.Command)
	require.Empty(t, precaching.Args)
	backup := precache.Work{Kind: precache.Backup}.Job("name").Spec.Template.Spec
	require.Empty(t, backup.Containers[0].Command)
	require.Equal(t, []string{"launchBackup"}, backup.Containers[0].Args)
	require.Len(t, backup.Tolerations, 2, "etcd runs on nodes with taints")
	for _, container := range []corev1.Container{precaching, backup.Containers[0]} {
		fields := map[string]string{}
		for _, variable := range container.Env {
			if variable.ValueFrom != nil {
				fields[variable.Name] = variable.ValueFrom.FieldRef.FieldPath
			}
		}
		require.Equal(t, map[string]string{"NODE_NAME": "spec.nodeName", "NODE_IP": "status.hostIP", "POD_UID": "metadata.uid"}, fields)
	}
}

func TestTheConditionSummarizesAllClusters(t *testing.T) {
	type states = map[string]ranv1.PreparationState
	type summary struct {
		name                    string
		kind                    precache.Kind
		states                  states
		status, reason, message string
	}
	tests := []summary{
		{"no clusters", precache.Precaching, nil, "True", "PrecachingCompleted", "Precaching is completed for all clusters"},
		{"not started", precache.Precaching, states{"a": "NotStarted", "b": "NotStarted"}, "False", "InProgress", "Precaching is not completed"},
		{"in progress", precache.Precaching, states{"a": "Active", "b": "NotStarted", "c": "Succeeded"}, "False", "InProgress", "Precaching is in progress for 2 clusters"},
		{"in progress with a failure", precache.Backup, states{"a": "Starting", "b": "UnrecoverableError"}, "False", "InProgress", "Backup is in progress for 1 clusters; failed: b"},
		{"done", precache.Backup, states{"a": "Succeeded"}, "True", "BackupCompleted", "Backup is completed for all clusters"},
		{"some failed", precache.Backup, states{"a": "Succeeded", "c": "BackupTimeout", "b": "UnrecoverableError"}, "True", "PartiallyDone", "Backup failed for 2 clusters; failed: b, c"},
		{"all failed", precache.Precaching, states{"a": "PrecacheTimeout"}, "False", "Failed", "Precaching failed for all clusters; failed: a"},
		{"all backups failed", precache.Backup, states{"a": "BackupTimeout"}, "False", "Failed", "Backup failed for all the clusters; failed: a"},
	}
	left := []summary{
		{"offline", precache.Backup, states{"a": "Succeeded", "b": "NotStarted"}, "False", "InProgress", "Backup is not completed for 1 clusters that were offline"},
		{"all offline", precache.Precaching, states{"a": "NotStarted"}, "False", "InProgress", "Precaching is not completed for 1 clusters that were offline"},
		{"offline and a failure", precache.Precaching, states{"a": "NotStarted", "b": "PrecacheTimeout"}, "False", "InProgress", "Precaching is not completed for 1 clusters that were offline; failed: b"},
		{"one is back", precache.Backup, states{"a": "Active", "b": "NotStarted"}, "False", "InProgress", "Backup is in progress for 2 clusters"},
		{"all are back", precache.Backup, states{"a": "Succeeded"}, "True", "BackupCompleted", "Backup is completed for all clusters"},
	}
	for i, test := range slices.Concat(tests, left) {
		t.Run(test.name, func(t *testing.T) {
			v := test.kind.Judge(test.states, i >= len(tests))
			require.Equal(t, []string{test.status, test.reason, test.message}, []string{string(v.Status), v.Reason, v.Message})
		})
	}
}
