package node_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/activities/activitytest"
	nodeactivities "drydock.dev/drydock/activities/node"
)

func TestACordonAndAnUncordonAreOneLogLineEach(t *testing.T) {
	ref := activitytest.TestNode(t)
	ref.Requestor, ref.Rollout = "ops.example.com", "ops/june"
	keys := "cluster=" + ref.Cluster + " node=" + ref.Node + " owner=" + ref.Owner + " requestor=ops.example.com rollout=ops/june"
	logged := activitytest.Logged(t, activitytest.Nodes().Cordon, nodeactivities.CordonInput{NodeRef: ref, Cordon: true})
	require.Contains(t, logged, `msg="Node cordoned"`)
	require.Contains(t, logged, keys)
	logged = activitytest.Logged(t, activitytest.Nodes().ReturnNode, nodeactivities.ReturnNodeInput{NodeRef: ref})
	require.Contains(t, logged, `msg="Node returned to service"`)
	require.Contains(t, logged, keys+" uncordoned=true leftCordoned=false")
}
