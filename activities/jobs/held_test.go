package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

func TestARetryStartsNoClusterJobOnAHeldCluster(t *testing.T) {
	workflow := &activitytest.HeldWorkflow{}
	waits := activitykit.Waits{Workflows: workflow}
	job := preparation("held", precache.Backup)
	jobs := &jobs.Activities{Clusters: activitytest.Clusters, Waits: waits}
	workflow.RequireHeld(t, jobs.RunClusterJob, job, temporal.QueryHeld, []string{job.Cluster})
	require.Nil(t, clusterJob(t, job))
}
