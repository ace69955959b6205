package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// BudgetSelector picks the nodes of a budget by their labels. It reads as a metav1.LabelSelector; being bounded, the API server can check what it asks.
// +structType=atomic
type BudgetSelector struct {
	// MatchLabels are labels that a node must have, each with this value.
	// +kubebuilder:validation:MaxProperties=8
	// +kubebuilder:validation:XValidation:rule="self.all(key, key.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$'))",message="must have keys of labels, e.g. topology.kubernetes.io/zone"
	// +optional
	MatchLabels map[string]LabelValue `json:"matchLabels,omitempty"`
	// MatchExpressions are demands on the labels of a node, all of which it must meet.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=8
	// +optional
	MatchExpressions []LabelDemand `json:"matchExpressions,omitempty"`
}

// LabelValue is the value of a label.
// +kubebuilder:validation:MaxLength=63
// +kubebuilder:validation:XValidation:rule="self.matches('^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$')",message="must be the value of a label: letters, digits, '-', '_' and '.', beginning and ending with a letter or digit"
type LabelValue string

// LabelDemand is what a selector asks of one label.
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['In', 'NotIn']) || (has(self.values) && size(self.values) > 0)",fieldPath=".values",message="must be given for the operators In and NotIn"
// +kubebuilder:validation:XValidation:rule="!(self.operator in ['Exists', 'DoesNotExist']) || !has(self.values) || size(self.values) == 0",fieldPath=".values",message="must not be given for the operators Exists and DoesNotExist"
type LabelDemand struct {
	// Key of the label.
	// +kubebuilder:validation:MaxLength=317
	// +kubebuilder:validation:XValidation:rule="self.matches('^([a-z0-9]([-a-z0-9]*[a-z0-9])?([.][a-z0-9]([-a-z0-9]*[a-z0-9])?)*/)?[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?$')",message="must be the key of a label, e.g. topology.kubernetes.io/zone"
	Key string `json:"key"`
	// Operator says what is asked of the label.
	// +kubebuilder:validation:Enum=In;NotIn;Exists;DoesNotExist
	Operator metav1.LabelSelectorOperator `json:"operator"`
	// Values that the label must, or must not have: for the operators In and NotIn.
	// +listType=atomic
	// +kubebuilder:validation:MaxItems=32
	// +optional
	Values []LabelValue `json:"values,omitempty"`
}

// LabelSelector returns it as Kubernetes' libraries take it; nil for nil, which picks all nodes of a budget.
func (s *BudgetSelector) LabelSelector() *metav1.LabelSelector {
	if s == nil {
		return nil
	}
	selector := &metav1.LabelSelector{}
	//workflowcheck:ignore a map is copied
	for key, value := range s.MatchLabels {
		metav1.AddLabelToSelector(selector, key, string(value))
	}
	for _, demand := range s.MatchExpressions {
		requirement := metav1.LabelSelectorRequirement{Key: demand.Key, Operator: demand.Operator}
		for _, value := range demand.Values {
			requirement.Values = append(requirement.Values, string(value))
		}
		selector.MatchExpressions = append(selector.MatchExpressions, requirement)
	}
	return selector
}
