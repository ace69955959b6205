// +kubebuilder:object:generate=true
// +groupName=sreportal.io

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "sreportal.io", Version: "v1alpha1"}

// LabelPortal is the label with the portal that shows an object.
const LabelPortal = "sreportal.io/portal"

// ConditionReady is True while the portal shows the object.
const ConditionReady = "Ready"

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &Maintenance{}, &MaintenanceList{}, &Component{}, &ComponentList{}, &Incident{}, &IncidentList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
