package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/manifest"
)

// lockObjects are a cluster under maintenance: vrouter has released node n1. The next request is for n2, which vrouter and ceph hold.
const lockObjects = `
apiVersion: v1
kind: Node
metadata: {name: n1, labels: {role: worker}}
---
apiVersion: v1
kind: Node
metadata: {name: n2, labels: {role: worker}}
---
apiVersion: v1
kind: Node
metadata: {name: n3, labels: {role: worker}}
---
apiVersion: v1
kind: Pod
metadata: {name: vrouter-2, namespace: network, labels: {app: vrouter}}
spec: {nodeName: n2, containers: [{name: agent, image: vrouter}]}
status: {phase: Running, containerStatuses: [{name: agent, ready: true, restartCount: 0, image: vrouter, imageID: vrouter}]}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: ClusterMaintenanceRequest
metadata: {name: upgrade, uid: upgrade, creationTimestamp: 2026-11-20T20:00:00Z}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeMaintenanceRequest
metadata: {name: for-n1, uid: for-n1, creationTimestamp: 2026-11-20T20:10:00Z, annotations: {drydock.dev/owner: node/spoke-1/default/first/run}}
spec: {nodeName: n1, scope: os}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeMaintenanceRequest
metadata: {name: again-n1, uid: again-n1, creationTimestamp: 2026-11-20T20:25:00Z}
spec: {nodeName: n1}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeMaintenanceRequest
metadata: {name: for-n2, uid: for-n2, creationTimestamp: 2026-11-20T20:20:00Z}
spec: {nodeName: n2, scope: drain}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: ClusterWorkloadLock
metadata: {name: vrouter, creationTimestamp: 2026-11-01T10:00:00Z}
spec: {controllerName: vrouter}
status: {state: inactive, inactivationProgress: {description: 1 out of 3 nodes updated, percentage: 33}}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeWorkloadLock
metadata:
  name: vrouter-n1
  creationTimestamp: 2026-11-01T10:00:00Z
  annotations: {drydock.dev/updated-for: upgrade}
  managedFields:
  - {manager: kubectl, operation: Update, apiVersion: lcm.mirantis.com/v1alpha1, time: 2026-11-20T20:30:00Z}
  - {manager: former, operation: Update, apiVersion: lcm.mirantis.com/v1alpha1, time: 2026-11-01T10:00:00Z, subresource: status}
  - {manager: drydock, operation: Update, apiVersion: lcm.mirantis.com/v1alpha1, time: 2026-11-20T20:15:00Z, subresource: status}
spec: {controllerName: vrouter, nodeName: n1}
status: {state: inactive}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeWorkloadLock
metadata: {name: vrouter-n2, creationTimestamp: 2026-11-01T10:00:00Z}
spec: {controllerName: vrouter, nodeName: n2}
status: {state: active}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeWorkloadLock
metadata: {name: vrouter-n9, creationTimestamp: 2026-11-01T10:00:00Z}
spec: {controllerName: vrouter, nodeName: n9}
status: {state: failed}
---
apiVersion: lcm.mirantis.com/v1alpha1
kind: NodeWorkloadLock
metadata: {name: storage, creationTimestamp: 2026-11-01T10:00:00Z}
spec: {controllerName: ceph, nodeName: n2}
status: {state: active, errorMessage: "rebalancing: 12% of objects are misplaced"}
`

func TestLocksAreEvaluatedFromAFile(t *testing.T) {
	isolate(t)
	objects := file(t, "objects.yaml", lockObjects+"---"+lockPolicy)
	require.JSONEq(t, `{
		"locks": [
			{"kind": "ClusterWorkloadLock", "name": "vrouter", "action": "keep", "from": "inactive", "to": "inactive", "reason": "RequestStands"},
			{"kind": "NodeWorkloadLock", "name": "vrouter-n1", "node": "n1", "action": "update", "from": "inactive", "to": "inactive", "reason": "RequestStands"},
			{"kind": "NodeWorkloadLock", "name": "vrouter-n2", "node": "n2", "action": "update", "from": "active", "to": "active", "reason": "MaxInactiveNodes",
			 "message": "waits for n1 (at most 1 inactive at once)"},
			{"kind": "NodeWorkloadLock", "name": "vrouter-n3", "node": "n3", "action": "create", "from": "", "to": "active", "reason": "NoRequest"},
			{"kind": "NodeWorkloadLock", "name": "vrouter-n9", "node": "n9", "action": "delete", "from": "failed", "to": "", "reason": "NodeGone"}
		],
		"progress": {"percentage": 33, "description": "1 out of 3 nodes updated", "inactiveNow": 1, "updated": 1, "total": 3}
	}`, succeeds(t, "lock", "evaluate", "--snapshot", objects, "-o", "json"))

	require.Equal(t, `LOCK      STATE      BECOMES   REASON             MESSAGE
cluster   inactive             RequestStands
node n1   inactive             RequestStands
node n2   active               MaxInactiveNodes   waits for n1 (at most 1 inactive at once)
node n3              active    NoRequest
node n9   failed     deleted   NodeGone
vrouter: 1 out of 3 nodes updated (33%), 1 inactive now
`, succeeds(t, "lock", "evaluate", "--snapshot", objects))

	require.Contains(t, succeeds(t, "lock", "evaluate", "--snapshot", objects, "-o", "name"), "nodeworkloadlock.lcm.mirantis.com/vrouter-n9\n")
}

func TestLocksAreEvaluatedByTheNamedPolicy(t *testing.T) {
	isolate(t)
	objects := file(t, "objects.yaml", lockObjects)
	other := strings.ReplaceAll(lockPolicy, "vrouter", "ceph")
	both := file(t, "both.yaml", lockObjects+"---"+lockPolicy+"---"+other)
	twice := file(t, "twice.yaml", lockPolicy+"---"+strings.Replace(lockPolicy, "name: vrouter}\nspec", "name: again}\nspec", 1))
	sick := file(t, "sick.yaml", lockPolicy+"  clusterHealth: [{name: control, workload: {namespace: network}}]\n")

	policy := file(t, "policy.yaml", lockPolicy)
	require.Contains(t, succeeds(t, "lock", "evaluate", "--snapshot", objects, "-f", policy), "vrouter: 1 out of 3")
	require.Contains(t, succeeds(t, "lock", "evaluate", "--snapshot", both, "--controller", "ceph"), "\nceph: ")
	later := succeeds(t, "lock", "evaluate", "--snapshot", objects, "-f", sick)
	require.Contains(t, later, "cluster   inactive", "a released lock stays inactive, regardless of the health")

	for _, test := range []struct {
		name   string
		args   []string
		stderr string
	}{
		{"a missing policy", []string{"--snapshot", objects}, "no WorkloadLockPolicy found: give its file with -f"},
		{"several policies", []string{"--snapshot", both}, "several WorkloadLockPolicies found, for ceph, vrouter: select one with --controller"},
		{"an unknown application", []string{"--snapshot", both, "--controller", "etcd"}, "no WorkloadLockPolicy found for etcd: give its file with -f"},
		{"two policies of one application", []string{"--snapshot", twice, "--controller", "vrouter"}, "2 WorkloadLockPolicies found for vrouter"},
		{
			"an invalid policy",
			[]string{"--snapshot", file(t, "bad.yaml", strings.Replace(lockPolicy, "namespace: network", "maxInactiveNodes: 0", 1))},
			"spec.maxInactiveNodes",
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := drydock(t, append([]string{"lock", "evaluate"}, test.args...)...)
			require.Equal(t, exitUsage, got.status)
			require.Contains(t, got.stderr, test.stderr)
			require.Empty(t, got.stdout)
		})
	}
}

func TestAGateIsShownWithItsHolders(t *testing.T) {
	isolate(t)
	objects := file(t, "objects.yaml", lockObjects)
	require.JSONEq(t, `{"open": true, "holders": []}`, succeeds(t, "lock", "gate", "--snapshot", objects, "-o", "json"))
	require.Equal(t, "the cluster in "+objects+" is not held\n", succeeds(t, "lock", "gate", "--snapshot", objects))
	require.Equal(t, "node n1 is not held\n", succeeds(t, "lock", "gate", "--node", "n1", "--snapshot", objects))

	got := drydock(t, "lock", "gate", "--node", "n2", "--snapshot", objects, "-o", "json")
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: node n2 is held: ceph holds it: rebalancing: 12% of objects are misplaced\n", got.stderr)
	require.JSONEq(t, `{"open": false, "holders": [
		{"controller": "ceph", "state": "active", "message": "rebalancing: 12% of objects are misplaced"},
		{"controller": "vrouter", "state": "active", "message": ""}
	]}`, got.stdout)
	require.Equal(t, `LOCK         CONTROLLER   STATE    MESSAGE
storage      ceph         active   rebalancing: 12% of objects are misplaced
vrouter-n2   vrouter      active
`, drydock(t, "lock", "gate", "--node", "n2", "--snapshot", objects).stdout)

	got = drydock(t, "lock", "gate", "--node", "n7", "--snapshot", objects)
	require.Equal(t, outcome{exitFailed, "", "error: node n7 not found in " + objects + "\n"}, got)
}

func TestLocksAndRequestsAreListed(t *testing.T) {
	isolate(t)
	objects := file(t, "objects.yaml", lockObjects)
	require.Equal(t, `REQUEST    FOR       SCOPE   BY                           AGE
upgrade    cluster                                        60m
for-n1     node n1   os      node/spoke-1/default/first   50m
again-n1   node n1                                        35m
for-n2     node n2   drain                                40m

LOCK         ON        CONTROLLER   STATE      CHANGED   ASKED   MESSAGE
vrouter      cluster   vrouter      inactive             60m
vrouter-n1   node n1   vrouter      inactive   45m       50m
storage      node n2   ceph         active               40m     rebalancing: 12% of objects are misplaced
vrouter-n2   node n2   vrouter      active               40m
vrouter-n9   node n9   vrouter      failed
5 locks, 4 requests, 2 requested and not released
`, succeeds(t, "lock", "list", "--snapshot", objects, "--at", "2026-11-20T21:00:00Z"))

	list := parsed[lockListing](t, "lock", "list", "--snapshot", objects)
	require.Equal(t, "node/spoke-1/default/first", list.Requests[1].Workflow)
	require.Equal(t, int32(33), list.Locks[0].Progress.Percentage)
	require.Equal(t, "2026-11-20T20:15:00Z", list.Locks[1].ChangedAt.UTC().Format("2006-01-02T15:04:05Z"))
	require.Nil(t, list.Locks[4].AskedAt)
	require.Contains(t, succeeds(t, "lock", "list", "--snapshot", objects, "-o", "name"),
		"nodemaintenancerequest.lcm.mirantis.com/for-n2\nclusterworkloadlock.lcm.mirantis.com/vrouter\n")

	empty := file(t, "empty.yaml", "{apiVersion: v1, kind: Node, metadata: {name: n1}}")
	require.Equal(t, "no workload locks and no maintenance requests in "+empty+"\n", succeeds(t, "lock", "list", "--snapshot", empty))
	require.JSONEq(t, `{"requests": [], "locks": []}`, succeeds(t, "lock", "list", "--snapshot", empty, "-o", "json"))
}

func TestProgressIsShownByApplication(t *testing.T) {
	isolate(t)
	objects := file(t, "objects.yaml", lockObjects)
	require.Equal(t, `APPLICATION   PROGRESS   UPDATED   INACTIVE NOW   REPORTED
ceph          0%         0 of 1    0
vrouter       33%        1 of 3    1              33% 1 out of 3 nodes updated
`, succeeds(t, "lock", "progress", "--snapshot", objects))
	require.JSONEq(t, `{"requested": true, "applications": [
		{"controller": "ceph", "progress": {"percentage": 0, "description": "0 out of 1 nodes updated", "inactiveNow": 0, "updated": 0, "total": 1}},
		{"controller": "vrouter", "progress": {"percentage": 33, "description": "1 out of 3 nodes updated", "inactiveNow": 1, "updated": 1, "total": 3},
		 "reported": {"percentage": 33, "description": "1 out of 3 nodes updated"}}
	]}`, succeeds(t, "lock", "progress", "--snapshot", objects, "-o", "json"))
	require.Equal(t, "ceph\nvrouter\n", succeeds(t, "lock", "progress", "--snapshot", objects, "-o", "name"))

	empty := file(t, "empty.yaml", "{apiVersion: v1, kind: Node, metadata: {name: n1}}")
	require.Equal(t, "no workload locks in "+empty+"\n", succeeds(t, "lock", "progress", "--snapshot", empty))
}

// locksAlike compares the output for a live cluster with that for a file of its objects.
func locksAlike(t *testing.T, config *rest.Config) {
	scheme, err := kube.NewScheme()
	require.NoError(t, err)
	cluster, err := client.New(config, client.Options{Scheme: scheme})
	require.NoError(t, err)
	text := "{apiVersion: v1, kind: Namespace, metadata: {name: network}}\n---\n" +
		"{apiVersion: v1, kind: ServiceAccount, metadata: {name: default, namespace: network}}\n---" + lockObjects + "---" + lockPolicy +
		"  clusterHealth: [{name: control, workload: {namespace: network, kinds: [Deployment]}}]\n"
	objects, err := manifest.Parse("objects.yaml", []byte(text))
	require.NoError(t, err)
	for _, object := range objects {
		create(t, cluster, object)
	}

	offline := file(t, "live.json", dump(t, cluster))
	for _, args := range [][]string{
		{"evaluate", "--at", "2026-11-20T21:00:00Z"}, {"gate"}, {"gate", "--node", "n1"}, {"gate", "--node", "n2"}, {"list"}, {"progress"},
	} {
		args = append([]string{"lock", "-o", "json"}, args...)
		live := drydock(t, append(args, "--context", "hub")...)
		require.NotEmpty(t, live.stdout, live.stderr)
		require.Equal(t, live, drydock(t, append(args, "--snapshot", offline)...), args)
	}
	decision := parsed[locks.Decision](t, "lock", "evaluate", "--context", "hub")
	require.Len(t, decision.Locks, 5)
	require.NotNil(t, parsed[lockListing](t, "lock", "list", "--context", "hub").Locks[0].ChangedAt, "the time is from the API server")

	t.Run("the progress is watched", func(t *testing.T) { followsProgress(t, cluster) })
}

func followsProgress(t *testing.T, cluster client.Client) {
	watch := begin(t, "lock", "progress", "--watch", "--context", "hub", "-o", "json")
	watch.prints(t, `"updated":1`)
	lock := &lcmv1.NodeWorkloadLock{}
	require.NoError(t, cluster.Get(t.Context(), client.ObjectKey{Name: "vrouter-n2"}, lock))
	lock.Status.State = lcmv1.LockInactive
	require.NoError(t, cluster.Status().Update(t.Context(), lock))
	watch.prints(t, `"updated":2`)
	watch.stop()
	ended := watch.end(t)
	require.Equal(t, exitDone, ended.status, ended.stderr)
	var last lockProgress
	documents := strings.Split(strings.TrimSpace(ended.stdout), "\n")
	require.NoError(t, json.Unmarshal([]byte(documents[len(documents)-1]), &last))
	require.Equal(t, int32(66), last.Applications[1].Progress.Percentage)

	lines := begin(t, "lock", "progress", "--watch", "--context", "hub")
	lines.prints(t, "vrouter: 2 out of 3 nodes updated (66%), 2 inactive now; it reports 33% 1 out of 3 nodes updated\n")
}

// create creates an object with its status. A lock gets the UID of the current ClusterMaintenanceRequest.
func create(t *testing.T, cluster client.Client, object *unstructured.Unstructured) {
	t.Helper()
	status, hasStatus := object.Object["status"]
	object.SetManagedFields(nil)
	if annotations := object.GetAnnotations(); annotations[lcmv1.AnnotationUpdatedFor] != "" {
		var requests lcmv1.ClusterMaintenanceRequestList
		require.NoError(t, cluster.List(t.Context(), &requests))
		annotations[lcmv1.AnnotationUpdatedFor] = string(requests.Items[0].UID)
		object.SetAnnotations(annotations)
	}
	require.NoError(t, client.IgnoreAlreadyExists(cluster.Create(t.Context(), object)))
	if hasStatus {
		object.Object["status"] = status
		require.NoError(t, cluster.Status().Update(t.Context(), object))
	}
}

// dump prints the objects of a cluster for decisions about locks.
func dump(t *testing.T, cluster client.Client) string {
	t.Helper()
	all := &unstructured.UnstructuredList{}
	all.SetAPIVersion("v1")
	all.SetKind("List")
	for kind, apiVersion := range map[string]string{
		"Node": "v1", "Pod": "v1", "Deployment": "apps/v1", "WorkloadLockPolicy": "drydock.dev/v1alpha1",
		"ClusterMaintenanceRequest": "lcm.mirantis.com/v1alpha1", "NodeMaintenanceRequest": "lcm.mirantis.com/v1alpha1",
		"ClusterWorkloadLock": "lcm.mirantis.com/v1alpha1", "NodeWorkloadLock": "lcm.mirantis.com/v1alpha1",
	} {
		list := &unstructured.UnstructuredList{}
		list.SetAPIVersion(apiVersion)
		list.SetKind(kind + "List")
		require.NoError(t, cluster.List(t.Context(), list))
		all.Items = append(all.Items, list.Items...)
	}
	text, err := all.MarshalJSON()
	require.NoError(t, err)
	return string(text)
}
