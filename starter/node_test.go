package main

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	sdktemporal "go.temporal.io/sdk/temporal"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/nodemaintenance"
)

func (s *stage) maintainsANode(t *testing.T) {
	t.Setenv(clusterVariable, "spoke-1")
	started := succeeds(t, "node", "maintain", "worker-1", "--requestor", "kim.example.com", "--reason", "replace a fan")
	require.Equal(t, "maintenance default/worker-1-kim.example.com in cluster spoke-1 of node worker-1 started; "+
		"follow it with `drydock node status default/worker-1-kim.example.com --cluster spoke-1 --watch`\n", started)

	draining := nodeReaches(t, "worker-1-kim.example.com", maintenancev1.NodeDraining)
	require.Equal(t, "node/spoke-1/default/worker-1-kim.example.com", draining.Metadata.WorkflowID)
	require.Equal(t, "worker-1", draining.Metadata.Node)
	require.Equal(t, "kim.example.com", draining.Metadata.Requestor)
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: maintenance default/worker-1-kim.example.com in cluster spoke-1 is Draining: wait until it is Ready, or cancel\n",
	}, drydock(t, "node", "done", "worker-1-kim.example.com"))

	requireDiffsOfADrain(t)
	s.showsTheQueue(t)
	s.refusesDoneForAJob(t)
	watch := begin(t, "node", "status", "worker-1-kim.example.com", "--watch")
	watch.prints(t, "worker-1: Draining")
	untilReady := begin(t, "node", "status", "worker-1-kim.example.com", "--watch", "--for", "Ready")
	close(s.drained)
	watch.prints(t, "worker-1: Ready")
	require.Equal(t, exitDone, untilReady.end(t).status)
	require.Contains(t, succeeds(t, "node", "fail", "default/worker-1-kim.example.com", "--reason", "no power"), "has failed")
	watch.prints(t, "worker-1: RequestorFailed")
	watch.prints(t, "no power")
	require.Equal(t, outcome{
		status: exitFailed, stderr: "error: maintenance default/worker-1-kim.example.com in cluster spoke-1 has no requestor lee.example.com; it has kim.example.com\n",
	}, drydock(t, "node", "recover", "worker-1-kim.example.com", "--requestor", "lee.example.com"))
	require.Contains(t, succeeds(t, "node", "recover", "worker-1-kim.example.com"), "has recovered")
	watch.prints(t, "kim.example.com; waiting for done")

	// Temporal's visibility lags behind: until it knows the node, the name is unknown.
	require.Eventually(t, func() bool { return drydock(t, "node", "done", "worker-1").status == exitDone }, patience, tick)
	got := watch.end(t)
	require.Equal(t, exitDone, got.status, got.stderr)
	require.Contains(t, got.stdout, "worker-1: Completed")
	got = drydock(t, "node", "status", "worker-1-kim.example.com", "--watch", "--for", "Ready")
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: maintenance default/worker-1-kim.example.com in cluster spoke-1 has ended (Completed) and was never seen in state Ready\n", got.stderr)

	table := succeeds(t, "node", "status", "worker-1-kim.example.com")
	require.Contains(t, table, "node worker-1 in cluster spoke-1   Completed   maintenance default/worker-1-kim.example.com for kim.example.com\n")
	require.Regexp(t, `(?m)^Draining +\d\d:\d\d:\d\dZ? *[-+:0-9]* +\S+$`, table)
	awaitOutput(t, func(list listing) bool {
		return len(list.Items) == 3 && slices.ContainsFunc(list.Items, func(row workflowRow) bool { return row.Phase == string(maintenancev1.NodeCompleted) })
	}, "node", "list", "--cluster", "spoke-1")
	require.Equal(t, succeeds(t, "node", "status", "worker-1-kim.example.com"), succeeds(t, "node", "status", "worker-1"), "without a running maintenance, the last one is shown")
	log := succeeds(t, "logs", "node/worker-1")
	require.Regexp(t, `(?m)^\S+  Node maintenance changed state  cluster=spoke-1  node=worker-1  .*from=Draining  to=Ready`, log)
	require.Equal(t, log, succeeds(t, "logs", "node/spoke-1/default/worker-1-kim.example.com"))
	described := succeeds(t, "node", "describe", "worker-1")
	require.Regexp(t, `(?m)^\S+T\S+ +start +`+actor()+` +replace a fan$`, described)
	require.Regexp(t, `(?m)^\S+T\S+ +fail +`+actor()+` +no power$`, described)
	require.Regexp(t, `(?m)^\S+T\S+ +done +`+actor()+`$`, described)
	require.Contains(t, described, "\nworkflow node/spoke-1/default/worker-1-kim.example.com, run ")
	require.Contains(t, described, "\nstarted by "+actor()+": replace a fan\n")
	full := parsed[description](t, "node", "describe", "worker-1")
	require.Equal(t, "NodeMaintenance", full.Workflow.Type)
	require.Equal(t, strings.ReplaceAll(full.Workflow.RunID, "-", ""), full.Workflow.TraceID)
	require.Contains(t, described, "\ntrace "+full.Workflow.TraceID+", if the workers send traces\n")
	require.Equal(t, "no power", full.Requests[slices.IndexFunc(full.Requests, func(r personRequest) bool { return r.Request == "fail" })].Reason)
	require.Eventually(t, func() bool {
		return drydock(t, "__complete", "node", "list", "--cluster", "").stdout == "spoke-1\n:4\n"
	}, patience, tick, "the clusters are those of running work")
	require.Contains(t, succeeds(t, "node", "list", "-l", "phase=Completed", "-o", "wide", "-n", "default"), "node/spoke-1/default/worker-1-kim.example.com")
	require.Equal(t, "no maintenances in namespace nowhere in cluster spoke-1\n", succeeds(t, "node", "list", "-n", "nowhere", "-o", "table"))
	require.Equal(t, "worker-1-kim.example.com", succeeds(t, "node", "list", "-l", "phase=Completed", "-o", "jsonpath={.items[0].name}"))
	require.Contains(t, drydock(t, "node", "done", "worker-1").stderr, "error: the last maintenance of node worker-1 has already ended: maintenance default/")
	prints(t, `3 maintenances: 2 Cancelled, 1 Completed\n`, "node", "list")
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: maintenance default/worker-9 in cluster spoke-1 not found, and no maintenance is running on a node worker-9: see `drydock node list --cluster spoke-1`\n",
	}, drydock(t, "node", "cancel", "worker-9"))

	ready := drydock(t, "node", "maintain", "worker-1", "--requestor", "kim.example.com", "--wait")
	require.Equal(t, exitDone, ready.status, ready.stderr)
	require.Equal(t, "node worker-1 is ready for your work; when it is done, return the node: `drydock node done default/worker-1-kim.example.com --cluster spoke-1`\n", ready.stderr)
	require.Contains(t, succeeds(t, "node", "done", "default/worker-1-kim.example.com"), "see `drydock node status")
	appliesAMaintenance(t)
}

// appliesAMaintenance starts a maintenance from a file, and then applies changes of the file.
func appliesAMaintenance(t *testing.T) {
	const object = "apiVersion: maintenance.nvidia.com/v1alpha1\nkind: NodeMaintenance\nmetadata: {name: applied}\nspec: {requestorID: kim.example.com, nodeName: worker-1}\n"
	apply := func(text string) outcome { return drydock(t, "node", "apply", "-f", file(t, "maintenance.yaml", text)) }
	const name = "maintenance default/applied in cluster spoke-1"
	require.Contains(t, apply(object).stdout, name+" of node worker-1 started; follow it with ")
	nodeReaches(t, "applied", maintenancev1.NodeReady)
	require.Equal(t, outcome{stdout: name + " already matches the file\n"}, apply(object))
	joins := strings.Replace(object, "spec: {", "spec: {additionalRequestors: [lee.example.com], ", 1)
	const changed = name + ": changed %s; see `drydock node status default/applied --cluster spoke-1`\n"
	require.Equal(t, outcome{stdout: fmt.Sprintf(changed, "spec.additionalRequestors")}, apply(joins))
	require.Equal(t, outcome{stdout: name + " already matches the file\n"}, apply(joins), "it has joined")
	edited := file(t, "edited.yaml", strings.Replace(joins, "spec: {", "spec: {onFailure: KeepCordoned, ", 1))
	require.Equal(t, outcome{stdout: fmt.Sprintf(changed, "spec.onFailure")}, drydock(t, "node", "edit", "-f", edited, "--reason", "look at it"))
	require.Equal(t, outcome{stdout: name + " already matches the file\n"}, drydock(t, "node", "edit", "-f", edited))
	prints(t, "(?m)^note: the request was edited by "+actor()+": look at it$", "node", "status", "applied")
	for field, problem := range map[string]string{
		"maintenanceWindows: [night]": "spec.maintenanceWindows: cannot be changed while the maintenance runs: cancel it and start another one",
		"drainSpec: {}":               "spec.drainSpec: cannot be changed now: the drain has ended",
	} {
		text := strings.Replace(joins, "spec: {", "spec: {onFailure: KeepCordoned, "+field+", ", 1)
		require.Equal(t, outcome{status: exitFailed, stderr: "error: edit " + name + ": " + problem + "\n"}, apply(text))
	}
	succeeds(t, "node", "cancel", "applied", "--requestor", "lee.example.com")
	succeeds(t, "node", "cancel", "applied")
}

// showsTheQueue lets a second requestor wait for a node that is being drained.
func (s *stage) showsTheQueue(t *testing.T) {
	succeeds(t, "node", "maintain", "worker-1", "--requestor", "lee.example.com", "--name", "second", "--wait-for-pods")
	// The nodes are listed again whenever the scheduler continues as new, which happens often here.
	pending := awaitOutput(t, func(s maintenanceStatus) bool {
		return s.QueuePosition != nil && s.QueuePosition.Reason == string(scheduling.NodeBusy)
	}, "node", "status", "second")
	require.Equal(t, 1, pending.QueuePosition.Rank)
	prints(t, `(?m)^waiting: NodeBusy.*; rank 1 of 1$`, "node", "status", "second")
	require.Nil(t, nodeReaches(t, "worker-1-kim.example.com", maintenancev1.NodeDraining).QueuePosition)

	list := awaitOutput(t, func(l maintenanceListing) bool {
		return len(l.Items) == 2 && len(l.Queues) == 1 && l.Queues[0].Trouble == "" && l.Queues[0].Watching && len(l.Queues[0].Queue) == 2 && l.Queues[0].Queue[1].Rank == 1
	}, "node", "list", "--cluster", "spoke-1")
	queue := list.Queues[0]
	require.Equal(t, "worker-1-kim.example.com", queue.Queue[0].Name)
	require.Zero(t, queue.Queue[0].Rank, "the first has a slot")
	require.Equal(t, "lee.example.com", queue.Queue[1].Requestor)
	require.Regexp(t, `^error: node worker-1 has several maintenances: name one of default/\S+ \(requestor \S+\), default/\S+ \(requestor \S+\)\n$`,
		drydock(t, "node", "done", "worker-1").stderr)
	// The maintenance that has the node is shown, and the one that waits for it.
	prints(t, `maintenance default/worker-1-kim.example.com for kim.example.com\nstarted by `+actor()+`: replace a fan\n`, "node", "status", "worker-1")
	prints(t, `(?m)^OTHER MAINTENANCE +REQUESTOR +STATE +STARTED +ENDED +REASON\ndefault/second +lee.example.com +Pending +\S+T\S+`, "node", "status", "worker-1")
	prints(t, `(?m)^spoke-1 +slot +worker-1 +default/worker-1-kim.example.com +kim.example.com +\S+ ago$`, "node", "list")
	prints(t, `(?m)^spoke-1 +1 +worker-1 +default/second +lee.example.com +\S+ ago +NodeBusy: `, "node", "list")
	prints(t, "1 node under maintenance, 1 waiting", "doctor")

	watch := begin(t, "node", "list", "--watch")
	watch.prints(t, "maintenance default/second in cluster spoke-1: Pending")
	succeeds(t, "node", "cancel", "second")
	watch.prints(t, "maintenance default/second in cluster spoke-1: Cancelled")
	watch.stop()
	require.Equal(t, exitDone, watch.end(t).status, "an interrupted watch of a list is no failure")
	awaitOutput(t, func(l maintenanceListing) bool { return len(l.Queues) == 1 && len(l.Queues[0].Queue) == 1 }, "node", "list")
	awaitOutput(t, func(l maintenanceListing) bool { return len(l.Items) == 1 }, "node", "list", "--running")
	require.Contains(t, drydock(t, "node", "cancel", "second").stderr, "has already ended (Cancelled), so cancel has no effect")
}

// refusesDoneForAJob: signals do not change a maintenance while its Job runs.
func (s *stage) refusesDoneForAJob(t *testing.T) {
	succeeds(t, "node", "maintain", "-f", file(t, "job.yaml", `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: flash, namespace: default}
spec:
  requestorID: firmware.example.com
  additionalRequestors: [gpu.example.com]
  nodeName: worker-2
  action:
    type: job
    job: {namespace: ops, template: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: flash, image: flash}]}}}}}
`))
	nodeReaches(t, "flash", maintenancev1.NodeReady)
	for _, said := range [][]string{{"done"}, {"fail"}, {"done", "--requestor", "gpu.example.com"}, {"fail", "--requestor", "gpu.example.com"}} {
		require.Equal(t, outcome{
			status: exitFailed,
			stderr: "error: maintenance default/flash in cluster spoke-1 is Ready: its job is still working on the node: wait for the job, or cancel\n",
		}, drydock(t, append([]string{"node", said[0], "flash"}, said[1:]...)...))
	}
	require.Contains(t, drydock(t, "node", "recover", "flash").stderr, "is Ready: there is no failure to recover from")
	succeeds(t, "node", "cancel", "flash", "--requestor", "gpu.example.com")
	succeeds(t, "node", "cancel", "flash")
	ended := nodeReaches(t, "flash", maintenancev1.NodeCancelled)
	require.Len(t, ended.Status.Notes, 2, ended.Status.Notes)
}

func TestTheStatusWithoutAWorkerShowsWhetherTheNodeIsReady(t *testing.T) {
	tests := []struct {
		phase              maintenancev1.NodeState
		reason             string
		readyForRequestors bool
	}{
		{maintenancev1.NodeDraining, "DisruptionBudget", false},
		{maintenancev1.NodeReady, "", false},
		{maintenancev1.NodeReady, "JobRunning", false},
		{maintenancev1.NodeReady, nodemaintenance.ReasonAwaitingRequestor, true},
		{maintenancev1.NodeReady, nodemaintenance.ReasonStale, true},
		{maintenancev1.NodeRequestorFailed, "RequestorFailed", true},
	}
	for _, tt := range tests {
		status := statusFromAttributes(sdktemporal.NewSearchAttributes(
			temporal.AttributePhase.ValueSet(string(tt.phase)), temporal.AttributeReason.ValueSet(tt.reason)))
		require.Equal(t, tt.phase, status.State)
		require.Equal(t, tt.readyForRequestors, status.ReadyForRequestors, "%s %s", tt.phase, tt.reason)
	}
}

// several returns the status of a maintenance in that state with two requestors.
func several(state maintenancev1.NodeState, own, second maintenancev1.RequestorState) maintenancev1.NodeMaintenanceStatus {
	return maintenancev1.NodeMaintenanceStatus{
		State: state, ReadyForRequestors: state == maintenancev1.NodeReady || state == maintenancev1.NodeRequestorFailed,
		Requestors: []maintenancev1.RequestorStatus{{RequestorID: "kim", State: own}, {RequestorID: "lee", State: second}},
	}
}

func TestACancelExplainsItsEffectInEachPhase(t *testing.T) {
	alone := func(state maintenancev1.NodeState) maintenancev1.NodeMaintenanceStatus {
		return maintenancev1.NodeMaintenanceStatus{State: state}
	}
	tests := []struct {
		name      string
		status    maintenancev1.NodeMaintenanceStatus
		requestor string
		says      string
	}{
		{"draining", alone(maintenancev1.NodeDraining), "", " is being cancelled"},
		{"health checks", alone(maintenancev1.NodeHealthChecks), "", " is being cancelled unless its health checks have just ended; the node is returned to service"},
		{"cleaning up", alone(maintenancev1.NodeCleaningUp), "", " is already cleaning up; cancel has no effect"},
		{"completed", alone(maintenancev1.NodeCompleted), "", " is already cleaning up; cancel has no effect"},
		{"one of two requestors", several(maintenancev1.NodeReady, maintenancev1.RequestorActive, maintenancev1.RequestorActive), "lee", ": lee leaves (needed by 1 of 2 requestors: kim)"},
		{
			"one of two requestors, which is done", several(maintenancev1.NodeReady, maintenancev1.RequestorDone, maintenancev1.RequestorActive), "",
			": kim already no longer needs the node: nothing changes; act for another with --requestor (needed by 1 of 2 requestors: lee)",
		},
		{"the last of two requestors", several(maintenancev1.NodeReady, maintenancev1.RequestorDone, maintenancev1.RequestorActive), "lee", " is being cancelled"},
	}
	cancel := nodeSignal{signal: temporal.SignalCancel, result: "is being cancelled", resultOfOne: "leaves"}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			others, err := othersOf(subject{}, tt.status, tt.requestor)
			require.NoError(t, err)
			require.Equal(t, tt.says, cancel.effect(tt.status, requestorNamed(tt.status, tt.requestor), others))
		})
	}
}

func TestFailAfterDoneAndRecoverWithoutFailAreRefused(t *testing.T) {
	const ready, failed = maintenancev1.NodeReady, maintenancev1.NodeRequestorFailed
	atWork := several(ready, maintenancev1.RequestorDone, maintenancev1.RequestorActive)
	require.Equal(t, "kim no longer needs the node (Done)", notWorking(atWork, requestorNamed(atWork, "")))
	require.Empty(t, notWorking(atWork, requestorNamed(atWork, "lee")))
	held := several(failed, maintenancev1.RequestorActive, maintenancev1.RequestorFailed)
	require.Equal(t, "kim has no failure to recover from (Active)", notFailed(held, requestorNamed(held, "kim")))
	require.Empty(t, notFailed(held, requestorNamed(held, "lee")))
	jobGoing := maintenancev1.NodeMaintenanceStatus{State: ready, Failure: &maintenancev1.Failure{Reason: "JobFailed"}}
	require.Empty(t, notFailed(jobGoing, requestorNamed(jobGoing, "")), "the job has failed, but still exists")
	returning := several(maintenancev1.NodeHealthChecks, maintenancev1.RequestorDone, maintenancev1.RequestorDone)
	require.Equal(t, "the node is already being returned to service", notReady(returning, requestorNamed(returning, "")))
}

func nodeReaches(t *testing.T, name string, state maintenancev1.NodeState) maintenanceStatus {
	t.Helper()
	return awaitOutput(t, func(s maintenanceStatus) bool { return s.Status.State == state }, "node", "status", name)
}

func TestTheClocksOfAFailureHaveStopped(t *testing.T) {
	blocker := drydockv1.Blocker{Kind: "Pod", Namespace: "shop", Name: "web", Message: "shop/web allows 0 of 3", Since: ago(20 * time.Minute)}
	status := maintenanceStatus{Status: maintenancev1.NodeMaintenanceStatus{
		State: maintenancev1.NodeFailed, Failure: &maintenancev1.Failure{Reason: temporal.ErrDrainTimedOut, Message: "1 pod is left", Blockers: []drydockv1.Blocker{blocker}},
	}}
	require.Contains(t, status.frame(noon, frameStyle{}), "\nfailed: DrainTimedOut: 1 pod is left\n  Pod shop/web: shop/web allows 0 of 3")
}

func TestTheResultOfAMaintenanceIsPrintedOnce(t *testing.T) {
	for want, status := range map[string]maintenancev1.NodeMaintenanceStatus{
		"Cancelled": {State: maintenancev1.NodeCancelled},
		"NodeGone: node worker-1 was deleted": {
			State: maintenancev1.NodeGone, Failure: &maintenancev1.Failure{Reason: temporal.ErrNodeGone, Message: "node worker-1 was deleted"},
		},
		"Failed: DrainTimedOut: 3 pods are left": {
			State: maintenancev1.NodeFailed, Failure: &maintenancev1.Failure{Reason: temporal.ErrDrainTimedOut, Message: "3 pods are left"},
		},
	} {
		require.Equal(t, want, endText(status))
	}
}
