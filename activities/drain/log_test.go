package drain_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitytest"
	drainactivities "drydock.dev/drydock/activities/drain"
)

func TestAnEvictionRoundIsOneLogLineWithItsCounts(t *testing.T) {
	ref, shop := activitytest.TestNode(t), activitytest.NewTenant(t)
	shop.Pod(t, ref.Node, "web")
	activitytest.Mark(t, ref)
	drains := &drainactivities.Activities{Clusters: activitytest.Clusters}
	logged := activitytest.Logged(t, drains.Drain, drainactivities.Input{NodeRef: ref, Attempt: 1})
	require.Contains(t, logged, `msg="Eviction round"`)
	require.Contains(t, logged, "cluster="+ref.Cluster+" node="+ref.Node)
	require.Contains(t, logged, "evictionPods=1 evicted=1 remaining=0 blocked=0")
}
