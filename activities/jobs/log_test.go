package jobs_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitytest"
)

func TestTheStartOfAJobIsOneLogLine(t *testing.T) {
	ref := activitytest.TestNode(t)
	in := activitytest.Firmware(t, ref, activitytest.Lasting("0s"))
	logged := activitytest.Logged(t, activitytest.Jobs().RunJob, in)
	require.Contains(t, logged, `msg="Job started"`)
	require.Contains(t, logged, "cluster="+ref.Cluster+" node="+ref.Node)
}
