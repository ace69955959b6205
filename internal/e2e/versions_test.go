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
	// share gives a version half of the new work, if another version is current.
	share := func(version string, more ...string) answer {
		given := drydock(t, append([]string{"upgrade-promote", "--build-id", version, "--percentage", "50", "--temporal-namespace", namespace}, more...)...)
		require.Zero(t, given.code, given.err)
		return given
	}
	const getsAll = "version v1 gets all of the new work, not 50%"
	start("v1")
	first := share("v1")
	require.Equal(t, "new work gets version v1 of worker deployment drydock\n", first.out)
	require.Contains(t, first.err, getsAll)
	maintain("spoke-5", "v1")
	second := start("v2")
	const half = "50% of new work gets version v2 of worker deployment drydock, the rest version v1\n"
	require.Equal(t, half, share("v2").out)
	for name, version := range map[string]string{"second": "v2", "late": "v1"} { // the workflow ID decides
		run("node", "maintain", "worker-2", "--name", name, "--cluster", "spoke-5")
		require.Eventually(t, func() bool { return versionOf("spoke-5", name) == version }, stateLimit, 100*time.Millisecond)
		run("node", "cancel", name, "--cluster", "spoke-5")
	}
	back := share("v1", "-o", "json") // as Helm does, whose values still have the percentage
	require.Regexp(t, `"current": ?"v1",\s+"others"`, back.out, "nothing is ramping")
	require.Contains(t, back.err, getsAll)
	require.Regexp(t, "^"+half, share("v2").out)
	start("v3")
	require.Regexp(t, `"current": ?"v3",\s+"former": ?"v1",\s+"others"`, run("upgrade-promote", "--build-id", "v3", "-o", "json"), "nothing is ramping")
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
