package fleet

import (
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"drydock.dev/drydock/internal/kube"
)

// ours are the writes of Drydock on spokes, except to nodes and for HarborClusters.
var ours = []string{
	"pods/eviction create", "jobs create", "jobs patch", "jobs delete",
	"clustermaintenancerequests create", "clustermaintenancerequests delete", "nodemaintenancerequests create", "nodemaintenancerequests delete",
	"clusterworkloadlocks create", "clusterworkloadlocks patch", "clusterworkloadlocks delete", "clusterworkloadlocks/status patch",
	"nodeworkloadlocks create", "nodeworkloadlocks patch", "nodeworkloadlocks delete", "nodeworkloadlocks/status patch",
}

// requests are the kinds of objects that request work. Drydock writes their status and metadata, and never their spec.
var requests = []string{"nodemaintenances", "workloadlockpolicies", "clustergroupupgrades", "maintenancewindows", "maintenances", "components"}

// registries are the writes of Drydock for HarborClusters, as in deploy/rbac/harbor.yaml. The role is bound only in namespaces with HarborClusters,
// so the API server refuses these writes elsewhere.
var registries = []string{
	"harborclusters patch", "harborclusters delete", "harborclusters/status update", "harbors patch", "harbors delete", "postgresqls patch", "postgresqls delete",
	"redisfailovers patch", "redisfailovers delete", "tenants patch", "tenants delete", "ingresses patch", "ingresses delete",
	"secrets create", "secrets patch", "secrets delete", "persistentvolumeclaims deletecollection",
}

// foreign returns the foreign object that a request of Drydock writes; "" if there is none.
func (r request) foreign() string {
	switch {
	case slices.Contains([]string{"get", "list", "watch"}, r.Verb), strings.HasSuffix(r.ObjectRef.APIGroup, ".k8s.io") && strings.HasPrefix(r.ObjectRef.Resource, "self"):
		return ""
	case r.is("nodes patch"):
		return r.foreignOnNode()
	case r.is("nodes/status patch"):
		return r.foreignCondition()
	case slices.Contains(requests, r.ObjectRef.Resource) && r.Verb == "patch":
		return r.foreignInRequest()
	case slices.ContainsFunc(ours, r.is), slices.ContainsFunc(registries, r.is), r.is("configmaps create") && r.prepares():
		return ""
	}
	return r.Verb + " " + strings.TrimSuffix(r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource, "/")
}

func (r request) foreignInRequest() string {
	var patch struct{ Spec map[string]any }
	if r.read(&patch); patch.Spec != nil {
		return "spec of " + r.ObjectRef.Resource
	}
	return ""
}

func (r request) foreignOnNode() string {
	var patch nodePatch
	r.read(&patch)
	for annotation := range patch.Metadata.Annotations {
		if !slices.Contains([]string{kube.AnnotationOwner, kube.AnnotationFormerState, kube.AnnotationKeepOnFailure}, annotation) {
			return "annotation " + annotation
		}
	}
	for label := range patch.Metadata.Labels {
		if label != kube.LabelMaintenance {
			return "label " + label
		}
	}
	for field := range patch.Spec {
		if field != "unschedulable" {
			return "spec." + field
		}
	}
	return ""
}

func (r request) foreignCondition() string {
	var patch struct {
		Status struct {
			Conditions []struct {
				Type corev1.NodeConditionType `json:"type"`
			} `json:"conditions"`
		} `json:"status"`
	}
	r.read(&patch)
	for _, condition := range patch.Status.Conditions {
		if !slices.Contains(kube.NodeConditions(), condition.Type) {
			return "condition " + string(condition.Type)
		}
	}
	return ""
}
