// +kubebuilder:object:generate=true
// +groupName=lcm.mirantis.com

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "lcm.mirantis.com", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion,
		&ClusterMaintenanceRequest{}, &ClusterMaintenanceRequestList{},
		&NodeMaintenanceRequest{}, &NodeMaintenanceRequestList{},
		&NodeDeletionRequest{}, &NodeDeletionRequestList{},
		&NodeDisableNotification{}, &NodeDisableNotificationList{},
		&ClusterWorkloadLock{}, &ClusterWorkloadLockList{},
		&NodeWorkloadLock{}, &NodeWorkloadLockList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
