package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// PreCachingConfig says what rollouts that refer to it pull onto the clusters beforehand, where their policies should not. It is read on the hub.
// +kubebuilder:object:root=true
// +kubebuilder:resource:path=precachingconfigs
type PreCachingConfig struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`

	// +optional
	Spec PreCachingConfigSpec `json:"spec,omitempty"`
}

// PreCachingConfigSpec is what is pulled, and how much room it needs.
type PreCachingConfigSpec struct {
	// Overrides name the software, instead of the policies of the rollout, and the image that pulls it.
	// +optional
	Overrides PlatformPreCachingSpec `json:"overrides,omitempty"`
	// SpaceRequired on a cluster, such as "40 GiB" or "45 GB", rounded up to whole GiB; "35 GiB" when absent.
	// +optional
	SpaceRequired string `json:"spaceRequired,omitempty"`
	// ExcludePrecachePatterns are basic regular expressions: images of the release whose name one of them matches are not pulled.
	// +optional
	ExcludePrecachePatterns []string `json:"excludePrecachePatterns,omitempty"`
	// AdditionalImages are pulled as well.
	// +optional
	AdditionalImages []string `json:"additionalImages,omitempty"`
}

// PlatformPreCachingSpec names the software to pull.
type PlatformPreCachingSpec struct {
	// PlatformImage is the release image of the platform; that of the ClusterVersion in the policies when absent.
	// +optional
	PlatformImage string `json:"platformImage,omitempty"`
	// OperatorsIndexes are the index images of operator catalogs; those of the CatalogSources in the policies when absent.
	// +optional
	OperatorsIndexes []string `json:"operatorsIndexes,omitempty"`
	// OperatorsPackagesAndChannels of those catalogs, as package:channel; those of the Subscriptions in the policies when absent.
	// +optional
	OperatorsPackagesAndChannels []string `json:"operatorsPackagesAndChannels,omitempty"`
	// PreCacheImage is the image of the Job that pulls; the worker's --precache-image when absent.
	// +optional
	PreCacheImage string `json:"preCacheImage,omitempty"`
}

// PreCachingConfigList is a list of PreCachingConfig.
// +kubebuilder:object:root=true
type PreCachingConfigList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitempty"`

	Items []PreCachingConfig `json:"items"`
}
