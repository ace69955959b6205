package manifest

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	sreportalv1 "drydock.dev/drydock/internal/apis/sreportal/v1alpha1"
	"drydock.dev/drydock/internal/drain"
	"drydock.dev/drydock/internal/notify"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/windows"
)

// validateMeaning checks the rules that no schema can express: selectors, regular expressions and recurrences. An invalid selector must never count
// as one that selects nothing.
func validateMeaning(object runtime.Object) field.ErrorList {
	spec := field.NewPath("spec")
	switch object := object.(type) {
	case *ranv1.ClusterGroupUpgrade:
		_, invalid := rollout.Selectors(&object.Spec)
		invalid = append(invalid, rollout.CheckActions(&object.Spec.Actions, spec.Child("actions"))...)
		invalid = append(invalid, rollout.CheckStrategy(&object.Spec)...)
		invalid = append(invalid, rollout.CheckTemplates(&object.Spec)...)
		invalid = append(invalid, validateHealthChecks(object.Spec.HealthChecks, spec.Child("healthChecks"))...)
		invalid = append(invalid, notify.CheckReceivers(spec.Child("notify"), object.Spec.Notify, "rollout")...)
		if remediation := object.Spec.NodeMaintenance; remediation != nil {
			invalid = append(invalid, validateRemediation(remediation, spec.Child("nodeMaintenance"))...)
		}
		return invalid
	case *ranv1.PreCachingConfig:
		return precache.CheckConfig(&object.Spec)
	case *maintenancev1.NodeMaintenance:
		invalid := validateNodeWork(object.Spec.WaitForPodCompletion, object.Spec.DrainSpec, object.Spec.HealthChecks, spec)
		return append(invalid, notify.CheckReceivers(spec.Child("notify"), object.Spec.Notify, "maintenance")...)
	case *maintenancev1.MaintenanceOperatorConfig:
		var invalid field.ErrorList
		for i, budget := range object.Spec.Budgets {
			invalid = append(invalid, validateMatches(metav1.FormatLabelSelector(budget.NodeSelector.LabelSelector()), spec.Child("budgets").Index(i).Child("nodeSelector"))...)
		}
		return invalid
	case *drydockv1.WorkloadLockPolicy:
		invalid := validateSelector(&object.Spec.NodeSelector, spec.Child("nodeSelector"))
		invalid = append(invalid, validateSelector(&object.Spec.NodePodSelector, spec.Child("nodePodSelector"))...)
		return append(invalid, validateHealthChecks(object.Spec.ClusterHealth, spec.Child("clusterHealth"))...)
	case *drydockv1.MaintenanceWindow:
		invalid := append(windows.Check(&object.Spec, spec), validateSelector(object.Spec.Selector, spec.Child("selector"))...)
		return append(invalid, validatePortal(object.Spec.PortalRef, spec.Child("portalRef"))...)
	case *sreportalv1.Maintenance:
		return append(windows.CheckMaintenance(&object.Spec, spec), validatePortal(object.Spec.PortalRef, spec.Child("portalRef"))...)
	case *sreportalv1.Incident:
		invalid := validatePortal(object.Spec.PortalRef, spec.Child("portalRef"))
		if len(object.Spec.Updates) == 0 {
			invalid = append(invalid, field.Required(spec.Child("updates"), "without an update the incident has no phase"))
		}
		return invalid
	case *sreportalv1.Component:
		return validatePortal(object.Spec.PortalRef, spec.Child("portalRef"))
	}
	return nil
}

// validatePortal checks the name of a portal, if there is one.
func validatePortal(name string, path *field.Path) field.ErrorList {
	if name == "" || portal.CheckName(name) == nil {
		return nil
	}
	return field.ErrorList{field.Invalid(path, name, "is not the name of a portal: lower-case letters, digits, '-' and '.'")}
}

// validateRemediation checks the rules that no schema can express for a rollout's nodeMaintenance; path is that of its field.
func validateRemediation(remediation *ranv1.NodeMaintenanceRemediation, path *field.Path) field.ErrorList {
	invalid := validateSelector(remediation.NodeSelector, path.Child("nodeSelector"))
	return append(invalid, validateNodeWork(remediation.WaitForPodCompletion, remediation.DrainSpec, remediation.HealthChecks, path)...)
}

// validateNodeWork checks the fields that a NodeMaintenance and a rollout's nodeMaintenance share.
func validateNodeWork(
	wait *maintenancev1.WaitForPodCompletionSpec, drained *maintenancev1.DrainSpec, checks []drydockv1.HealthCheck, path *field.Path,
) field.ErrorList {
	var invalid field.ErrorList
	if wait != nil {
		path := path.Child("waitForPodCompletion")
		invalid = append(invalid, drain.CheckCompletion(*wait, path)...)
		invalid = append(invalid, validateMatches(wait.PodSelector, path.Child("podSelector"))...)
	}
	if drained != nil {
		path := path.Child("drainSpec")
		invalid = append(invalid, drain.CheckFilters(*drained, path)...)
		invalid = append(invalid, validateMatches(drained.PodSelector, path.Child("podSelector"))...)
		for i, entry := range drained.PodOrder {
			invalid = append(invalid, validateMatches(entry.PodSelector, path.Child("podOrder").Index(i).Child("podSelector"))...)
		}
	}
	return append(invalid, validateHealthChecks(checks, path.Child("healthChecks"))...)
}

// validateHealthChecks checks the rules that no schema can express for health checks; path is that of their list.
func validateHealthChecks(checks []drydockv1.HealthCheck, path *field.Path) field.ErrorList {
	var invalid field.ErrorList
	for i, check := range checks {
		path := path.Index(i)
		if check.Condition != nil {
			invalid = append(invalid, validateSelector(check.Condition.Selector, path.Child("condition", "selector"))...)
			if _, err := schema.ParseGroupVersion(check.Condition.APIVersion); err != nil {
				invalid = append(invalid, field.Invalid(path.Child("condition", "apiVersion"), check.Condition.APIVersion, err.Error()))
			}
		}
		if check.Workload != nil {
			invalid = append(invalid, validateSelector(check.Workload.Selector, path.Child("workload", "selector"))...)
		}
		if check.Pods != nil {
			invalid = append(invalid, validateSelector(check.Pods.Selector, path.Child("pods", "selector"))...)
		}
		if check.Node != nil {
			invalid = append(invalid, validateSelector(check.Node.Selector, path.Child("node", "selector"))...)
		}
		if check.CEL != nil {
			invalid = append(invalid, validateCEL(check.CEL, path.Child("cel"))...)
		}
	}
	return invalid
}
