package rollout

import (
	"cmp"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/safename"
)

// NodePlan lists the nodes of a cluster to maintain: the control plane one at a time, then the workers as budgets allow.
type NodePlan struct {
	ControlPlane []string      `json:"controlPlane"`
	Workers      []string      `json:"workers"`
	Skipped      []SkippedNode `json:"skipped"`
}

// SkippedNode is not maintained.
type SkippedNode struct {
	Name string `json:"name"`
	// Reason is SkipNodes, SkipMaintenance or NodeSelector.
	Reason string `json:"reason"`
}

// Reasons why a node is not maintained.
const (
	// ReasonSkipNodes: skipNodes names it.
	ReasonSkipNodes = "SkipNodes"
	// ReasonSkipMaintenance: an annotation of the node asks for it.
	ReasonSkipMaintenance = "SkipMaintenance"
	// ReasonNodeSelector: nodeSelector does not select it.
	ReasonNodeSelector = "NodeSelector"
)

// The labels of control-plane nodes. Clusters before Kubernetes 1.24 have the second one.
const (
	labelControlPlane = "node-role.kubernetes.io/control-plane"
	labelMaster       = "node-role.kubernetes.io/master"
)

// PlanNodes returns the nodes to maintain, sorted by name. If controlPlaneFirst is false, control-plane nodes count as workers. It returns an error
// if the node selector is invalid.
func PlanNodes(nodes []corev1.Node, spec ranv1.NodeMaintenanceRemediation) (NodePlan, error) {
	plan := NodePlan{ControlPlane: []string{}, Workers: []string{}, Skipped: []SkippedNode{}}
	selector := labels.Everything()
	if spec.NodeSelector != nil {
		var err error
		if selector, err = metav1.LabelSelectorAsSelector(spec.NodeSelector); err != nil {
			return NodePlan{}, fmt.Errorf("spec.nodeMaintenance.nodeSelector: %w", err)
		}
	}
	controlPlaneFirst := spec.ControlPlaneFirst == nil || *spec.ControlPlaneFirst
	for _, node := range nodes {
		switch {
		case slices.Contains(spec.SkipNodes, node.Name):
			plan.Skipped = append(plan.Skipped, SkippedNode{node.Name, ReasonSkipNodes})
		case metav1.HasAnnotation(node.ObjectMeta, lcmv1.AnnotationSkipMaintenance):
			plan.Skipped = append(plan.Skipped, SkippedNode{node.Name, ReasonSkipMaintenance})
		case !selector.Matches(labels.Set(node.Labels)):
			plan.Skipped = append(plan.Skipped, SkippedNode{node.Name, ReasonNodeSelector})
		case controlPlaneFirst && isControlPlane(node):
			plan.ControlPlane = append(plan.ControlPlane, node.Name)
		default:
			plan.Workers = append(plan.Workers, node.Name)
		}
	}
	slices.Sort(plan.ControlPlane)
	slices.Sort(plan.Workers)
	slices.SortFunc(plan.Skipped, func(a, b SkippedNode) int { return cmp.Compare(a.Name, b.Name) })
	return plan, nil
}

func isControlPlane(node corev1.Node) bool {
	_, controlPlane := node.Labels[labelControlPlane]
	_, master := node.Labels[labelMaster]
	return controlPlane || master
}

// NodeMaintenanceName is the name of the maintenance of a node in a rollout.
func NodeMaintenanceName(rollout, node string) string { return safename.Join("-", rollout, node) }

// RequestorID is the requestor ID of a rollout.
func RequestorID(rollout types.NamespacedName) string {
	return safename.Join(".", rollout.Name, rollout.Namespace, "cgu")
}

// NodeMaintenanceFor is the NodeMaintenance of one node in a rollout. It shares memory with remediation.
func NodeMaintenanceFor(rollout types.NamespacedName, remediation ranv1.NodeMaintenanceRemediation, node string) maintenancev1.NodeMaintenance {
	return maintenancev1.NodeMaintenance{
		TypeMeta: metav1.TypeMeta{APIVersion: maintenancev1.GroupVersion.String(), Kind: "NodeMaintenance"},
		ObjectMeta: metav1.ObjectMeta{
			Namespace: rollout.Namespace,
			Name:      NodeMaintenanceName(rollout.Name, node),
		},
		Spec: maintenancev1.NodeMaintenanceSpec{
			RequestorID:          RequestorID(rollout),
			NodeName:             node,
			Cordon:               new(true),
			WaitForPodCompletion: remediation.WaitForPodCompletion,
			DrainSpec:            remediation.DrainSpec,
			Action:               remediation.Action,
			HealthChecks:         remediation.HealthChecks,
			HealthTimeoutSeconds: remediation.HealthTimeoutSeconds,
			OnDrainTimeout:       remediation.OnDrainTimeout,
			OnFailure:            remediation.OnFailure,
			LockTimeoutSeconds:   remediation.LockTimeoutSeconds,
			LockRelease:          remediation.LockRelease,
		},
	}
}
