package harbor

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// Recorded adds what the status of a managed HarborCluster knows and its objects do not show: parts whose current spec is not applied yet, and parts that
// could not be applied.
func Recorded(hc *goharborv1.HarborCluster, observed Observed) Observed {
	if !slices.Contains(hc.Finalizers, Finalizer) {
		return observed
	}
	unapplied, failures := map[goharborv1.ConditionType]string{}, map[goharborv1.ConditionType]Failure{}
	for _, kind := range []goharborv1.ConditionType{goharborv1.DatabaseReady, goharborv1.CacheReady, goharborv1.StorageReady, goharborv1.ServiceReady} {
		known := ConditionOf(hc.Status, kind)
		switch {
		case known.ObservedGeneration < hc.Generation:
			unapplied[kind] = fmt.Sprintf("generation %d is not observed yet", hc.Generation)
		case known.Reason == ReasonNotApplied:
			unapplied[kind] = strings.TrimPrefix(known.Message, notApplied)
		case known.Reason == ReasonApplyFailed:
			failures[kind] = Failure{Reason: known.Reason, Message: known.Message}
		}
	}
	maps.Copy(failures, observed.Failures)
	observed.Unapplied, observed.Failures = unapplied, failures
	return observed
}
