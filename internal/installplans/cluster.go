package installplans

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/internal/views"
)

func (r Requested) object() views.Object {
	return views.Object{Kind: Subscriptions, Namespace: r.Namespace, Name: r.Name}
}

func planObject(namespace, name string) views.Object {
	return views.Object{Kind: InstallPlans, Namespace: namespace, Name: name}
}

// Needed are the objects of a cluster that decisions about the Subscriptions of a policy need, as far as they are known: the Subscriptions, those of all that are in
// their namespaces, because an InstallPlan covers a namespace, and their InstallPlans.
func Needed(requested, all []Requested, seen Observed) []views.Object {
	var needed []views.Object
	add := func(object views.Object) {
		if !isTemplate(object.Namespace+object.Name) && !slices.Contains(needed, object) {
			needed = append(needed, object)
		}
	}
	for _, one := range requested {
		add(one.object())
	}
	for _, other := range all {
		if slices.ContainsFunc(requested, func(one Requested) bool { return one.Namespace == other.Namespace }) {
			add(other.object())
		}
	}
	for _, one := range requested {
		if found := seen.Subscriptions[one.String()]; found != nil && found.NeedsPlan() {
			add(planObject(one.Namespace, found.Plan))
		}
	}
	return needed
}

// Approval is an InstallPlan that may be approved on a cluster.
type Approval struct {
	Cluster      string    `json:"cluster"`
	Subscription string    `json:"subscription"`
	Namespace    string    `json:"namespace"`
	Plan         string    `json:"plan"`
	UID          types.UID `json:"uid"`
	// Version is the resource version of the InstallPlan that was decided about.
	Version string `json:"version"`
	// Failed: the approval has failed before.
	Failed bool `json:"failed,omitempty"`
}

// String names the InstallPlan and its cluster.
func (a Approval) String() string {
	return fmt.Sprintf("InstallPlan %s/%s on %s", a.Namespace, a.Plan, a.Cluster)
}

// Object is the InstallPlan.
func (a Approval) Object() views.Object { return planObject(a.Namespace, a.Plan) }

// Cluster is what a cluster waits for, and which InstallPlans may be approved on it.
type Cluster struct {
	Cluster   string     `json:"cluster"`
	Message   string     `json:"message,omitempty"`
	Approvals []Approval `json:"approvals,omitempty"`
	// Digest identifies this state; empty: the cluster waits for nothing.
	Digest string `json:"digest,omitempty"`
	// Approved are the InstallPlans that were approved after they were read.
	Approved []views.Object `json:"-"`
}

// WithDigest returns the state with its digest.
func (c Cluster) WithDigest() Cluster {
	if c.Digest = ""; c.Message != "" || len(c.Approvals) > 0 {
		text := fmt.Sprintf("%s %q %+v", c.Cluster, c.Message, c.Approvals)
		sum := sha256.Sum256([]byte(text))
		c.Digest = hex.EncodeToString(sum[:8])
	}
	return c
}

// DecideCluster decides about all Subscriptions of a policy on a cluster. all are also those of the earlier policies of the cluster.
func DecideCluster(cluster string, requested, all []Requested, seen Observed) Cluster {
	decided := Cluster{Cluster: cluster}
	var messages []string
	for _, one := range requested {
		decision := Decide(one, all, seen)
		if decision.Message != "" {
			messages = append(messages, decision.Message)
		}
		if plan := decision.Approved; plan != nil {
			decided.Approved = append(decided.Approved, planObject(one.Namespace, plan.Name))
		}
		if plan := decision.Plan; plan != nil && !slices.ContainsFunc(decided.Approvals, func(a Approval) bool { return a.UID == plan.UID }) {
			decided.Approvals = append(decided.Approvals, Approval{
				Cluster: cluster, Subscription: one.String(), Namespace: one.Namespace, Plan: plan.Name, UID: plan.UID, Version: plan.Version, Failed: decision.Failed,
			})
		}
	}
	slices.SortFunc(decided.Approvals, func(a, b Approval) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Plan, b.Plan))
	})
	decided.Message = joined(messages)
	return decided.WithDigest()
}

// messagesShown is how many messages of Subscriptions the message of a cluster has.
const messagesShown = 2

func joined(messages []string) string {
	text := strings.Join(messages[:min(messagesShown, len(messages))], "; ")
	if more := len(messages) - messagesShown; more > 0 {
		text += fmt.Sprintf("; and %d more Subscriptions", more)
	}
	return text
}
