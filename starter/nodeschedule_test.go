package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/dynamic"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
)

// schedulingObjects are nodes in two zones, a budget of one zone at a time, and four requests.
const schedulingObjects = `
apiVersion: v1
kind: List
items:
- {apiVersion: v1, kind: Node, metadata: {name: worker-1, labels: {topology.kubernetes.io/zone: a}}, status: {conditions: [{type: Ready, status: "True"}]}}
- {apiVersion: v1, kind: Node, metadata: {name: worker-2, labels: {topology.kubernetes.io/zone: b}}, status: {conditions: [{type: Ready, status: "True"}]}}
- {apiVersion: v1, kind: Node, metadata: {name: worker-3, labels: {topology.kubernetes.io/zone: a}}, status: {conditions: [{type: Ready, status: "True"}]}}
- apiVersion: maintenance.nvidia.com/v1alpha1
  kind: MaintenanceOperatorConfig
  metadata: {name: budgets, namespace: drydock-system}
  spec:
    maxParallelOperations: 3
    maxUnavailable: 2
    agingSeconds: 3600
    budgets: [{name: one-zone, topologyKey: topology.kubernetes.io/zone, maxParallelZones: 1}]
- apiVersion: maintenance.nvidia.com/v1alpha1
  kind: NodeMaintenance
  metadata: {name: driver-1, namespace: default, creationTimestamp: "2026-11-20T10:00:00Z"}
  spec: {requestorID: driver.example.com, nodeName: worker-1}
- apiVersion: maintenance.nvidia.com/v1alpha1
  kind: NodeMaintenance
  metadata: {name: driver-3, namespace: default, creationTimestamp: "2026-11-20T10:01:00Z"}
  spec: {requestorID: driver.example.com, nodeName: worker-3}
- apiVersion: maintenance.nvidia.com/v1alpha1
  kind: NodeMaintenance
  metadata: {name: firmware-2, namespace: default, creationTimestamp: "2026-11-20T10:02:00Z"}
  spec: {requestorID: firmware.example.com, nodeName: worker-2}
- apiVersion: maintenance.nvidia.com/v1alpha1
  kind: NodeMaintenance
  metadata: {name: gone-9, namespace: default, creationTimestamp: "2026-11-20T10:03:00Z"}
  spec: {requestorID: kim.example.com, nodeName: worker-9}
`

const (
	beforeAging = "2026-11-20T10:30:00Z"
	afterAging  = "2026-11-20T11:00:30Z"
)

func TestAScheduleWarnsOfBudgetsThatDoNotCount(t *testing.T) {
	isolate(t)
	elsewhere := file(t, "cluster.yaml", strings.Replace(schedulingObjects, "namespace: drydock-system", "namespace: default", 1))
	require.Equal(t, "warning: no budgets count: the MaintenanceOperatorConfig of the worker is drydock-system (--maintenance-config), and there is only default/budgets\n",
		drydock(t, "node", "schedule", "--snapshot", elsewhere).stderr)
	require.Empty(t, drydock(t, "node", "schedule", "--snapshot", elsewhere, "--maintenance-config", "default").stderr)
}

func TestALimitOfNothingSaysSo(t *testing.T) {
	isolate(t)
	objects := file(t, "cluster.yaml", strings.Replace(schedulingObjects, "maxUnavailable: 2", "maxUnavailable: 10%", 1))
	require.Contains(t, succeeds(t, "node", "schedule", "--snapshot", objects),
		"MaxUnavailable: maxUnavailable (10%) allows 0 of 3 nodes to be unavailable: no maintenance starts until it is raised\n")
}

func TestAScheduleFromAFile(t *testing.T) {
	isolate(t)
	objects := file(t, "cluster.yaml", schedulingObjects)
	require.JSONEq(t, `{
		"availableSlots": 3, "canBecomeUnavailable": 2,
		"granted": [{"namespace": "default", "name": "firmware-2", "node": "worker-2", "requestor": "firmware.example.com"}],
		"waiting": [
			{"namespace": "default", "name": "gone-9", "node": "worker-9", "requestor": "kim.example.com",
				"reason": "NodeNotFound", "message": "the cluster has no node worker-9"},
			{"namespace": "default", "name": "driver-1", "node": "worker-1", "requestor": "driver.example.com", "reason": "Budget/one-zone",
				"message": "budget one-zone, zone a: maxParallelZones allows 1 zone under maintenance at once: zone b (worker-2 for firmware.example.com)"},
			{"namespace": "default", "name": "driver-3", "node": "worker-3", "requestor": "driver.example.com", "reason": "Budget/one-zone",
				"message": "budget one-zone, zone a: maxParallelZones allows 1 zone under maintenance at once: zone b (worker-2 for firmware.example.com)"}
		]
	}`, succeeds(t, "node", "schedule", "--snapshot", objects, "--at", beforeAging, "-o", "json"))
}

func TestAScheduleIsPrintedInOrderOfRank(t *testing.T) {
	isolate(t)
	objects := file(t, "cluster.yaml", schedulingObjects)
	require.Equal(t, `3 slots free, and 2 more nodes may become unavailable
RANK   REQUEST              NODE       REQUESTOR              DECISION   REASON
   1   default/driver-1     worker-1   driver.example.com     granted
   2   default/firmware-2   worker-2   firmware.example.com   waits      Budget/one-zone: budget one-zone, zone b: maxParallelZones allows 1 zone under maintenance at once: zone a (worker-1 for driver.example.com)
   3   default/gone-9       worker-9   kim.example.com        waits      NodeNotFound: the cluster has no node worker-9
   4   default/driver-3     worker-3   driver.example.com     granted
`, succeeds(t, "node", "schedule", "--snapshot", objects, "--at", afterAging), "driver-1 has waited for longer than agingSeconds")
	require.Equal(t, "default/driver-1\ndefault/driver-3\n", succeeds(t, "node", "schedule", "--snapshot", objects, "--at", afterAging, "-o", "name"))

	require.Equal(t, "1 slot free, and any number of nodes may become unavailable\nno request is waiting\n",
		succeeds(t, "node", "schedule", "--snapshot", file(t, "idle.yaml", "{apiVersion: v1, kind: Node, metadata: {name: worker-1}}")))
}

func TestANodeWithAnOwnershipMarkHoldsASlot(t *testing.T) {
	isolate(t)
	objects := file(t, "cluster.yaml", `
apiVersion: v1
kind: Node
metadata: {name: worker-1, annotations: {drydock.dev/owner: node/spoke-1/default/kernel/run}}
spec: {unschedulable: true}
---
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: m, namespace: default}
spec: {requestorID: kim.example.com, nodeName: worker-1}
`)
	decision := parsed[scheduling.Decision](t, "node", "schedule", "--snapshot", objects)
	require.Zero(t, decision.AvailableSlots)
	require.Equal(t, scheduling.NodeBusy, decision.Waiting[0].Reason)
	require.Equal(t, "node worker-1 is under maintenance for node/spoke-1/default/kernel", decision.Waiting[0].Message)
}

func TestBudgetsCanBeTestedBeforeTheyAreApplied(t *testing.T) {
	isolate(t)
	objects := file(t, "cluster.yaml", schedulingObjects)
	budgets := func(spec string) string {
		return file(t, "budgets.yaml", "{apiVersion: maintenance.nvidia.com/v1alpha1, kind: MaintenanceOperatorConfig, metadata: {name: budgets}, spec: "+spec+"}")
	}
	decision := parsed[scheduling.Decision](t, "node", "schedule", "--snapshot", objects, "--at", beforeAging, "-f",
		budgets("{maxParallelOperations: 1, budgets: [{name: a, nodeSelector: {matchLabels: {topology.kubernetes.io/zone: b}}, maxParallelOperations: 0}]}"))
	require.Equal(t, 1, decision.AvailableSlots)
	require.Nil(t, decision.CanBecomeUnavailable, "the cluster's own limit does not count")
	require.Equal(t, "driver-1", decision.Granted[0].Name)
	require.Equal(t, scheduling.Reason("Budget/a"), decision.Waiting[0].Reason)

	for name, tt := range map[string]struct{ spec, problem string }{
		"an unknown operator": {
			"{budgets: [{name: a, maxUnavailable: 1, nodeSelector: {matchExpressions: [{key: zone, operator: Im, values: [b]}]}}]}",
			`spec.budgets[0].nodeSelector.matchExpressions[0].operator: Unsupported value: "Im": supported values: "In", "NotIn", "Exists", "DoesNotExist"`,
		},
		"a selector that matches nothing": {
			"{budgets: [{name: a, maxUnavailable: 1, nodeSelector: {matchLabels: {zone: a}, matchExpressions: [{key: zone, operator: NotIn, values: [a]}]}}]}",
			`spec.budgets[0].nodeSelector: Invalid value: "zone=a,zone notin (a)": can never match: its requirements for label zone contradict each other`,
		},
		"an invalid limit": {"{maxUnavailable: 5 %}", `spec.maxUnavailable: Invalid value: "5 %": must be a number of at least 0 or a percentage from 0% to 100%`},
	} {
		t.Run(name, func(t *testing.T) {
			got := drydock(t, "node", "schedule", "--snapshot", objects, "-f", budgets(tt.spec))
			require.Equal(t, exitUsage, got.status)
			require.Contains(t, got.stderr, "MaintenanceOperatorConfig budgets: "+tt.problem)
		})
	}
}

func TestAScheduleIncludesTheQueueOfTheScheduler(t *testing.T) {
	request := func(name, node string) scheduling.Request {
		return scheduling.Request{Namespace: "default", Name: name, Node: node, Requestor: "kim.example.com"}
	}
	since := time.Date(2026, 11, 20, 12, 0, 0, 0, time.UTC)
	requests := withQueue([]scheduling.SlotRequest{
		{Request: request("applied", "worker-1"), Since: since.Add(time.Hour)},
		{Request: scheduling.Request{Name: "node/spoke-1/default/begun", Node: "worker-2"}, Granted: true}, // the node has its mark
	}, []scheduling.QueueEntry{
		{Request: request("begun", "worker-2"), Owner: scheduling.SlotOwner{WorkflowID: "node/spoke-1/default/begun"}, Since: since},
		{Request: request("applied", "worker-1"), Since: since, Rank: 1},
		{Request: request("started", "worker-3"), Since: since, Rank: 2},
	})
	require.Equal(t, []scheduling.SlotRequest{
		{Request: request("begun", "worker-2"), Since: since, Granted: true},
		{Request: request("applied", "worker-1"), Since: since},
		{Request: request("started", "worker-3"), Since: since},
	}, requests)
}

// schedulesAlike is part of the test on a real cluster.
func schedulesAlike(t *testing.T, objects dynamic.Interface) {
	resources := map[string]schema.GroupVersionResource{
		"Node":                      {Version: "v1", Resource: "nodes"},
		"NodeMaintenance":           {Group: "maintenance.nvidia.com", Version: "v1alpha1", Resource: "nodemaintenances"},
		"MaintenanceOperatorConfig": {Group: "maintenance.nvidia.com", Version: "v1alpha1", Resource: "maintenanceoperatorconfigs"},
	}
	var given struct {
		Items []unstructured.Unstructured `json:"items"`
	}
	require.NoError(t, yaml.Unmarshal([]byte(schedulingObjects), &given))
	_, err := objects.Resource(schema.GroupVersionResource{Version: "v1", Resource: "namespaces"}).Create(t.Context(),
		&unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace", "metadata": map[string]any{"name": kube.SystemNamespace}}}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		require.NoError(t, err)
	}
	for _, object := range given.Items {
		status, hasStatus := object.Object["status"]
		resource := objects.Resource(resources[object.GetKind()]).Namespace(object.GetNamespace())
		created, err := resource.Create(t.Context(), &object, metav1.CreateOptions{})
		require.NoError(t, err)
		if hasStatus {
			created.Object["status"] = status
			_, err = resource.UpdateStatus(t.Context(), created, metav1.UpdateOptions{})
			require.NoError(t, err)
		}
	}
	var live unstructured.UnstructuredList
	for _, resource := range resources {
		list, err := objects.Resource(resource).List(t.Context(), metav1.ListOptions{})
		require.NoError(t, err)
		live.Items = append(live.Items, list.Items...)
	}
	live.SetAPIVersion("v1")
	live.SetKind("List")
	text, err := live.MarshalJSON()
	require.NoError(t, err)

	at := []string{"node", "schedule", "--at", beforeAging, "-o", "json"}
	offline := succeeds(t, append(at, "--snapshot", file(t, "live.json", string(text)))...)
	require.Equal(t, offline, succeeds(t, append(at, "--context", "hub")...))
	require.Contains(t, offline, "Budget/one-zone")
}
