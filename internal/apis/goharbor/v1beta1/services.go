package v1beta1

import (
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
)

// DatabaseKind says who runs the database.
// +kubebuilder:validation:Enum=PostgreSQL;Zlando/PostgreSQL
type DatabaseKind string

// The kinds of database. The spelling of Zalando is that of the Harbor operator.
const (
	// ExternalPostgreSQL runs elsewhere.
	ExternalPostgreSQL DatabaseKind = "PostgreSQL"
	// ZalandoPostgreSQL is run by the Postgres operator of Zalando.
	ZalandoPostgreSQL DatabaseKind = "Zlando/PostgreSQL"
)

// Database of Harbor.
// +kubebuilder:validation:XValidation:rule="self.kind != 'PostgreSQL' || has(self.spec.postgresql)",message="spec.postgresql must be set for kind PostgreSQL"
// +kubebuilder:validation:XValidation:rule="self.kind != 'Zlando/PostgreSQL' || has(self.spec.zlandoPostgreSql)",message="spec.zlandoPostgreSql must be set for kind Zlando/PostgreSQL"
type Database struct {
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: the data would stay behind; delete the HarborCluster with deletionPolicy Retain, move the data, and apply it again"
	Kind DatabaseKind `json:"kind"`
	Spec DatabaseSpec `json:"spec"`
}

// DatabaseSpec holds the settings of each kind; those of other kinds are ignored.
type DatabaseSpec struct {
	// PostgreSQL is passed on to Harbor: hosts[], username, passwordRef, sslMode, prefix.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	PostgreSQL *runtime.RawExtension `json:"postgresql,omitempty"`
	// +optional
	Zalando *ZalandoSpec `json:"zlandoPostgreSql,omitempty"`
}

// ZalandoSpec is a PostgreSQL that the operator of Zalando runs.
type ZalandoSpec struct {
	Image `json:",inline"`
	// OperatorVersion is ignored; the operator that runs in the cluster does the work.
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// Version of PostgreSQL (addition).
	// +kubebuilder:default="15"
	// +kubebuilder:validation:Pattern=`^[0-9]+$`
	// +optional
	Version string `json:"version,omitempty"`
	// +kubebuilder:default=3
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replicas   *int32 `json:"replicas,omitempty"`
	VolumeSpec `json:",inline"`
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// SSLConfig is the sslmode of Harbor's connections.
	// +kubebuilder:default=require
	// +kubebuilder:validation:Enum=disable;allow;prefer;require;verify-ca;verify-full
	// +optional
	SSLConfig string `json:"sslConfig,omitempty"`
	// ConnectTimeout is ignored: Harbor has no such setting.
	// +optional
	ConnectTimeout int32 `json:"connectTimeout,omitempty"`
}

// VolumeSpec is the volume of each replica.
type VolumeSpec struct {
	// Storage is the size, e.g. 10Gi.
	// +kubebuilder:default="1Gi"
	// +kubebuilder:validation:Pattern=`^[0-9]+(\.[0-9]+)?(Ki|Mi|Gi|Ti|Pi|Ei|k|M|G|T|P|E)?$`
	// +optional
	Storage string `json:"storage,omitempty"`
	// StorageClassName is absent for the cluster's default class.
	// +optional
	StorageClassName string `json:"storageClassName,omitempty"`
}

// CacheKind says who runs the cache.
// +kubebuilder:validation:Enum=Redis;RedisFailover
type CacheKind string

// The kinds of cache.
const (
	// ExternalRedis runs elsewhere.
	ExternalRedis CacheKind = "Redis"
	// RedisFailover is run by the Redis operator of Spotahome.
	RedisFailover CacheKind = "RedisFailover"
)

// Cache of Harbor.
// +kubebuilder:validation:XValidation:rule="self.kind != 'Redis' || has(self.spec.redis)",message="spec.redis must be set for kind Redis"
// +kubebuilder:validation:XValidation:rule="self.kind != 'RedisFailover' || has(self.spec.redisFailover)",message="spec.redisFailover must be set for kind RedisFailover"
type Cache struct {
	// +kubebuilder:validation:XValidation:rule="self == oldSelf",message="cannot be changed: the data would stay behind; delete the HarborCluster with deletionPolicy Retain, move the data, and apply it again"
	Kind CacheKind `json:"kind"`
	Spec CacheSpec `json:"spec"`
}

// CacheSpec holds the settings of each kind; those of other kinds are ignored.
type CacheSpec struct {
	// Redis is passed on to Harbor: host, port, sentinelMasterSet, passwordRef, certificateRef.
	// +kubebuilder:pruning:PreserveUnknownFields
	// +optional
	Redis *runtime.RawExtension `json:"redis,omitempty"`
	// +optional
	RedisFailover *RedisFailoverSpec `json:"redisFailover,omitempty"`
}

// RedisFailoverSpec is a Redis with sentinels that the operator of Spotahome runs.
type RedisFailoverSpec struct {
	Image `json:",inline"`
	// OperatorVersion is ignored; the operator that runs in the cluster does the work.
	// +optional
	OperatorVersion string `json:"operatorVersion,omitempty"`
	// +kubebuilder:default={}
	// +optional
	Server RedisServer `json:"server,omitempty"`
	// +kubebuilder:default={}
	// +optional
	Sentinel RedisSentinel `json:"sentinel,omitempty"`
}

// RedisServer is the part that holds data.
type RedisServer struct {
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replicas   *int32 `json:"replicas,omitempty"`
	VolumeSpec `json:",inline"`
	// +optional
	Resources corev1.ResourceRequirements `json:"resources,omitempty"`
	// ServiceAccountName is the account of the servers' pods.
	// +optional
	ServiceAccountName string `json:"serviceAccountName,omitempty"`
}

// RedisSentinel is the part that watches the servers.
type RedisSentinel struct {
	// +kubebuilder:default=1
	// +kubebuilder:validation:Minimum=1
	// +optional
	Replicas *int32 `json:"replicas,omitempty"`
}
