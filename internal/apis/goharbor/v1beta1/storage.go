package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// StorageKind says who keeps images and charts.
// +kubebuilder:validation:Enum=MinIO;S3;Swift;FileSystem;Azure;Gcs;Oss
type StorageKind string

// The kinds of storage. All but MinIO run elsewhere.
const (
	// MinIO is run by MinIO's operator.
	MinIO             StorageKind = "MinIO"
	S3                StorageKind = "S3"
	Swift             StorageKind = "Swift"
	FileSystemStorage StorageKind = "FileSystem"
	Azure             StorageKind = "Azure"
	Gcs               StorageKind = "Gcs"
	Oss               StorageKind = "Oss"
)

// Storage of Harbor's images and charts.
// +kubebuilder:validation:XValidation:rule="self.kind != 'MinIO' || has(self.spec.minIO)",message="spec.minIO must be set for kind MinIO"
// +kubebuilder:validation:XValidation:rule="self.kind != 'S3' || has(self.spec.s3)",message="spec.s3 must be set for kind S3"
// +kubebuilder:validation:XValidation:rule="self.kind != 'Swift' || has(self.spec.swift)",message="spec.swift must be set for kind Swift"
// +kubebuilder:validation:XValidation:rule="self.kind != 'FileSystem' || has(self.spec.fileSystem)",message="spec.fileSystem must be set for kind FileSystem"
// +kubebuilder:validation:XValidation:rule="self.kind != 'Azure' || has(self.spec.azure)",message="spec.azure must be set for kind Azure"
// +kubebuilder:validation:XValidation:rule="self.kind != 'Gcs' || has(self.spec.gcs)",message="spec.gcs must be set for kind Gcs"
// +kubebuilder:validation:XValidation:rule="self.kind != 'Oss' || has(self.spec.oss)",message="spec.oss must be set for kind Oss"
// +kubebuilder:validation:XValidation:rule="self.kind != 'MinIO' || !has(self.spec.redirect) || has(self.spec.redirect.enable) && !self.spec.redirect.enable || has(self.spec.redirect.expose)",message="spec.redirect.expose must have the ingress to which clients are sent, or spec.redirect.enable must be false"
// +kubebuilder:validation:XValidation:rule="self.kind != 'MinIO' || has(self.spec.redirect) || !has(self.spec.minIO) || !has(self.spec.minIO.redirect) || has(self.spec.minIO.redirect.enable) && !self.spec.minIO.redirect.enable || has(self.spec.minIO.redirect.expose)",message="spec.minIO.redirect.expose must have the ingress to which clients are sent, or spec.minIO.redirect.enable must be false"
type Storage struct {
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: the data would stay behind; delete the HarborCluster with deletionPolicy Retain, move the data, and apply it again"
	Kind StorageKind `json:"kind"`
	Spec StorageSpec `json:"spec"`
}

// StorageSpec holds the settings of each kind; those of other kinds are ignored. Those of services that run elsewhere are passed on to
// Harbor.
type StorageSpec struct {
	// +optional
	MinIO *MinIOSpec `json:"minIO,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	FileSystem *runtime.RawExtension `json:"fileSystem,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	S3 *runtime.RawExtension `json:"s3,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Swift *runtime.RawExtension `json:"swift,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Azure *runtime.RawExtension `json:"azure,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Gcs *runtime.RawExtension `json:"gcs,omitempty"`
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Oss *runtime.RawExtension `json:"oss,omitempty"`
	// Redirect sends clients to the storage itself, past Harbor. Absent: it does not for MinIO.
	// +optional
	Redirect *StorageRedirect `json:"redirect,omitempty"`
}

// StorageRedirect sends clients to the storage itself.
type StorageRedirect struct {
	// +kubebuilder:default=true
	// +optional
	Enable *bool `json:"enable,omitempty"`
	// Expose is how clients reach MinIO.
	// +optional
	Expose *StorageExpose `json:"expose,omitempty"`
}

// StorageExpose makes MinIO known outside of the cluster.
type StorageExpose struct {
	Ingress StorageIngress `json:"ingress"`
	// +optional
	TLS *StorageTLS `json:"tls,omitempty"`
}

// StorageIngress is the Ingress of MinIO.
type StorageIngress struct {
	// +kubebuilder:validation:MinLength=1
	Host string `json:"host"`
	// Controller is ignored: annotations and ingressClassName say the same.
	// +optional
	Controller string `json:"controller,omitempty"`
	// +optional
	Annotations map[string]string `json:"annotations,omitempty"`
	// +optional
	IngressClassName *string `json:"ingressClassName,omitempty"`
}

// StorageTLS is the certificate of MinIO's Ingress.
type StorageTLS struct {
	// CertificateRef names the Secret.
	// +kubebuilder:validation:MinLength=1
	CertificateRef string `json:"certificateRef"`
}

// MinIOSpec is a MinIO that its operator runs.
// +kubebuilder:validation:XValidation:rule="self.replicas * self.volumesPerServer >= 4",message="replicas * volumesPerServer must be 4 or more: MinIO spreads its data over 4 volumes at least"
type MinIOSpec struct {
	Image `json:",inline"`
	// OperatorVersion is ignored; the operator that runs in the cluster does the work.
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// Redirect is the older place of storage.spec.redirect, which wins.
	// +optional
	Redirect *StorageRedirect `json:"redirect,omitempty"`
	// SecretRef names the Secret with accesskey and secretkey. Absent: one is made.
	// +optional
	SecretRef string `json:"secretRef,omitempty"`
	// Replicas is the number of servers.
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	Replicas int32 `json:"replicas"`
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=1000
	VolumesPerServer int32 `json:"volumesPerServer"`
	// VolumeClaimTemplate is passed on. Absent: 10Gi of the cluster's default class.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	VolumeClaimTemplate *runtime.RawExtension `json:"volumeClaimTemplate,omitempty"`
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// Client is MinIO's command line, which makes the bucket.
	// +optional
	Client *Image `json:"mc,omitempty"`
}
