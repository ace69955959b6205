package harbor

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
)

// configuration is how far that has come which a HarborCluster asks for now: whether it is applied, not how its services are.
type configuration struct {
	// failed are the parts that cannot be applied, with the reason of the first.
	failed []string
	reason string
	// missing are the parts that are not applied yet.
	missing []string
}

// add takes in a part that is wanted, what was done about it last, whether that is what is wanted now, and what keeps its object from being read.
func (c *configuration) add(part Part, was Applied, current bool, unreadable Failure) {
	failure := unreadable
	switch {
	case current && was.Failure != nil:
		failure = *was.Failure
	case part == PartBucket:
		failure = Failure{} // it is the Tenant that cannot be read
	}
	switch {
	case failure.Reason != "":
		c.failed = append(c.failed, string(part)+": "+failure.Message)
		c.reason = text(c.reason, failure.Reason)
	case !current:
		c.missing = append(c.missing, string(part))
	}
}

// configuration is for information only: the services' own conditions say whether they are well.
func (j judge) configuration(c configuration) goharborv1.HarborClusterCondition {
	switch {
	case len(c.failed) > 0:
		return j.condition(metav1.ConditionFalse, c.reason, strings.Join(c.failed, "; "))
	case len(c.missing) > 0:
		return j.condition(metav1.ConditionUnknown, ReasonNotApplied, notApplied+strings.Join(c.missing, ", "))
	}
	return j.condition(metav1.ConditionTrue, ReasonApplied, "all that it asks for is applied")
}

// Pending says of a HarborCluster that Drydock keeps why its services, as they are, are not those that it asks for now: it was changed, and that is not
// applied yet or cannot be. What is on its way for the first time is not pending. Empty: nothing is, or Drydock does not keep it.
func Pending(hc *goharborv1.HarborCluster) string {
	if !slices.Contains(hc.Finalizers, Finalizer) {
		return ""
	}
	applied, why := ConditionOf(hc.Status, goharborv1.ConfigurationReady), ""
	switch {
	case hc.Status.ObservedGeneration < hc.Generation:
		why = "not looked at yet"
	case applied.Status == metav1.ConditionFalse, applied.Status == metav1.ConditionUnknown && applied.FirstReadyTime != nil:
		why = applied.Message
	default:
		return ""
	}
	return fmt.Sprintf("generation %d: %s; see `drydock harbor status %s -n %s`", hc.Generation, why, hc.Name, hc.Namespace)
}
