package rollout

import (
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Published returns the status that the object of a rollout shows: the published API, and Drydock's additions that do not grow with the fleet. The
// clusters are only those that the rollout has finished with; the progress of the others is in that of the current batch.
func Published(cgu *ranv1.ClusterGroupUpgrade, generation int64) ranv1.ClusterGroupUpgradeStatus {
	//workflowcheck:ignore a copy does not depend on the order
	status := *cgu.Status.DeepCopy()
	for i := range status.Conditions {
		status.Conditions[i].ObservedGeneration = generation
	}
	ended := status.Status.CompletedAt != nil
	status.Status.CurrentBatchRemediationProgress = batchProgress(cgu)
	status.Clusters = finishedClusters(&status)
	if ended { // the objects are deleted
		status.Status.CurrentBatch, status.SafeResourceNames = 0, nil
	}
	status.Placements, status.PlacementBindings, status.CopiedPolicies = objectsOf(cgu.Name, &status)
	names := map[string]string{}
	//workflowcheck:ignore the order of the entries of a map does not matter
	for desired, name := range status.SafeResourceNames {
		names[cgu.Namespace+"/"+desired] = name
	}
	status.SafeResourceNames = names
	status.Outcomes, status.LeftPlan, status.Status.Estimate = nil, nil, nil
	return status
}

// PolicyIndex returns the index of a policy in those for the upgrade; -1: it is not one of them.
func PolicyIndex(status *ranv1.ClusterGroupUpgradeStatus, name string) int {
	return slices.IndexFunc(status.ManagedPoliciesForUpgrade, func(p ranv1.ManagedPolicy) bool { return p.Name == name })
}

// objectsOf returns the names of the objects that enforce the policies.
func objectsOf(rollout string, status *ranv1.ClusterGroupUpgradeStatus) (placements, bindings, copies []string) {
	for _, policy := range status.ManagedPoliciesForUpgrade {
		if name, made := status.SafeResourceNames[rollout+"-"+policy.Name+"-placement"]; made {
			placements = append(placements, name)
		}
		if name, made := status.SafeResourceNames[rollout+"-"+policy.Name]; made {
			copies = append(copies, name)
		}
	}
	return placements, slices.Clone(placements), copies
}

// finishedClusters are the clusters that the rollout has finished with. A cluster that complied before the start is complete.
func finishedClusters(status *ranv1.ClusterGroupUpgradeStatus) []ranv1.ClusterStatus {
	var finished []ranv1.ClusterStatus
	for _, c := range status.Clusters {
		switch {
		case doneBefore(&c) && status.Status.StartedAt != nil:
			c = ranv1.ClusterStatus{Name: c.Name, State: ranv1.ClusterComplete}
		case c.State == ranv1.ClusterComplete:
			c.CurrentPolicy, c.CurrentManifestWork = nil, nil
		case c.State == ranv1.ClusterOffline && status.Status.CompletedAt != nil:
		case c.State != ranv1.ClusterTimedOut && c.State != ranv1.ClusterFailed && c.State != ranv1.ClusterCancelled:
			continue
		}
		c.LockProgress, c.Step = nil, ""
		finished = append(finished, c)
	}
	return finished
}

// batchProgress is the progress of the clusters of the current batch, and of those that a rolling rollout has started beside it.
func batchProgress(cgu *ranv1.ClusterGroupUpgrade) map[string]*ranv1.RemediationProgress {
	status := &cgu.Status
	if status.Status.CurrentBatch == 0 || status.Status.CompletedAt != nil {
		return nil
	}
	progress := map[string]*ranv1.RemediationProgress{}
	for i := range status.Clusters {
		c := &status.Clusters[i]
		if c.Batch == status.Status.CurrentBatch || c.State == ranv1.ClusterRunning || c.State == ranv1.ClusterSoaking {
			progress[c.Name] = progressOf(cgu, c)
		}
	}
	return progress
}

func progressOf(cgu *ranv1.ClusterGroupUpgrade, c *ranv1.ClusterStatus) *ranv1.RemediationProgress {
	progress := &ranv1.RemediationProgress{State: ranv1.RemediationInProgress}
	switch c.State {
	case ranv1.ClusterPending, ranv1.ClusterOffline:
		progress.State = ranv1.RemediationNotStarted
		return progress
	case ranv1.ClusterComplete:
		progress.State = ranv1.RemediationCompleted
		return progress
	}
	if c.CurrentPolicy != nil {
		progress.PolicyIndex = indexOf(PolicyIndex(&cgu.Status, c.CurrentPolicy.Name))
	}
	if c.CurrentManifestWork != nil {
		progress.ManifestWorkIndex = indexOf(slices.Index(cgu.Spec.ManifestWorkTemplates, c.CurrentManifestWork.Name))
	}
	if c.Reason == ranv1.ReasonSoaking {
		progress.FirstCompliantAt = c.Since
	}
	return progress
}

// indexOf returns an index for a status; nil: there is none.
func indexOf(index int) *int32 {
	if index < 0 {
		return nil
	}
	return new(int32(index))
}
