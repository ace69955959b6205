package e2e

import (
	"testing"

	"github.com/stretchr/testify/require"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// Two versions of the workers run at the same time. What is running stays with the version that began it, and a version is promoted only once its workers run.
func TestRunningWorkStaysWithTheVersionThatBeganIt(t *testing.T) {
	reserve(t, "spoke-5", "spoke-6")
	const namespace = "versions"
	server := newNamespace(t, namespace)
	run := func(args ...string) string { return succeeds(t, append(args, "--temporal-namespace", namespace)...) }
	run("setup")
	start := func(version string) *devstack.Process {
		worker, err := theFleet.AddWorker("--temporal-namespace", namespace, "--controllers=false", "--node-annotations=false", "--deployment", "drydock", "--build-id", version)
		require.NoError(t, err)
		require.NoError(t, worker.Start(t.Context()))
		t.Cleanup(func() { require.NoError(t, worker.Kill()) })
		return worker
	}
	maintain := func(spoke, version string) {
		run("node", "maintain", "worker-1", "--name", "on-"+spoke, "--cluster", spoke, "--wait")
		described, err := server.DescribeWorkflowExecution(t.Context(), temporal.NodeMaintenanceID(spoke, "default", "on-"+spoke), "")
		require.NoError(t, err)
		require.Equal(t, version, described.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId())
	}

	refuses := func(version string) {
		refused := drydock(t, "upgrade-promote", "--build-id", version, "--timeout", "3s", "--temporal-namespace", namespace)
		require.Equal(t, 1, refused.code)
		require.Contains(t, refused.err, "waiting until workers with --deployment=drydock --build-id="+version+" poll task queue drydock")
		require.Contains(t, refused.err, "no worker with --deployment=drydock --build-id="+version+" polls task queue drydock: nothing is changed")
	}
	refuses("v1")
	start("v1")
	require.Equal(t, "new work gets version v1 of worker deployment drydock\n", run("upgrade-promote", "--build-id", "v1"))
	maintain("spoke-5", "v1")
	second := start("v2")
	require.Regexp(t, `v1 +keep them: work that began with it is running`, run("upgrade-promote", "--build-id", "v2"))
	maintain("spoke-6", "v2")
	run("upgrade-promote", "--build-id", "v1") // back
	for _, spoke := range []string{"spoke-5", "spoke-6"} {
		run("node", "done", "on-"+spoke, "--cluster", spoke)
		run("node", "status", "on-"+spoke, "--cluster", spoke, "--watch")
		require.NoError(t, theFleet.AwaitCleanup(t.Context(), theFleet.Cluster(spoke)))
	}
	require.NoError(t, second.Kill())
	refuses("v2") // Temporal still lists its pollers
}
