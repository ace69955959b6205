package activities

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/precache"
	"drydock.dev/drydock/internal/temporal"
)

func TestALaterAttemptStartsNoClusterJobOnAClusterThatIsHeld(t *testing.T) {
	workflow := &heldWorkflow{}
	waits := Waits{Workflows: workflow}
	job := preparation("held", precache.Backup)
	jobs := &Jobs{Clusters: clusters, Waits: waits}
	workflow.requireHeld(t, jobs.RunClusterJob, job, temporal.QueryHeld, []string{job.Cluster})
	require.Nil(t, clusterJob(t, job))
}
