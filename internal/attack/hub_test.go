package attack

import (
	"bytes"
	"compress/gzip"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/uuid"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/activities/activitykit"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	planning "drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/snapshot"
	"drydock.dev/drydock/internal/temporal"
)

// bomb is a gzip text of that many MiB of spaces.
func bomb(t *testing.T, size int) []byte {
	t.Helper()
	var compressed bytes.Buffer
	writer := gzip.NewWriter(&compressed)
	chunk := bytes.Repeat([]byte(" "), 1<<20)
	for range size {
		_, err := writer.Write(chunk)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	return compressed.Bytes()
}

// The account of the hub worker was stolen, and with it what Drydock saves on the hub is forged, digest included. A retry still runs what Temporal has, an edit and a
// retry cannot bring a forbidden Job, and a text that expands to a gigabyte is not read.
func hubAccountIsStolen(t *testing.T) {
	config, err := theFleet.Hub.ServiceAccountConfig(t.Context(), kube.SystemNamespace, "drydock-hub")
	require.NoError(t, err)
	stolen := clientOf(t, config)
	refused(t, map[string]error{
		"read Secrets":          stolen.List(t.Context(), &corev1.SecretList{}, client.InNamespace(kube.SystemNamespace)),
		"read other Secrets":    stolen.List(t.Context(), &corev1.SecretList{}),
		"write in a namespace":  stolen.Create(t.Context(), &corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stolen"}}),
		"create a pod":          stolen.Create(t.Context(), podWithAccount(kube.SystemNamespace, "drydock-hub")),
		"request a rollout":     stolen.Create(t.Context(), rolloutWith("default", "stolen", nil)),
		"more rights":           stolen.Create(t.Context(), &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "x"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: "cluster-admin"}}),
		"delete what was saved": stolen.DeleteAllOf(t.Context(), &corev1.ConfigMap{}, client.InNamespace(kube.SystemNamespace)),
	})

	kept := rolloutWith("default", "kept", job("drydock-jobs", corev1.PodSpec{}))
	kept.Spec.Approvals = &ranv1.Approvals{BeforeEachBatch: true}
	manifest := func() string {
		kept.TypeMeta = metav1.TypeMeta{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade"}
		text, err := yaml.Marshal(kept)
		require.NoError(t, err)
		return file(t, string(text))
	}
	succeeds(t, "upgrade", "start", "-f", manifest())
	upgrade := upgradeOf(t, "default", "kept")
	waitsForApproval := func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Wait != nil && s.Wait.Reason == ranv1.ReasonWaitingForApproval
	}
	upgrade.await(waitsForApproval)

	kept.Spec.NodeMaintenance.Action = forbiddenActions()["host-pid"]
	_, err = command(t, "upgrade", "edit", "-f", manifest())
	require.ErrorContains(t, err, "hostPID: Forbidden")
	upgrade.signal(temporal.SignalCancel)
	require.Error(t, theTemporal(t).GetWorkflow(t.Context(), upgrade.id, "").Get(t.Context(), nil), "it is cancelled")

	var saved corev1.ConfigMap
	require.NoError(t, stolen.Get(t.Context(), snapshot.SavedKey(client.ObjectKeyFromObject(kept)), &saved))
	var forged ranv1.ClusterGroupUpgrade
	require.NoError(t, yaml.Unmarshal([]byte(saved.Data[planning.SavedKey]), &forged))
	forged.Spec.Clusters = []string{"spoke-1", "spoke-2"}
	forged.Spec.NodeMaintenance.Action, forged.Spec.Approvals = forbiddenActions()["host-pid"], nil
	forged.Status.RemediationPlan = [][]string{{"spoke-1", "spoke-2"}}
	text, err := yaml.Marshal(forged)
	require.NoError(t, err)
	saved.Data[planning.SavedKey] = string(text)
	activitykit.SetDigest(&saved, text)
	require.NoError(t, stolen.Update(t.Context(), &saved))
	succeeds(t, "upgrade", "retry", "kept", "--unfinished")
	status := upgrade.await(waitsForApproval)
	require.Len(t, status.Clusters, 1)
	value, err := theTemporal(t).QueryWorkflow(t.Context(), upgrade.id, "", temporal.QueryRollout)
	require.NoError(t, err)
	var retried ranv1.ClusterGroupUpgrade
	require.NoError(t, value.Get(&retried))
	require.False(t, retried.Spec.NodeMaintenance.Action.Job.Template.Spec.Template.Spec.HostPID)
	upgrade.signal(temporal.SignalCancel)

	huge := corev1.ConfigMap{
		ObjectMeta: metav1.ObjectMeta{
			Namespace: kube.SystemNamespace, Name: planning.SavedName("default", "huge"), Labels: map[string]string{activitykit.LabelManagedBy: activitykit.ManagedBy},
			Annotations: map[string]string{kube.AnnotationOwner: temporal.ClusterGroupUpgradeID("default", "huge") + "/" + uuid.NewString()},
		},
		BinaryData: map[string][]byte{planning.SavedCompressedKey: bomb(t, 640)},
	}
	require.NoError(t, stolen.Create(t.Context(), &huge))
	succeeds(t, "upgrade", "retry", "huge")
	err = theTemporal(t).GetWorkflow(t.Context(), temporal.ClusterGroupUpgradeID("default", "huge"), "").Get(t.Context(), nil)
	require.ErrorContains(t, err, "it has more than 16 MiB")
}

// A file that someone sends as the snapshot of a cluster expands to a gigabyte. The CLI refuses it, and does not take the memory.
func snapshotIsABomb(t *testing.T) {
	path := filepath.Join(t.TempDir(), "cluster.yaml.gz")
	require.NoError(t, os.WriteFile(path, bomb(t, 1024), 0o600))
	cmd := theFleet.Command(t.Context(), "node", "preview", "worker-1", "--snapshot", path)
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Contains(t, string(out), "decompress: it has more than")
	require.Less(t, cmd.ProcessState.SysUsage().(*syscall.Rusage).Maxrss, int64(512<<10), "KiB of memory")
}
