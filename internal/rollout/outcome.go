package rollout

import (
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/safename"
)

// End is why a rollout stops starting work.
type End string

// The ends.
const (
	// EndFinished: the last batch has ended.
	EndFinished End = "Finished"
	// EndTimedOut: the rollout's own timeout.
	EndTimedOut End = "TimedOut"
	// EndCanaryTimedOut: a batch with a canary timed out.
	EndCanaryTimedOut End = "CanaryTimedOut"
	// EndCanaryFailed: a canary failed before it timed out.
	EndCanaryFailed End = "CanaryFailed"
	// EndBatchTimedOut: a batch timed out and batchTimeoutAction is Abort.
	EndBatchTimedOut End = "BatchTimedOut"
	// EndCancelled: a person cancelled it.
	EndCancelled End = "Cancelled"
	// EndAborted: too many clusters failed.
	EndAborted End = "Aborted"
	// EndNotApproved: an approval was not given in time.
	EndNotApproved End = "NotApproved"
	// EndNoneLeft: no cluster is complete in every blocker.
	EndNoneLeft End = "NoneLeft"
)

// Result is the result of a rollout: the reason and message of the conditions Progressing, then False, and Succeeded.
type Result struct {
	Succeeded metav1.ConditionStatus
	Reason    string
	Message   string
}

// Outcome returns the result of a rollout that has ended. It succeeded only if every cluster is complete or skipped. If they are, it succeeded even
// if a timeout fired. Clusters that stayed offline did not fail, but the rollout has not succeeded.
func Outcome(remediation Remediation, clusters []ranv1.ClusterStatus, end End) Result {
	unfinishedClusters := unfinished(clusters)
	result := Result{Succeeded: metav1.ConditionFalse}
	switch {
	case end == EndCancelled:
		result.Reason, result.Message = ranv1.ReasonCancelled, "Cancelled"
	case end == EndAborted:
		result.Reason, result.Message = ranv1.ReasonAborted, "Aborted because too many clusters failed"
	case end == EndNotApproved:
		result.Reason, result.Message = ranv1.ReasonAborted, "Aborted because an approval was not given in time"
	case end == EndNoneLeft:
		result.Reason = ranv1.ReasonFailed
		result.Message = "No clusters available for remediation after filtering out non-completed clusters from blocking CGUs"
	case len(unfinishedClusters) == 0:
		result = Result{Succeeded: metav1.ConditionTrue, Reason: ranv1.ReasonCompleted, Message: remediation.completed()}
		if len(clusters) == 0 {
			result.Message += "; no cluster was selected"
		}
		result.Message += describeNotDone(clusters)
		return result
	case onlyOffline(unfinishedClusters):
		result.Reason = ranv1.ReasonClustersOffline
		result.Message = fmt.Sprintf("Complete on all clusters but %d", len(unfinishedClusters)) + describe(unfinishedClusters) + describeNotDone(clusters)
		return result
	case end == EndCanaryTimedOut:
		result.Reason, result.Message = ranv1.ReasonTimedOut, remediation.timedOut()+" on canary clusters"
	case end == EndCanaryFailed:
		result.Reason, result.Message = ranv1.ReasonFailed, "Failed on a canary cluster"
	case end == EndBatchTimedOut:
		result.Reason, result.Message = ranv1.ReasonTimedOut, remediation.timedOut()+" on some clusters"
	case end == EndTimedOut || anyIn(clusters, ranv1.ClusterTimedOut):
		result.Reason, result.Message = ranv1.ReasonTimedOut, remediation.timedOut()
	default:
		failed := len(unfinishedClusters) - len(NamesInState(unfinishedClusters, ranv1.ClusterOffline))
		result.Reason, result.Message = ranv1.ReasonFailed, fmt.Sprintf("Failed on %d of %d clusters", failed, len(clusters))
	}
	result.Message += describe(unfinishedClusters)
	return result
}

func anyIn(clusters []ranv1.ClusterStatus, state ranv1.ClusterState) bool {
	return slices.ContainsFunc(clusters, func(cluster ranv1.ClusterStatus) bool { return cluster.State == state })
}

func unfinished(clusters []ranv1.ClusterStatus) []ranv1.ClusterStatus {
	var unfinishedClusters []ranv1.ClusterStatus
	for _, cluster := range clusters {
		if cluster.State != ranv1.ClusterComplete && cluster.State != ranv1.ClusterSkipped {
			unfinishedClusters = append(unfinishedClusters, cluster)
		}
	}
	return unfinishedClusters
}

// describeNotDone lists the skipped clusters that are not done, e.g. "; no policy is bound to: c3".
func describeNotDone(clusters []ranv1.ClusterStatus) string {
	var notBound, enforced []string
	for i := range clusters {
		switch {
		case clusters[i].State != ranv1.ClusterSkipped:
		case clusters[i].Reason == ReasonNotBound:
			notBound = append(notBound, clusters[i].Name)
		case clusters[i].Reason == ReasonAlreadyEnforced:
			enforced = append(enforced, clusters[i].Name)
		}
	}
	var text string
	if len(notBound) > 0 {
		text += "; skipped because no policy of the rollout is bound to them: " + someNames(notBound)
	}
	if len(enforced) > 0 {
		text += "; skipped because they do not comply with policies that enforce already: " + someNames(enforced)
	}
	return text
}

// someNames lists at most 20 names, since the status has them all.
func someNames(names []string) string {
	const most = 20
	if len(names) <= most {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), len(names)-most)
}

// describe lists the clusters by state, e.g. "; failed: c1; timed out: c2, c3".
func describe(clusters []ranv1.ClusterStatus) string {
	var text string
	var relapsed []string
	for i := range clusters {
		if clusters[i].Reason == ReasonRelapsed {
			relapsed = append(relapsed, clusters[i].Name)
		}
	}
	if len(relapsed) > 0 {
		text += "; complete before, and no longer compliant: " + someNames(relapsed)
	}
	for _, group := range []struct {
		title  string
		states []ranv1.ClusterState
	}{
		{"failed", []ranv1.ClusterState{ranv1.ClusterFailed}},
		{"timed out", []ranv1.ClusterState{ranv1.ClusterTimedOut}},
		{"cancelled", []ranv1.ClusterState{ranv1.ClusterCancelled}},
		{"unfinished", []ranv1.ClusterState{ranv1.ClusterRunning, ranv1.ClusterSoaking}},
		{"offline", []ranv1.ClusterState{ranv1.ClusterOffline}},
		{"not started", []ranv1.ClusterState{ranv1.ClusterPending}},
	} {
		var names []string
		for _, cluster := range clusters {
			if slices.Contains(group.states, cluster.State) && cluster.Reason != ReasonRelapsed {
				names = append(names, cluster.Name)
			}
		}
		if len(names) == 0 {
			continue
		}
		text += "; " + group.title + ": " + someNames(names)
	}
	return text
}

// SavedName is the name of the ConfigMap on the hub with the saved status of a rollout, in namespace kube.SystemNamespace.
func SavedName(namespace, name string) string {
	return safename.Join(".", "rollout", namespace, name)
}

// The keys of that ConfigMap. Each ConfigMap has one of them.
const (
	// SavedKey: the ClusterGroupUpgrade with its status, as YAML.
	SavedKey = "clustergroupupgrade.yaml"
	// SavedCompressedKey: the same, compressed with gzip, if it would be too long otherwise.
	SavedCompressedKey = SavedKey + ".gz"
)
