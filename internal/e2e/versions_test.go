package e2e

import (
	"testing"
	"time"

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
	versionOf := func(spoke, name string) string {
		described, err := server.DescribeWorkflowExecution(t.Context(), temporal.NodeMaintenanceID(spoke, "default", name), "")
		require.NoError(t, err)
		return described.WorkflowExecutionInfo.GetVersioningInfo().GetDeploymentVersion().GetBuildId()
	}
	maintain := func(spoke, version string) {
		run("node", "maintain", "worker-1", "--name", "on-"+spoke, "--cluster", spoke, "--wait")
		require.Equal(t, version, versionOf(spoke, "on-"+spoke))
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
	noRamp := drydock(t, "upgrade-promote", "--build-id", "v1", "--percentage", "5", "--temporal-namespace", namespace)
	require.Equal(t, 1, noRamp.code)
	require.Contains(t, noRamp.err, "version v1 of worker deployment drydock is current: give the share to another version")
	require.Equal(t, "50% of new work gets version v2 of worker deployment drydock, the rest version v1\n", run("upgrade-promote", "--build-id", "v2", "--percentage", "50"))
	for name, version := range map[string]string{"second": "v2", "late": "v1"} { // the workflow ID decides
		run("node", "maintain", "worker-2", "--name", name, "--cluster", "spoke-5")
		require.Eventually(t, func() bool { return versionOf("spoke-5", name) == version }, stateLimit, 100*time.Millisecond)
		run("node", "cancel", name, "--cluster", "spoke-5")
	}
	require.Regexp(t, `^new work gets version v1 of worker deployment drydock\n`, run("upgrade-promote", "--build-id", "v1"))
	require.Regexp(t, `"current": ?"v1",\s+"others"`, run("upgrade-promote", "--build-id", "v1", "-o", "json"), "nothing is ramping")
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
