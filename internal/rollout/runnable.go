package rollout

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// NotYetRunnable names the fields of a rollout that can be read and planned but not carried out. A rollout that has one is refused at
// the start, enabled or not: ignoring a field would do something else than was asked for.
func NotYetRunnable(cgu *ranv1.ClusterGroupUpgrade) field.ErrorList {
	spec := field.NewPath("spec")
	var refused field.ErrorList
	refuse := func(set bool, path *field.Path) {
		if set {
			//workflowcheck:ignore field paths are printed with fmt.Fprintf, but into memory
			refused = append(refused, field.Forbidden(path, "can be planned, but not carried out by this version; remove it"))
		}
	}
	refuse(len(cgu.Spec.ManagedPolicies) > 0, spec.Child("managedPolicies"))
	refuse(len(cgu.Spec.ManifestWorkTemplates) > 0, spec.Child("manifestWorkTemplates"))
	return refused
}
