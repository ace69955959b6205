package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// RetryRequest says what of a rollout that is over is done once more.
type RetryRequest struct {
	// Actor asks for it, and Reason is why.
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Unfinished: the clusters that were cancelled, or whose turn did not come, as well as those that failed or timed out.
	Unfinished bool `json:"unfinished,omitempty"`
}

// takes reports whether a cluster in that state is done once more.
func (r RetryRequest) takes(state ranv1.ClusterState) bool {
	switch state {
	case ranv1.ClusterFailed, ranv1.ClusterTimedOut:
		return true
	case ranv1.ClusterComplete, ranv1.ClusterSkipped:
		return false
	}
	return r.Unfinished
}

// Retry returns the status with which a rollout that is over begins once more, with the same plan: the clusters that are taken are pending,
// those that are done stay as they are, and the others are cancelled. Canaries are those of its spec.
func Retry(over ranv1.ClusterGroupUpgradeStatus, canaries []string, request RetryRequest) (ranv1.ClusterGroupUpgradeStatus, error) {
	succeeded := meta.FindStatusCondition(over.Conditions, ranv1.ConditionSucceeded)
	switch {
	case slices.ContainsFunc(over.Notes, func(note string) bool { return strings.HasPrefix(note, NotKept) }):
		return over, errors.New("the hub has not kept how its last run ended, and may know of an earlier one: start it again")
	case succeeded == nil:
		return over, errors.New("how its last run ended is not kept: start it again")
	case len(over.RemediationPlan) == 0 && over.Counts.Failed == 0:
		return over, fmt.Errorf("its last run (%s) had no plan that could be carried out: start it again", succeeded.Reason)
	}
	clusters, err := everyCluster(over)
	if err != nil {
		return over, err
	}
	next := ranv1.ClusterGroupUpgradeStatus{
		ComputedMaxConcurrency: over.ComputedMaxConcurrency, ComputedMaxFailures: over.ComputedMaxFailures,
		RemediationPlan:                       over.RemediationPlan,
		ManagedPoliciesForUpgrade:             over.ManagedPoliciesForUpgrade,
		ManagedPoliciesCompliantBeforeUpgrade: over.ManagedPoliciesCompliantBeforeUpgrade,
		ManagedPoliciesNs:                     over.ManagedPoliciesNs,
		AfterCompletion:                       over.AfterCompletion,
	}
	next.Precaching, next.Backup = recallPreparations(over)
	for _, condition := range over.Conditions {
		if slices.Contains(PlanConditions(), condition.Type) {
			next.Conditions = append(next.Conditions, condition)
		}
	}
	taken, left := 0, 0
	for _, cluster := range clusters {
		if request.takes(cluster.State) {
			planned := cluster.CurrentPolicy
			cluster = ranv1.ClusterStatus{Name: cluster.Name, Batch: cluster.Batch, State: ranv1.ClusterPending}
			if planned != nil { // it must be bound still when the turn of the cluster comes
				cluster.CurrentPolicy = &ranv1.PolicyStatus{Name: planned.Name}
			}
			taken++
		} else if cluster.State != ranv1.ClusterComplete && cluster.State != ranv1.ClusterSkipped {
			cluster = ranv1.ClusterStatus{
				Name: cluster.Name, Batch: cluster.Batch, State: ranv1.ClusterCancelled, Reason: reasonNotRetried,
				Message: "it was cancelled, or its turn did not come, and only what failed or timed out is done once more",
			}
			left++
		}
		next.Clusters = append(next.Clusters, cluster)
	}
	switch {
	case taken == 0 && left > 0:
		return over, fmt.Errorf("no cluster has failed or timed out; cancelled or not started: %d, which --unfinished takes", left)
	case taken == 0:
		return over, errors.New("every cluster is complete: there is nothing to do once more")
	}
	rejoin(&next, canaries)
	return next, nil
}

// NotKept begins the note of a status that could not be kept on the hub.
const NotKept = "the final status is not kept on the hub"

// reasonNotRetried is the reason of a cluster that is not done and will not be.
const reasonNotRetried = "NotRetried"

// everyCluster returns the clusters of a plan in its order, then those that have left it, then those that were skipped, of a status that may not list all.
func everyCluster(status ranv1.ClusterGroupUpgradeStatus) ([]ranv1.ClusterStatus, error) {
	listed := map[string]ranv1.ClusterStatus{}
	for _, cluster := range status.Clusters {
		listed[cluster.Name] = cluster
	}
	var outcomes []ranv1.ClusterState
	for _, outcome := range status.Outcomes {
		outcomes = append(outcomes, slices.Repeat([]ranv1.ClusterState{outcome.State}, int(outcome.Clusters))...)
	}
	var clusters []ranv1.ClusterStatus
	for i, batch := range status.RemediationPlan {
		for _, name := range batch {
			cluster, known := listed[name]
			delete(listed, name)
			if !known && len(clusters) >= len(outcomes) {
				return nil, fmt.Errorf("what became of cluster %s is not kept: start it again", name)
			}
			if !known {
				cluster = ranv1.ClusterStatus{Name: name, Batch: int32(i + 1), State: outcomes[len(clusters)]}
			}
			clusters = append(clusters, cluster)
		}
	}
	for _, name := range status.LeftPlan {
		cluster, known := listed[name]
		delete(listed, name)
		if !known {
			cluster = ranv1.ClusterStatus{Name: name, State: ranv1.ClusterFailed}
		}
		clusters = append(clusters, cluster)
	}
	for _, cluster := range status.Clusters {
		if _, rest := listed[cluster.Name]; rest {
			clusters = append(clusters, cluster)
		}
	}
	return clusters, nil
}

// listedRoom is how many bytes of clusters are listed in a status that is kept.
const listedRoom = 128 << 10

// Shorten returns a status that lists so many clusters at most, and no more than fit, what matters first. Of those that it does not list it says what became
// of them, in little more room than their names take: it must fit into an object of the hub with a plan of 10,000 clusters.
func Shorten(status ranv1.ClusterGroupUpgradeStatus, most int) ranv1.ClusterGroupUpgradeStatus {
	short, _ := page(status, Part{Limit: most}, listedRoom) // only a cursor can be wrong
	short.RemediationPlan, short.Status.Batches = status.RemediationPlan, 0
	if len(short.Clusters) < len(status.Clusters) {
		short.Outcomes, short.LeftPlan = outcomes(status.Clusters), leftPlan(status.Clusters)
		shortenPreparations(&short, status)
	}
	return short
}

// outcomes are the states of the clusters of a plan, in its order. Clusters has them in that order, and those in no batch behind.
func outcomes(clusters []ranv1.ClusterStatus) []ranv1.Outcome {
	var outcomes []ranv1.Outcome
	for i := range clusters {
		state := clusters[i].State
		if last := len(outcomes) - 1; last >= 0 && outcomes[last].State == state {
			outcomes[last].Clusters++
			continue
		}
		outcomes = append(outcomes, ranv1.Outcome{State: state, Clusters: 1})
	}
	return outcomes
}

// leftPlan are the clusters in no batch that were not skipped: they could not be prepared.
func leftPlan(clusters []ranv1.ClusterStatus) []string {
	var names []string
	for i := range clusters {
		if c := &clusters[i]; c.Batch == 0 && c.State == ranv1.ClusterFailed {
			names = append(names, c.Name)
		}
	}
	return names
}
