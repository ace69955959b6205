package harbor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// configuration reports whether the current spec of a HarborCluster is applied, not whether its services are healthy.
type configuration struct {
	// failed are the parts that cannot be applied, with the reason of the first.
	failed []string
	reason string
	// missing are the parts that are not applied yet.
	missing []string
}

// add records a desired part: its last application, whether that is current, and why its object cannot be read.
func (c *configuration) add(part Part, was Applied, current bool, unreadable Failure) {
	failure := unreadable
	switch {
	case current && was.Failure != nil:
		failure = *was.Failure
	case part == PartBucket:
		failure = Failure{} // the Tenant cannot be read
	}
	switch {
	case failure.Reason != "":
		c.failed = append(c.failed, string(part)+": "+failure.Message)
		c.reason = text(c.reason, failure.Reason)
	case !current:
		c.missing = append(c.missing, string(part))
	}
}

// configuration is for information only: the services' own conditions report their health.
func (j judge) configuration(c configuration) goharborv1.HarborClusterCondition {
	switch {
	case len(c.failed) > 0:
		return j.condition(metav1.ConditionFalse, c.reason, strings.Join(c.failed, "; "))
	case len(c.missing) > 0:
		return j.condition(metav1.ConditionUnknown, ReasonNotApplied, notApplied+strings.Join(c.missing, ", "))
	}
	return j.condition(metav1.ConditionTrue, ReasonApplied, "the whole spec is applied")
}

// Pending returns why the services of a managed HarborCluster do not match its spec yet: it was changed, and the change is not applied yet or cannot
// be. A first installation is not pending. Empty: nothing is pending, or Drydock does not manage it.
func Pending(hc *goharborv1.HarborCluster) string {
	if !slices.Contains(hc.Finalizers, Finalizer) {
		return ""
	}
	applied, why := ConditionOf(hc.Status, goharborv1.ConfigurationReady), ""
	switch {
	case hc.Status.ObservedGeneration < hc.Generation:
		why = "not observed yet"
	case applied.Status == metav1.ConditionFalse, applied.Status == metav1.ConditionUnknown && applied.FirstReadyTime != nil:
		why = applied.Message
	default:
		return ""
	}
	return fmt.Sprintf("generation %d: %s; see `drydock harbor status %s -n %s`", hc.Generation, why, hc.Name, hc.Namespace)
}
