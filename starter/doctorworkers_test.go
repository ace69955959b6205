package main

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestDoctorSaysWhichWorkersRunControllers(t *testing.T) {
	require.Equal(t, well("worker", "3 workers on task queue drydock, 2 with controllers for objects, 1 for annotations of nodes"),
		workersFinding("worker", []string{"1@a+controllers", "1@b+controllers+node-annotations", "1@c"}))
	none := workersFinding("worker", []string{"1@a"})
	require.True(t, none.OK)
	require.True(t, none.Warning)
	require.Contains(t, none.Detail, "1 worker on task queue drydock; none runs controllers")
}
