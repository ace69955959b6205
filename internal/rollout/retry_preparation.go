package rollout

import (
	"maps"
	"slices"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// shortenPreparations records the precaching and backup states of all clusters in a shortened status. A retry does not repeat them.
func shortenPreparations(short *ranv1.ClusterGroupUpgradeStatus, whole ranv1.ClusterGroupUpgradeStatus) {
	clusters := toPrepare(*short)
	if short.Precaching != nil {
		short.Precaching.Outcomes = preparationOutcomes(clusters, whole.Precaching.Status)
	}
	if short.Backup != nil {
		short.Backup.Outcomes = preparationOutcomes(clusters, whole.Backup.Status)
	}
}

// loadPreparations restores the precaching and backup states of all clusters, by name.
func loadPreparations(ended ranv1.ClusterGroupUpgradeStatus) (*ranv1.PrecachingStatus, *ranv1.BackupStatus) {
	clusters := toPrepare(ended)
	precaching, backup := ended.Precaching.DeepCopy(), ended.Backup.DeepCopy()
	if precaching != nil {
		precaching.Status, precaching.Outcomes = preparationStates(clusters, precaching.Outcomes, precaching.Status), nil
	}
	if backup != nil {
		backup.Status, backup.Outcomes = preparationStates(clusters, backup.Outcomes, backup.Status), nil
	}
	return precaching, backup
}

// toPrepare are the clusters of the plan and those removed from it, in the order of their outcomes.
func toPrepare(status ranv1.ClusterGroupUpgradeStatus) []string {
	return append(slices.Concat(status.RemediationPlan...), status.LeftPlan...)
}

func preparationOutcomes(clusters []string, states map[string]ranv1.PreparationState) []ranv1.PreparationOutcome {
	var outcomes []ranv1.PreparationOutcome
	for _, cluster := range clusters {
		state := states[cluster]
		if last := len(outcomes) - 1; last >= 0 && outcomes[last].State == state {
			outcomes[last].Clusters++
			continue
		}
		outcomes = append(outcomes, ranv1.PreparationOutcome{State: state, Clusters: 1})
	}
	return outcomes
}

// preparationStates returns the listed states together with those of the outcomes.
func preparationStates(clusters []string, outcomes []ranv1.PreparationOutcome, listed map[string]ranv1.PreparationState) map[string]ranv1.PreparationState {
	states := map[string]ranv1.PreparationState{}
	//workflowcheck:ignore the order does not affect a copy
	maps.Copy(states, listed)
	for _, outcome := range outcomes {
		some := clusters[:min(int(outcome.Clusters), len(clusters))]
		clusters = clusters[len(some):]
		for _, cluster := range some {
			if outcome.State != "" {
				states[cluster] = outcome.State
			}
		}
	}
	return states
}
