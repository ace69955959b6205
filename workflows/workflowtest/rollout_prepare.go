package workflowtest

import (
	"slices"
	"testing"

	"drydock.dev/drydock/activities"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/precache"
)

// NewPreparedWorld plans the batches, with something to pull and an image for backups. Jobs fails those of the clusters that it has errors for.
func NewPreparedWorld(t *testing.T, jobs map[string]error, batches ...[]string) (*World, *Children) {
	w, clusters := NewGroupWorld(t, batches...)
	w.Plan.Precaching, w.Plan.PreCacheImage, w.Plan.BackupImage = &ranv1.PrecachingSpec{SpaceRequired: "35"}, "pull:1", "backup:1"
	w.Jobs = jobs
	return w, clusters
}

// JobsOf returns the clusters on which a Job of the kind was run.
func (w *World) JobsOf(kind precache.Kind) []string {
	var clusters []string
	for _, in := range w.InputsOf("RunClusterJob") {
		if job := in.(activities.ClusterJob); job.Work.Kind == kind {
			clusters = append(clusters, job.Cluster)
		}
	}
	slices.Sort(clusters)
	return clusters
}
