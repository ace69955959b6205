package rollout

import (
	"slices"

	"k8s.io/apimachinery/pkg/util/validation/field"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// CheckTemplates rejects a manifest work template that is listed twice.
func CheckTemplates(spec *ranv1.ClusterGroupUpgradeSpec) field.ErrorList {
	var invalid field.ErrorList
	for i, template := range spec.ManifestWorkTemplates {
		if slices.Contains(spec.ManifestWorkTemplates[:i], template) {
			invalid = append(invalid, field.Duplicate(field.NewPath("spec", "manifestWorkTemplates").Index(i), template))
		}
	}
	return invalid
}

// CheckStrategy checks rules of the strategy that the schema cannot express.
func CheckStrategy(spec *ranv1.ClusterGroupUpgradeSpec) field.ErrorList {
	var invalid field.ErrorList
	strategy, path := spec.RemediationStrategy, field.NewPath("spec", "remediationStrategy")
	if strategy.ClusterTimeout > 0 && strategy.Timeout > 0 && strategy.ClusterTimeout > strategy.Timeout {
		invalid = append(invalid, field.Invalid(path.Child("clusterTimeout"), strategy.ClusterTimeout, "must not be longer than the timeout of the rollout"))
	}
	if strategy.OfflineAction == ranv1.OfflineFail && strategy.CatchUp > 0 {
		invalid = append(invalid, field.Invalid(path.Child("catchUp"), strategy.CatchUp, "with offlineAction Fail no cluster is deferred"))
	}
	if approvals := spec.Approvals; approvals != nil {
		path := field.NewPath("spec", "approvals")
		for _, approval := range []struct {
			set  bool
			name string
		}{{approvals.BeforeCanaries, "beforeCanaries"}, {approvals.AfterCanaries, "afterCanaries"}} {
			if approval.set && len(strategy.Canaries) == 0 {
				invalid = append(invalid, field.Invalid(path.Child(approval.name), true, "there are no canaries (spec.remediationStrategy.canaries)"))
			}
		}
		if approvals.BeforeEachBatch && strategy.Rollout == ranv1.Rolling {
			invalid = append(invalid, field.Invalid(path.Child("beforeEachBatch"), true, "a rolling rollout does not wait for batches"))
		}
	}
	return invalid
}
