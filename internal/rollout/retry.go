package rollout

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// RetryRequest requests the retry of a rollout that has ended.
type RetryRequest struct {
	// Actor is the person who requests the retry, and Reason is why.
	Actor  string `json:"actor,omitempty"`
	Reason string `json:"reason,omitempty"`
	// Unfinished: retry also cancelled and not started clusters, not only those that failed, timed out or were offline.
	Unfinished bool `json:"unfinished,omitempty"`
}

// includes reports whether the request is for clusters in that state.
func (r RetryRequest) includes(state ranv1.ClusterState) bool {
	switch state {
	case ranv1.ClusterFailed, ranv1.ClusterTimedOut, ranv1.ClusterOffline:
		return true
	case ranv1.ClusterComplete, ranv1.ClusterSkipped:
		return false
	}
	return r.Unfinished
}

// Retry returns the first status of a retry, with the same plan. Retried clusters are pending, complete ones stay complete, and the others are
// cancelled. canaries are those of the spec.
func Retry(ended ranv1.ClusterGroupUpgradeStatus, canaries []string, request RetryRequest) (ranv1.ClusterGroupUpgradeStatus, error) {
	succeeded := meta.FindStatusCondition(ended.Conditions, ranv1.ConditionSucceeded)
	switch {
	case slices.ContainsFunc(ended.Notes, func(note string) bool { return strings.HasPrefix(note, NotSaved) }):
		return ended, errors.New("the status of its last run is not saved on the hub, which may have the status of an earlier run: start it again")
	case succeeded == nil:
		return ended, errors.New("the status of its last run is not saved: start it again")
	case len(ended.RemediationPlan) == 0 && ended.Counts.Failed == 0:
		return ended, fmt.Errorf("its last run (%s) had no valid plan: start it again", succeeded.Reason)
	}
	clusters, err := allClusters(ended)
	if err != nil {
		return ended, err
	}
	next := ranv1.ClusterGroupUpgradeStatus{
		ComputedMaxConcurrency: ended.ComputedMaxConcurrency, ComputedMaxFailures: ended.ComputedMaxFailures,
		RemediationPlan:                       ended.RemediationPlan,
		ManagedPoliciesForUpgrade:             ended.ManagedPoliciesForUpgrade,
		PolicyEnforcement:                     ended.PolicyEnforcement,
		ManagedPoliciesCompliantBeforeUpgrade: ended.ManagedPoliciesCompliantBeforeUpgrade,
		ManagedPoliciesNs:                     ended.ManagedPoliciesNs,
		ManagedPoliciesContent:                ended.ManagedPoliciesContent,
		AfterCompletion:                       ended.AfterCompletion,
	}
	next.Precaching, next.Backup = loadPreparations(ended)
	for _, condition := range ended.Conditions {
		if slices.Contains(PlanConditions(), condition.Type) {
			next.Conditions = append(next.Conditions, condition)
		}
	}
	retried, skipped := 0, 0
	for _, cluster := range clusters {
		if request.includes(cluster.State) {
			planned := cluster.CurrentPolicy
			cluster = ranv1.ClusterStatus{Name: cluster.Name, Batch: cluster.Batch, State: ranv1.ClusterPending}
			if planned != nil { // this policy must still be bound when the cluster starts
				cluster.CurrentPolicy = &ranv1.PolicyStatus{Name: planned.Name}
			}
			retried++
		} else if cluster.State != ranv1.ClusterComplete && cluster.State != ranv1.ClusterSkipped {
			cluster = ranv1.ClusterStatus{
				Name: cluster.Name, Batch: cluster.Batch, State: ranv1.ClusterCancelled, Reason: reasonNotRetried,
				Message: "cancelled or not started; the retry is only for clusters that failed, timed out or were offline",
			}
			skipped++
		}
		next.Clusters = append(next.Clusters, cluster)
	}
	switch {
	case retried == 0 && skipped > 0:
		return ended, fmt.Errorf("no cluster failed, timed out or was offline; cancelled or not started: %d, retry those with --unfinished", skipped)
	case retried == 0:
		return ended, errors.New("every cluster is complete: there is nothing to retry")
	}
	divideCatchUp(&next, ended.Status.CatchUpBatch)
	AddToPlan(&next, canaries)
	return next, nil
}

// NotSaved is the prefix of the note of a status that could not be saved on the hub.
const NotSaved = "the final status is not saved on the hub"

// reasonNotRetried is the reason of an unfinished cluster that is not retried.
const reasonNotRetried = "NotRetried"

// allClusters restores all clusters of a shortened status: those of the plan, those removed from it, and the skipped ones.
func allClusters(status ranv1.ClusterGroupUpgradeStatus) ([]ranv1.ClusterStatus, error) {
	listed := map[string]ranv1.ClusterStatus{}
	for _, cluster := range status.Clusters {
		listed[cluster.Name] = cluster
	}
	var outcomes []ranv1.ClusterState
	planned := 0
	for _, batch := range status.RemediationPlan {
		planned += len(batch)
	}
	for _, outcome := range status.Outcomes {
		known := min(int(outcome.Clusters), planned-len(outcomes)) // clusters in no batch come last
		if known < 0 {
			return nil, fmt.Errorf("its outcomes have %d clusters in state %s: start it again", outcome.Clusters, outcome.State)
		}
		outcomes = append(outcomes, slices.Repeat([]ranv1.ClusterState{outcome.State}, known)...)
	}
	var clusters []ranv1.ClusterStatus
	for i, batch := range status.RemediationPlan {
		for _, name := range batch {
			cluster, known := listed[name]
			delete(listed, name)
			if !known && len(clusters) >= len(outcomes) {
				return nil, fmt.Errorf("the status of cluster %s is not saved: start it again", name)
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

// listedLimit is the maximum size, in bytes, of the clusters in a saved status.
const listedLimit = 128 << 10

// Shorten limits the clusters that a status lists, and prefers failed ones. For the others it records only the states: a status with 10,000 clusters
// must fit into one object on the hub.
func Shorten(status ranv1.ClusterGroupUpgradeStatus, limit int) ranv1.ClusterGroupUpgradeStatus {
	short, _ := page(status, Part{Limit: limit}, listedLimit) // the only possible error is an invalid cursor
	short.RemediationPlan, short.Status.Batches = status.RemediationPlan, 0
	if len(short.Clusters) < len(status.Clusters) {
		short.Outcomes, short.LeftPlan = outcomes(status.Clusters), leftPlan(status.Clusters)
		shortenPreparations(&short, status)
	}
	return short
}

// outcomes are the states of clusters in the order of the plan, run-length encoded. Clusters in no batch come last.
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

// leftPlan are the failed clusters in no batch: they could not be prepared.
func leftPlan(clusters []ranv1.ClusterStatus) []string {
	var names []string
	for i := range clusters {
		if c := &clusters[i]; c.Batch == 0 && c.State == ranv1.ClusterFailed {
			names = append(names, c.Name)
		}
	}
	return names
}
