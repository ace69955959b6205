package installplans

import (
	"fmt"
	"slices"
	"strings"

	"drydock.dev/drydock/internal/views"
)

// Decision is what happens to the InstallPlan of a Subscription.
type Decision struct {
	// Plan is the InstallPlan to approve; nil: none.
	Plan *Plan
	// Failed: the approval has failed before, and is retried.
	Failed bool
	// Approved is the InstallPlan that was approved after it was read; nil: there is none.
	Approved *Plan
	// Message says what the Subscription waits for; empty: it waits for nothing.
	Message string
}

// Observed are the objects of one cluster that are known.
type Observed struct {
	// Subscriptions by <namespace>/<name>; nil: the Subscription does not exist.
	Subscriptions map[string]*Subscription
	// Plans by <namespace>/<name>; nil: the InstallPlan does not exist.
	Plans map[string]*Plan
	// Approvals are the actions that approve InstallPlans, by <namespace>/<name> of the InstallPlan.
	Approvals map[string]views.Outcome
	// Unread is why an object could not be read, by views.Object.String.
	Unread map[string]string
}

// unread is why an object is not known.
func (o Observed) unread(object views.Object) string {
	if why := o.Unread[object.String()]; why != "" {
		return why
	}
	return "reading " + object.String()
}

// Decide decides about the InstallPlan of a Subscription that a policy requires. all are the Subscriptions that this policy and the earlier ones of the cluster require.
//
// Only the requested version is approved: startingCSV of the policy or, without it, the current version of the Subscription. An InstallPlan covers a whole
// namespace. If it also installs a version of a Subscription that none of these policies requires, a person decides: the cluster is not to change that now.
func Decide(requested Requested, all []Requested, seen Observed) Decision {
	name := requested.String()
	if isTemplate(name) {
		return wait("the name of Subscription %s is a template: approve its InstallPlan by hand", name)
	}
	subscription, read := seen.Subscriptions[name]
	switch {
	case !read:
		return Decision{Message: seen.unread(requested.object())}
	case subscription == nil:
		return wait("Subscription %s does not exist on the cluster yet", name)
	case subscription.Spec[FieldApproval] != Manual && requested.Spec[FieldApproval] != Manual:
		return Decision{} // it installs by itself
	}
	if field, differs := firstDifference(requested, subscription); differs {
		return wait("Subscription %s on the cluster has %s %q, not %q as in the policy", name, field, subscription.Spec[field], requested.Spec[field])
	}
	wanted := requestedCSV(requested, subscription)
	switch {
	case subscription.Plan == "" && subscription.State == "":
		return wait("Subscription %s has no InstallPlan yet", name)
	case !subscription.NeedsPlan() && requested.Spec[FieldStartingCSV] != "" && wanted != subscription.InstalledCSV:
		return wait("Subscription %s has installed %s, and its catalog has no update to %s", name, subscription.InstalledCSV, wanted)
	case !subscription.NeedsPlan():
		return Decision{}
	}
	plan, read := seen.Plans[requested.Namespace+"/"+subscription.Plan]
	switch {
	case !read:
		return Decision{Message: seen.unread(planObject(requested.Namespace, subscription.Plan))}
	case plan == nil:
		return wait("InstallPlan %s of Subscription %s does not exist", subscription.Plan, name)
	}
	decision := decidePlan(plan, name, wanted, others(requested, all, seen))
	if outcome, begun := seen.Approvals[requested.Namespace+"/"+plan.Name]; begun && decision.Plan != nil {
		return decideApproval(decision, outcome)
	}
	return decision
}

func wait(format string, args ...any) Decision {
	return Decision{Message: fmt.Sprintf(format, args...)}
}

// firstDifference is the first field in which a Subscription differs from the policy. What a template fills in is not compared.
func firstDifference(requested Requested, found *Subscription) (field string, differs bool) {
	for _, field := range fields {
		if value := requested.Spec[field]; value != "" && !isTemplate(value) && value != found.Spec[field] {
			return field, true
		}
	}
	return "", false
}

// requestedCSV is the version that a policy requests. The cluster has filled in templates.
func requestedCSV(requested Requested, found *Subscription) string {
	switch csv := requested.Spec[FieldStartingCSV]; {
	case csv == "":
		return found.CurrentCSV
	case isTemplate(csv):
		return found.Spec[FieldStartingCSV]
	default:
		return csv
	}
}

// others are the versions that policies request from other Subscriptions of a namespace.
func others(requested Requested, all []Requested, seen Observed) []string {
	var csvs []string
	for _, other := range all {
		found := seen.Subscriptions[other.String()]
		if other.Namespace != requested.Namespace || other.Name == requested.Name || found == nil {
			continue
		}
		if _, differs := firstDifference(other, found); !differs {
			csvs = append(csvs, requestedCSV(other, found))
		}
	}
	return csvs
}

// decidePlan decides about an InstallPlan that must install the wanted version, and may install those of others.
func decidePlan(plan *Plan, subscription, wanted string, others []string) Decision {
	foreign := slices.DeleteFunc(slices.Clone(plan.CSVs), func(csv string) bool {
		return csv == wanted || slices.Contains(others, csv) || slices.Contains(plan.Dependencies, csv)
	})
	switch {
	case plan.Approved && plan.Phase == "Failed":
		return wait("InstallPlan %s of Subscription %s has failed: %s", plan.Name, subscription, plan.Message)
	case plan.Approved && plan.Phase == "Complete", !plan.Manual && !plan.Approved:
		return Decision{}
	case plan.Approved:
		return wait("InstallPlan %s of Subscription %s is approved, installing", plan.Name, subscription)
	case wanted == "":
		return wait("Subscription %s has not resolved its version yet", subscription)
	case !slices.Contains(plan.CSVs, wanted):
		return wait("InstallPlan %s of Subscription %s installs %s, not the requested %s", plan.Name, subscription, strings.Join(plan.CSVs, ", "), wanted)
	case len(foreign) > 0:
		return wait("InstallPlan %s of Subscription %s also installs %s, which neither this policy nor an earlier one of the cluster requests: approve it by hand, or add the Subscription to the policy",
			plan.Name, subscription, strings.Join(foreign, ", "))
	}
	return Decision{Plan: plan, Message: fmt.Sprintf("approving InstallPlan %s of Subscription %s", plan.Name, subscription)}
}

// decideApproval decides about an InstallPlan for which there is an action. An action of another version of the InstallPlan is over.
func decideApproval(decision Decision, outcome views.Outcome) Decision {
	plan, same := decision.Plan, outcome.Version == decision.Plan.Version
	switch {
	case !outcome.Done && outcome.Failure == "":
		return Decision{Message: decision.Message + ": waiting for the agent of the cluster"}
	case outcome.Done && same:
		return Decision{Approved: plan, Message: decision.Message + ": done, reading it again"}
	case same:
		return Decision{Plan: plan, Failed: true, Message: decision.Message + " has failed and is retried: " + outcome.Failure}
	}
	return decision
}
