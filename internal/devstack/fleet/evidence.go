package fleet

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/kube"
)

// What was done to a cluster, as its API server has seen it: Drydock's own word does not count here.

// Deed is one write to a cluster that the API server let through.
type Deed struct {
	// What was done: one of the constants below.
	What string
	// Object as namespace/name, or name.
	Object string
	// By is the user.
	By string
	At time.Time
}

// The deeds that matter in a rollout.
const (
	DeedCordon          = "cordon"
	DeedUncordon        = "uncordon"
	DeedEviction        = "eviction"
	DeedRequestCluster  = "request cluster maintenance"
	DeedWithdrawCluster = "withdraw cluster maintenance"
	DeedRequestNode     = "request node maintenance"
	DeedWithdrawNode    = "withdraw node maintenance"
	DeedLockInactive    = "lock inactive"
	DeedLockActive      = "lock active"
	DeedJob             = "job"
)

// Deeds returns what was done to a cluster so far, in the order it was done.
func Deeds(cluster *devstack.Cluster) ([]Deed, error) {
	events, err := cluster.AuditEvents()
	if err != nil {
		return nil, err
	}
	var deeds []Deed
	for _, event := range events {
		if what := deedOf(event); what != "" {
			deeds = append(deeds, Deed{What: what, Object: objectOf(event), By: event.User.Username, At: event.StageTimestamp.Time})
		}
	}
	return deeds, nil
}

// deedOf names what a request did; "" for one that did nothing, or nothing that matters.
func deedOf(event auditv1.Event) string {
	ref := event.ObjectRef
	if ref == nil || event.Stage != auditv1.StageResponseComplete || event.ResponseStatus == nil || event.ResponseStatus.Code >= http.StatusBadRequest {
		return ""
	}
	if dryRun := strings.Contains(event.RequestURI, "dryRun="); dryRun {
		return ""
	}
	switch ref.Resource + "/" + ref.Subresource + " " + event.Verb {
	case "pods/eviction create":
		return DeedEviction
	case "nodes/ patch", "nodes/ update":
		return cordonOf(event)
	case "jobs/ create":
		return DeedJob
	case "clustermaintenancerequests/ create":
		return DeedRequestCluster
	case "clustermaintenancerequests/ delete":
		return DeedWithdrawCluster
	case "nodemaintenancerequests/ create":
		return DeedRequestNode
	case "nodemaintenancerequests/ delete":
		return DeedWithdrawNode
	case "nodeworkloadlocks/status patch", "nodeworkloadlocks/status update":
		return lockStateOf(event)
	}
	return ""
}

// cordonOf tells a patch that cordons from one that takes a cordon back, by a false or a null.
func cordonOf(event auditv1.Event) string {
	var patch struct {
		Spec map[string]any `json:"spec"`
	}
	if event.RequestObject == nil || json.Unmarshal(event.RequestObject.Raw, &patch) != nil {
		return ""
	}
	switch value, named := patch.Spec["unschedulable"]; {
	case value == true:
		return DeedCordon
	case named:
		return DeedUncordon
	}
	return ""
}

func lockStateOf(event auditv1.Event) string {
	var patch struct {
		Status lcmv1.WorkloadLockStatus `json:"status"`
	}
	if event.RequestObject == nil || json.Unmarshal(event.RequestObject.Raw, &patch) != nil {
		return ""
	}
	switch patch.Status.State {
	case lcmv1.LockInactive:
		return DeedLockInactive
	case lcmv1.LockActive:
		return DeedLockActive
	}
	return ""
}

func objectOf(event auditv1.Event) string {
	name := event.ObjectRef.Name
	if event.ObjectRef.Namespace != "" {
		name = event.ObjectRef.Namespace + "/" + name
	}
	return name
}

// Leftovers returns what Drydock has left behind in a cluster that is not under maintenance any more: cordons, marks, conditions,
// requests, and locks that are not active.
func Leftovers(ctx context.Context, reader client.Reader) ([]string, error) {
	var left []string
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes); err != nil {
		return nil, err
	}
	for _, node := range nodes.Items {
		left = append(left, leftoversOf(&node)...)
	}
	for _, list := range []client.ObjectList{&lcmv1.ClusterMaintenanceRequestList{}, &lcmv1.NodeMaintenanceRequestList{}} {
		if err := reader.List(ctx, list); err != nil {
			return nil, err
		}
		_ = meta.EachListItem(list, func(object runtime.Object) error {
			left = append(left, fmt.Sprintf("%T %s", object, object.(metav1.Object).GetName()))
			return nil
		})
	}
	var clusterLocks lcmv1.ClusterWorkloadLockList
	var nodeLocks lcmv1.NodeWorkloadLockList
	for _, list := range []client.ObjectList{&clusterLocks, &nodeLocks} {
		if err := reader.List(ctx, list); err != nil {
			return nil, err
		}
	}
	for _, lock := range clusterLocks.Items {
		if lock.Status.State != lcmv1.LockActive {
			left = append(left, fmt.Sprintf("ClusterWorkloadLock %s is %q", lock.Name, lock.Status.State))
		}
	}
	for _, lock := range nodeLocks.Items {
		if lock.Status.State != lcmv1.LockActive {
			left = append(left, fmt.Sprintf("NodeWorkloadLock %s is %q", lock.Name, lock.Status.State))
		}
	}
	return left, nil
}

func leftoversOf(node *corev1.Node) []string {
	var left []string
	if node.Spec.Unschedulable {
		left = append(left, "node "+node.Name+" is cordoned")
	}
	for annotation := range node.Annotations {
		if strings.HasPrefix(annotation, "drydock.dev/") {
			left = append(left, "node "+node.Name+" has annotation "+annotation)
		}
	}
	for _, condition := range node.Status.Conditions {
		for _, ours := range kube.NodeConditions() {
			if condition.Type == ours {
				left = append(left, "node "+node.Name+" has condition "+string(ours))
			}
		}
	}
	return left
}

// Count adds up deeds by what they are.
func Count(total map[string]int, deeds []Deed) map[string]int {
	if total == nil {
		total = map[string]int{}
	}
	for _, deed := range deeds {
		total[deed.What]++
	}
	return total
}

// Cordoned returns the nodes that were cordoned, each once, in the order of their first cordon.
func Cordoned(deeds []Deed) []string {
	var nodes []string
	for _, deed := range deeds {
		if deed.What == DeedCordon && !slices.Contains(nodes, deed.Object) {
			nodes = append(nodes, deed.Object)
		}
	}
	return nodes
}
