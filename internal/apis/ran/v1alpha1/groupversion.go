// +kubebuilder:object:generate=true
// +groupName=ran.openshift.io

package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// GroupVersion is the group and version of every kind in this package.
var GroupVersion = schema.GroupVersion{Group: "ran.openshift.io", Version: "v1alpha1"}

// AddToScheme registers the kinds of this package.
func AddToScheme(scheme *runtime.Scheme) error {
	scheme.AddKnownTypes(GroupVersion, &ClusterGroupUpgrade{}, &ClusterGroupUpgradeList{}, &PreCachingConfig{}, &PreCachingConfigList{})
	metav1.AddToGroupVersion(scheme, GroupVersion)
	return nil
}
