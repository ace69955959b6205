package v1alpha1

import metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

// HealthCheck is one condition that must hold before work continues. Exactly one of Condition, Workload, Pods, Node, CEL, Prometheus, HTTP and
// HarborCluster says what is checked.
// +kubebuilder:validation:XValidation:rule="(has(self.condition) ? 1 : 0) + (has(self.workload) ? 1 : 0) + (has(self.pods) ? 1 : 0) + (has(self.node) ? 1 : 0) + (has(self.cel) ? 1 : 0) + (has(self.prometheus) ? 1 : 0) + (has(self.http) ? 1 : 0) + (has(self.harborCluster) ? 1 : 0) == 1",message="exactly one of condition, workload, pods, node, cel, prometheus, http and harborCluster must be set"
type HealthCheck struct {
	// Name is shown wherever the check is reported.
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
	// Condition checks a status condition of one object or of all that a selector picks.
	// +optional
	Condition *ConditionCheck `json:"condition,omitempty"`
	// Workload checks that workloads are available at their current generation.
	// +optional
	Workload *WorkloadCheck `json:"workload,omitempty"`
	// Pods checks that all containers of pods are ready.
	// +optional
	Pods *PodCheck `json:"pods,omitempty"`
	// Node checks that nodes are Ready.
	// +optional
	Node *NodeCheck `json:"node,omitempty"`
	// CEL checks an expression over one object or over each that a selector picks.
	// +optional
	CEL *CELCheck `json:"cel,omitempty"`
	// Prometheus checks what a query gives.
	// +optional
	Prometheus *PrometheusCheck `json:"prometheus,omitempty"`
	// HTTP checks how an address answers.
	// +optional
	HTTP *HTTPCheck `json:"http,omitempty"`
	// HarborCluster checks that a Harbor is not unhealthy.
	// +optional
	HarborCluster *HarborClusterCheck `json:"harborCluster,omitempty"`
	// TimeoutSeconds is how long the check may stay false before it has failed. 0: no limit.
	// +kubebuilder:default=300
	// +kubebuilder:validation:Minimum=0
	// +optional
	TimeoutSeconds *int32 `json:"timeoutSeconds,omitempty"`
	// StableSeconds is how long the check must stay true before it counts.
	// +kubebuilder:validation:Minimum=0
	// +optional
	StableSeconds int32 `json:"stableSeconds,omitempty"`
}

// ConditionCheck wants a status condition on an object.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="exactly one of name and selector must be set"
type ConditionCheck struct {
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// Selector picks objects; none found is not healthy.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Type of the condition.
	// +kubebuilder:validation:MinLength=1
	Type string `json:"type"`
	// Status that is wanted.
	// +kubebuilder:default="True"
	// +kubebuilder:validation:Enum="True";"False";Unknown
	// +optional
	Status metav1.ConditionStatus `json:"status,omitempty"`
}

// WorkloadKind is a kind of workload that a WorkloadCheck looks at.
// +kubebuilder:validation:Enum=Deployment;StatefulSet;DaemonSet
type WorkloadKind string

// The kinds of workload.
const (
	Deployment  WorkloadKind = "Deployment"
	StatefulSet WorkloadKind = "StatefulSet"
	DaemonSet   WorkloadKind = "DaemonSet"
)

// WorkloadCheck wants every Deployment, StatefulSet and DaemonSet it picks to be fully available.
type WorkloadCheck struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// Kinds to look at; absent: all three.
	// +optional
	Kinds []WorkloadKind `json:"kinds,omitempty"`
	// Selector picks by label; absent: every workload of the namespace.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// NodeCheck wants nodes to be Ready.
type NodeCheck struct {
	// Selector picks nodes by label; absent: the node under maintenance, or every node in a check of a cluster.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// PodCheck wants every pod it picks to have all its containers ready, and at least one such pod. Pods that are done or on their way out do
// not count.
type PodCheck struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// Selector picks by label; absent: every pod of the namespace.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
}

// CELCheck wants an expression to be true of objects.
// +kubebuilder:validation:XValidation:rule="has(self.name) != has(self.selector)",message="exactly one of name and selector must be set"
type CELCheck struct {
	// +kubebuilder:validation:MinLength=1
	APIVersion string `json:"apiVersion"`
	// +kubebuilder:validation:MinLength=1
	Kind string `json:"kind"`
	// +optional
	Namespace string `json:"namespace,omitempty"`
	// +optional
	Name string `json:"name,omitempty"`
	// Selector picks objects; none found is not healthy.
	// +optional
	Selector *metav1.LabelSelector `json:"selector,omitempty"`
	// Expression of the Common Expression Language over the variable object, e.g. object.status.phase == 'Running'.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Expression string `json:"expression"`
}

// PrometheusCheck wants every sample that a query gives to be as expected, and at least one sample.
type PrometheusCheck struct {
	// URL of the server, without user and password; its path is that under which the API is, e.g. http://prometheus.monitoring:9090.
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+(/[^?#]*)?$`
	URL string `json:"url"`
	// SecretRef names the Secret with the user and password.
	// +optional
	SecretRef *HealthCheckSecret `json:"secretRef,omitempty"`
	// Query in PromQL.
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=4096
	Query string `json:"query"`
	// Expected is a comparison with a number: "== 0", ">= 0.99".
	// +kubebuilder:validation:Pattern=`^(==|!=|<|<=|>|>=) ?-?[0-9]+(\.[0-9]+)?$`
	Expected string `json:"expected"`
	// MaxAgeSeconds is how old a sample may be. The check must hold for as long, at least, so that what opens a gate was measured after
	// the work.
	// +kubebuilder:default=60
	// +kubebuilder:validation:Minimum=1
	// +kubebuilder:validation:Maximum=3600
	// +optional
	MaxAgeSeconds int32 `json:"maxAgeSeconds,omitempty"`
}

// HarborClusterCheck wants a HarborCluster not to be unhealthy: healthy, or on its way there for the first time. It is judged by its services as they are then,
// not by what its status says.
type HarborClusterCheck struct {
	// +kubebuilder:validation:MinLength=1
	Namespace string `json:"namespace"`
	// +kubebuilder:validation:MinLength=1
	Name string `json:"name"`
}

// HTTPCheck wants an address to answer a GET with a status. Redirects are not followed: they are an answer.
type HTTPCheck struct {
	// URL, without user and password.
	// +kubebuilder:validation:Pattern=`^https?://[^/?#@]+([/?#].*)?$`
	URL string `json:"url"`
	// SecretRef names the Secret with the user and password.
	// +optional
	SecretRef *HealthCheckSecret `json:"secretRef,omitempty"`
	// +kubebuilder:default=200
	// +kubebuilder:validation:Minimum=100
	// +kubebuilder:validation:Maximum=599
	// +optional
	Status int32 `json:"status,omitempty"`
}

// HealthCheckSecret names a Secret of the cluster of the check, in the namespace drydock-health-checks. Its keys username and password are sent as basic
// authentication to the hosts in its annotation drydock.dev/hosts, and to no other: who may write health checks could have it sent anywhere.
type HealthCheckSecret struct {
	// +kubebuilder:validation:MinLength=1
	// +kubebuilder:validation:MaxLength=253
	Name string `json:"name"`
}

const (
	// HealthCheckSecretNamespace is the namespace of the Secrets of health checks.
	HealthCheckSecretNamespace = "drydock-health-checks"
	// AnnotationHosts lists the hosts to which a Secret of health checks may be sent, as in an address: with the port if it has one, separated by commas.
	AnnotationHosts = "drydock.dev/hosts"
)
