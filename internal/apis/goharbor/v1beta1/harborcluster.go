package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// HarborCluster is a Harbor with its database, cache and storage.
// +kubebuilder:object:root=true
// +kubebuilder:subresource:status
// +kubebuilder:printcolumn:name="Public URL",type=string,JSONPath=`.spec.externalURL`
// +kubebuilder:printcolumn:name="Status",type=string,JSONPath=`.status.status`
// +kubebuilder:printcolumn:name="Operator Version",type=string,JSONPath=`.status.operator.controllerVersion`,priority=30
// +kubebuilder:printcolumn:name="Operator Git Commit",type=string,JSONPath=`.status.operator.controllerGitCommit`,priority=30
type HarborCluster struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	Spec HarborClusterSpec `json:"spec"`
	// +optional
	Status HarborClusterStatus `json:"status,omitempty"`
}

// HarborClusterSpec says which Harbor, and on what.
type HarborClusterSpec struct {
	HarborSettings `json:",inline"`

	Database Database `json:"database"`
	Cache    Cache    `json:"cache"`
	Storage  Storage  `json:"storage"`

	// ProgressDeadlineSeconds is how long the database, the cache and the storage may each take to become ready for the first time before
	// they count as not ready (addition).
	// +kubebuilder:default=900
	// +kubebuilder:validation:Minimum=1
	// +optional
	ProgressDeadlineSeconds *int32 `json:"progressDeadlineSeconds,omitempty"`
	// DeletionPolicy says whether the data is deleted with the HarborCluster (addition).
	// +kubebuilder:default=Retain
	// +optional
	DeletionPolicy DeletionPolicy `json:"deletionPolicy,omitempty"`
}

// DeletionPolicy says whether data is deleted.
// +kubebuilder:validation:Enum=Retain;Delete
type DeletionPolicy string

// The deletion policies.
const (
	RetainData DeletionPolicy = "Retain"
	DeleteData DeletionPolicy = "Delete"
)

// HarborSettings are passed on to Harbor. Those without a type of their own are judged by Harbor's own operator.
type HarborSettings struct {
	// Version of Harbor, e.g. 2.5.0.
	// +kubebuilder:validation:Pattern=`^[0-9]+\.[0-9]+\.[0-9]+$`
	// +kubebuilder:validation:MaxLength=32
	// +kubebuilder:validation:XValidation:rule="self == oldSelf || int(self.split('.')[0]) > int(oldSelf.split('.')[0]) || int(self.split('.')[0]) == int(oldSelf.split('.')[0]) && (int(self.split('.')[1]) > int(oldSelf.split('.')[1]) || int(self.split('.')[1]) == int(oldSelf.split('.')[1]) && int(self.split('.')[2]) >= int(oldSelf.split('.')[2]))",message="cannot be lowered: Harbor does not migrate its database back"
	Version string `json:"version"`
	// ExternalURL is where users reach Harbor.
	// +kubebuilder:validation:Pattern=`^https?://.+`
	ExternalURL string `json:"externalURL"`
	// HarborAdminPasswordRef names the Secret with the password of Harbor's administrator.
	// +kubebuilder:validation:Pattern=`^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$`
	HarborAdminPasswordRef string `json:"harborAdminPasswordRef"`
	// +kubebuilder:default=info
	// +optional
	LogLevel string `json:"logLevel,omitempty"`
	// +kubebuilder:default=RollingUpdate
	// +kubebuilder:validation:Enum=RollingUpdate;Recreate
	// +optional
	UpdateStrategyType string `json:"updateStrategyType,omitempty"`
	// ImageSource is where Harbor's images come from. Its pull policy and secrets also hold for the images of database, cache and storage.
	// +optional
	ImageSource *ImageSource `json:"imageSource,omitempty"`

	// +kubebuilder:pruning:PreserveUnknownFields
	Expose runtime.RawExtension `json:"expose"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	InternalTLS *runtime.RawExtension `json:"internalTLS,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Proxy *runtime.RawExtension `json:"proxy,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Network *runtime.RawExtension `json:"network,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Trace *runtime.RawExtension `json:"trace,omitempty"`

	HarborComponents `json:",inline"`
}

// HarborComponents are the settings of Harbor's parts.
type HarborComponents struct {
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Portal *runtime.RawExtension `json:"portal,omitempty"`
	// Core needs a tokenIssuer.
	// +kubebuilder:pruning:PreserveUnknownFields
	Core runtime.RawExtension `json:"core"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	JobService *runtime.RawExtension `json:"jobservice,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Registry *runtime.RawExtension `json:"registry,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	RegistryController *runtime.RawExtension `json:"registryctl,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	ChartMuseum *runtime.RawExtension `json:"chartmuseum,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Exporter *runtime.RawExtension `json:"exporter,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Trivy *runtime.RawExtension `json:"trivy,omitempty"`
	// Notary needs two databases of its own.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Notary *runtime.RawExtension `json:"notary,omitempty"`
}

// ImageSource says where images come from.
type ImageSource struct {
	Repository string `json:"repository"`
	// +optional
	TagSuffix string `json:"tagSuffix,omitempty"`
	ImagePull `json:",inline"`
}

// Image of a service. Absent: the one that the operator of the service takes.
type Image struct {
	// +optional
	Image     string `json:"image,omitempty"`
	ImagePull `json:",inline"`
}

// ImagePull says how images are pulled.
type ImagePull struct {
	// +kubebuilder:validation:Enum=Always;Never;IfNotPresent
	// +optional
	ImagePullPolicy corev1.PullPolicy `json:"imagePullPolicy,omitempty"`
	// +optional
	ImagePullSecrets []corev1.LocalObjectReference `json:"imagePullSecrets,omitempty"`
}

// HarborClusterList is a list of HarborCluster.
// +kubebuilder:object:root=true
type HarborClusterList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []HarborCluster `json:"items"`
}
