package workflowtest

import (
	"slices"
	"time"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// WithActions marks clusters "begun" before the rollout, and "done" in place of it when they are complete.
func WithActions(object ranv1.ClusterGroupUpgrade) ranv1.ClusterGroupUpgrade {
	object.Spec.Actions = ranv1.Actions{
		BeforeEnable:    &ranv1.BeforeEnable{AddClusterLabels: map[string]string{"begun": ""}},
		AfterCompletion: &ranv1.AfterCompletion{AddClusterLabels: map[string]string{"done": ""}, RemoveClusterLabels: []string{"begun"}},
	}
	return object
}

// Changed returns the clusters that were labelled, by the label that was added, in order.
func (w *World) Changed() map[string][]string {
	found := map[string][]string{}
	for _, in := range w.InputsOf("ChangeClusters") {
		in := in.(activities.ChangeClustersInput)
		for label, value := range in.Change.Labels {
			if value != nil {
				found[label] = append(found[label], in.Clusters...)
			}
		}
	}
	return found
}

// RefuseChanges lets clusters refuse what afterCompletion asks for, until then.
func (w *World) RefuseChanges(until time.Time, final bool, clusters ...string) {
	Play(w, "ChangeClusters", func(in activities.ChangeClustersInput) any {
		refused := []activities.RefusedChange{}
		for _, cluster := range in.Clusters {
			if _, after := in.Change.Labels["done"]; after && slices.Contains(clusters, cluster) && w.Now().Before(until) {
				refused = append(refused, activities.RefusedChange{Cluster: cluster, Message: "ManagedCluster " + cluster + ": frozen", Final: final})
			}
		}
		return refused
	})
}
