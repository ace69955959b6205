package main

import (
	"context"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestCommandsOnARealTemporalServer(t *testing.T) {
	s := newStage(t)
	steps := []struct {
		name string
		run  func(*testing.T)
	}{
		{"before setup, a start names the missing step", startBeforeSetup},
		{"setup registers search attributes once", setUpTwice},
		{"without a worker, a start warns that nothing was checked", warnsWithoutWorker},
		{"without a worker, a status and doctor report it", statusWithoutWorker},
		{"without a worker, a hold is saved for later", holdWithoutWorker},
		{"doctor does not count a worker of another version", s.startsWorkerOfAVersion},
		{"a worker starts", s.startWorker},
		{"doctor reports no problem once a worker polls", doctorContent},
		{"doctor compares the retention with what Drydock needs", s.doctorComparesTheRetention},
		{"a portal shows applied objects and windows", s.showsOnPortals},
		{"a terminated and redefined window notifies once", s.notifiesOnce},
		{"a rollout is started, watched and ends", s.watchesARollout},
		{"the status page has links to Temporal's Web UI", s.servesTheStatusPage},
		{"a running rollout is not started twice", s.startsOnce},
		{"a failed rollout ends the watch with status 1", s.watchesAFailure},
		{"a rollout that is not enabled is planned, and starts once enabled", s.enables},
		{"a rollout is paused and resumed", s.pausesAndResumes},
		{"a rollout is edited, approved and retried", s.editsApprovesAndRetries},
		{"rollouts are listed with counts", s.listsRollouts},
		{"the server accepts the queries of the documentation", s.acceptsDocumentedQueries},
		{"the runs of a rollout are listed", s.listsRuns},
		{"names are completed", s.completes},
		{"an ended rollout refuses signals", s.refusesSignalsToEndedRollouts},
		{"a stopped watch does not stop the rollout", s.stopsWatching},
		{"a node is maintained by its name", s.maintainsANode},
		{"what a request names must exist", s.refusesWhatDoesNotExist},
		{"a start waits for what does not exist", s.waitsForWhatDoesNotExist},
		{"doctor reports the cleanup of a terminated maintenance", s.cleansUp},
		{"a held rollout waits and resumes", s.holdsAndReleases},
		{"the emergency stop loses no request under load", s.holdsUnderLoad},
		{"a lock controller operates the locks of an application", s.operatesLocks},
		{"a maintenance with reactivated locks continues as new", s.continuesAsNewWithLocks},
		{"signals without a worker apply in order", s.ordersSignals},
		{"without a worker, ended runs are shown", s.showsEndedRuns},
		{"without a worker, what is running is replayed", s.checksUpgrades},
	}
	for _, step := range steps {
		require.True(t, t.Run(step.name, step.run), "the steps build on each other")
	}
}

// startRollout starts a rollout of three clusters, spoke-1 first.
func startRollout(t *testing.T, name string, more ...string) string {
	t.Helper()
	return succeeds(t, append([]string{"upgrade", "start", "-f", file(t, name+".yaml", rolloutText(name))}, more...)...)
}

func rolloutText(name string) string {
	text := strings.Replace(validRollout, "name: november", "name: "+name, 1)
	return strings.Replace(text, "[spoke-1, spoke-2]", "[spoke-1, spoke-2, spoke-3]", 1)
}

// reaches waits until the status of a rollout satisfies a condition.
func reaches(t *testing.T, name string, wanted func(ranv1.ClusterGroupUpgradeStatus) bool) rolloutStatus {
	t.Helper()
	return awaitOutput(t, func(s rolloutStatus) bool { return wanted(s.Status) }, "upgrade", "status", "prod/"+name)
}

func clustersRunning(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Counts.Running > 0 }

var complete = ranv1.ClusterStatus{State: ranv1.ClusterComplete, Nodes: ranv1.NodeCounts{Total: 2, Done: 2, Evicted: 5}}

func startBeforeSetup(t *testing.T) {
	got := drydockWith(t, validRollout, "upgrade", "start", "-f", "-")
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stderr, "error: start rollout prod/november: Temporal namespace default lacks the search attributes of Drydock: run `drydock setup`")

	doctor := doctorSays(t, []string{"missing: DrydockGroup, ", "fix: run `drydock setup`"})
	require.Equal(t, exitFailed, doctor.status)
	require.Empty(t, doctor.stderr)
}

func setUpTwice(t *testing.T) {
	first := parsed[[]setupStep](t, "setup")
	require.Len(t, first, len(temporal.SearchAttributes()))
	require.Equal(t, setupStep{Where: "temporal namespace default", What: "search attribute DrydockGroup", Result: "added"}, first[0])
	require.Equal(t, []setupStep{{Where: "temporal namespace default", What: "search attributes", Result: "upToDate"}}, parsed[[]setupStep](t, "setup"))
}

func statusWithoutWorker(t *testing.T) {
	got := drydock(t, "upgrade", "status", "prod/waiting")
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: get the status of rollout prod/waiting: no worker answers on task queue drydock: start drydock-worker, or see `drydock doctor`\n",
	}, got)
	require.Equal(t, exitFailed, doctorSays(t, []string{"fix: start drydock-worker"}).status)
}

func (s *stage) startsWorkerOfAVersion(t *testing.T) {
	version := worker.WorkerDeploymentVersion{DeploymentName: "drydock", BuildID: "v1"}
	versioned := worker.New(s.client, temporal.TaskQueue, worker.Options{DeploymentOptions: worker.DeploymentOptions{
		UseVersioning: true, Version: version, DefaultVersioningBehavior: workflow.VersioningBehaviorPinned,
	}})
	versioned.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "Nothing"})
	versioned.RegisterActivityWithOptions(func(context.Context) error { return nil }, activity.RegisterOptions{Name: "nothing"})
	require.NoError(t, versioned.Start())
	defer versioned.Stop()
	says := ""
	require.Eventually(t, func() bool {
		says = drydock(t, "doctor").stdout
		return strings.Contains(says, "only drydock/v1")
	}, patience, tick)
	require.Contains(t, says, "no worker of the current version (workers without --build-id) polls task queue drydock for workflow tasks, only drydock/v1")
	require.Contains(t, says, "fix: `temporal worker deployment set-current-version --deployment-name drydock --build-id v1`")
}

func doctorContent(t *testing.T) {
	// A started worker is visible after its first poll.
	awaitOutput(t, func(findings []finding) bool {
		return len(findings) > 0 && !slices.ContainsFunc(findings, func(f finding) bool { return !f.OK })
	}, "doctor")
}

func (s *stage) watchesARollout(t *testing.T) {
	require.Equal(t, "rollout prod/november started; follow it with `drydock upgrade status prod/november --watch`\n", startRollout(t, "november"))
	first, err := s.client.DescribeWorkflow(t.Context(), "cgu/prod/november", "")
	require.NoError(t, err)
	log := begin(t, "logs", "november", "-n", "prod", "--follow")
	watch := begin(t, "upgrade", "status", "november", "-n", "prod", "--watch")
	watch.prints(t, "batch 1 of 2: spoke-1\n")
	s.simulate(t, "november", "spoke-1", ranv1.ClusterStatus{
		State: ranv1.ClusterRunning, Step: "worker-1: Draining", Reason: "DisruptionBudget", Message: "budget shop/web allows 0 of 3",
		Nodes: ranv1.NodeCounts{Total: 2, Done: 1},
	})
	watch.prints(t, "spoke-1: running 1/2 nodes; worker-1: Draining; DisruptionBudget: budget shop/web allows 0 of 3\n")
	log.prints(t, "reason=DisruptionBudget")
	s.simulate(t, "november", "spoke-1", complete)
	watch.prints(t, "spoke-1: complete 2/2 nodes; took ")
	watch.prints(t, "batch 2 of 2: spoke-2, spoke-3\n")
	s.simulate(t, "november", "spoke-2", complete)
	s.simulate(t, "november", "spoke-3", complete)
	got := watch.end(t)
	require.Equal(t, exitDone, got.status, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Contains(t, lines[len(lines)-1], "rollout prod/november: Completed")
	requireLogOfNovember(t, log.end(t))

	status := parsed[rolloutStatus](t, "upgrade", "status", "prod/november")
	require.Equal(t, "prod", status.Metadata.Namespace)
	require.Equal(t, "november", status.Metadata.Name)
	require.Equal(t, "cgu/prod/november", status.Metadata.WorkflowID)
	require.NotEqual(t, first.WorkflowExecution.RunID, status.Metadata.RunID, "the rollout continued as new between the batches")
	require.Equal(t, [][]string{{"spoke-1"}, {"spoke-2", "spoke-3"}}, status.Status.RemediationPlan)
	require.Equal(t, int32(3), status.Status.Counts.Complete)
	require.Equal(t, "cgu/prod/november\n", succeeds(t, "upgrade", "status", "cgu/prod/november", "-o", "name"))

	table := succeeds(t, "upgrade", "status", "prod/november")
	require.Contains(t, table, "rollout prod/november   Completed   took ")
	require.Contains(t, table, "[################################] 100%  3 of 3 clusters complete; 6 nodes done, 15 pods evicted\n")
	require.Regexp(t, `(?m)^2 +spoke-2 +complete +2/2 +took \S+$`, table)
}

func (s *stage) startsOnce(t *testing.T) {
	startRollout(t, "twice")
	got := drydock(t, "upgrade", "start", "-f", file(t, "twice.yaml", rolloutText("twice")))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: rollout prod/twice is already running: see `drydock upgrade status prod/twice`\n",
	}, got)
	require.Contains(t, succeeds(t, "upgrade", "cancel", "prod/twice", "--reason", "wrong day"), "rollout prod/twice is being cancelled")
	cancelled := reaches(t, "twice", func(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Status.CompletedAt != nil })
	reason, _ := verdict(cancelled.Status)
	require.Equal(t, ranv1.ReasonCancelled, reason)
	require.Error(t, s.client.GetWorkflow(t.Context(), "cgu/prod/twice", "").Get(t.Context(), nil), "its workflow has closed")

	again := parsed[workflowStarted](t, "upgrade", "start", "-f", file(t, "twice.yaml", rolloutText("twice")))
	require.NotEqual(t, cancelled.Metadata.RunID, again.Metadata.RunID, "an ended rollout may be started again")
}

func (s *stage) watchesAFailure(t *testing.T) {
	path := file(t, "failing.yaml", rolloutText("failing"))
	watch := begin(t, "upgrade", "start", "-f", path, "--wait")
	failed := ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: temporal.ErrDrainTimedOut, Message: "drain worker-1: 1 pod left"}
	s.simulate(t, "failing", "spoke-1", failed)
	got := watch.end(t)
	require.Equal(t, exitFailed, got.status)
	require.Contains(t, got.stdout, "spoke-1: failed")
	require.Contains(t, got.stdout, "DrainTimedOut: drain worker-1: 1 pod left")
	require.Contains(t, got.stderr, "error: rollout prod/failing did not succeed (")
}

func (s *stage) enables(t *testing.T) {
	planned := strings.Replace(rolloutText("planned"), "spec:", "spec:\n  enable: false", 1)
	succeeds(t, "upgrade", "start", "-f", file(t, "planned.yaml", planned))
	status := reaches(t, "planned", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return len(status.RemediationPlan) > 0 && reasonOf(status.Wait) == ranv1.ReasonNotEnabled
	})
	require.Zero(t, status.Status.Counts.Running)
	table := succeeds(t, "upgrade", "status", "prod/planned")
	require.Contains(t, table, "rollout prod/planned   Not enabled")
	require.Contains(t, succeeds(t, "upgrade", "enable", "prod/planned"), "rollout prod/planned is enabled")
	reaches(t, "planned", clustersRunning)
}

func (s *stage) pausesAndResumes(t *testing.T) {
	startRollout(t, "paused")
	reaches(t, "paused", clustersRunning)
	succeeds(t, "upgrade", "pause", "prod/paused")
	reaches(t, "paused", func(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Paused })
	require.Contains(t, succeeds(t, "upgrade", "status", "prod/paused"), "rollout prod/paused   Paused")
	succeeds(t, "upgrade", "resume", "prod/paused")
	reaches(t, "paused", func(status ranv1.ClusterGroupUpgradeStatus) bool { return !status.Paused })
}

// editsApprovesAndRetries makes every possible change of a rollout.
func (s *stage) editsApprovesAndRetries(t *testing.T) {
	receiver := receiveFacts(t)
	text := strings.Replace(rolloutText("changed"), "spec:", "spec:\n  enable: false\n  approvals: {afterCanaries: true}\n  notify: [{url: "+receiver.URL+"}]", 1)
	succeeds(t, "upgrade", "start", "-f", file(t, "changed.yaml", text))
	reaches(t, "changed", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return reasonOf(status.Wait) == ranv1.ReasonNotEnabled
	})
	require.Equal(t, "rollout prod/changed already matches the file\n", succeeds(t, "upgrade", "edit", "-f", file(t, "changed.yaml", text)))
	fewer := strings.Replace(text, "[spoke-1, spoke-2, spoke-3]", "[spoke-1, spoke-2]", 1)
	requireDiffsOfChanged(t, text, fewer)
	elsewhere := drydock(t, "upgrade", "edit", "-f", file(t, "changed.yaml", strings.Replace(text, receiver.URL, "https://elsewhere.example.com/s3cret", 1)))
	require.Equal(t, exitFailed, elsewhere.status)
	require.Contains(t, elsewhere.stderr, "spec.notify[0].url: Forbidden: host elsewhere.example.com: not a receiver of allow.webhooks")
	require.NotContains(t, elsewhere.stderr, "s3cret")
	require.Equal(t, "rollout prod/changed: changed spec.clusters; see `drydock upgrade status prod/changed`\n",
		succeeds(t, "upgrade", "edit", "-f", file(t, "changed.yaml", fewer)))
	reaches(t, "changed", func(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Counts.Total == 2 })
	succeeds(t, "upgrade", "enable", "prod/changed")
	reaches(t, "changed", clustersRunning)
	refused := drydock(t, "upgrade", "edit", "-f", file(t, "changed.yaml", text))
	require.Equal(t, exitFailed, refused.status)
	require.Contains(t, refused.stderr, "error: edit rollout prod/changed: spec.clusters: cannot be changed once the rollout is enabled")
	require.Contains(t, differs(t, exitUsage, text).stderr, "error: edit rollout prod/changed: spec.clusters: cannot be changed once the rollout is enabled")
	longer := strings.Replace(fewer, "maxConcurrency: 2", "maxConcurrency: 2\n    timeout: 300", 1)
	require.Contains(t, differs(t, exitFailed, longer).stdout, "\nthe rollout times out after 5h0m0s instead of 4h0m0s, of which ")

	early := drydock(t, "upgrade", "approve", "prod/changed")
	require.Equal(t, exitFailed, early.status)
	require.Contains(t, early.stderr, "error: approve rollout prod/changed: the rollout does not wait for an approval: BatchInProgress")
	s.simulate(t, "changed", "spoke-1", complete)
	reaches(t, "changed", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return reasonOf(status.Wait) == ranv1.ReasonWaitingForApproval
	})
	require.Contains(t, succeeds(t, "upgrade", "status", "prod/changed"), "waiting: WaitingForApproval")
	require.Contains(t, drydock(t, "upgrade", "approve", "prod/changed", "--batch", "3").stderr, "waits for the approval of batch 2, not 3")
	require.Equal(t, "rollout prod/changed: afterCanaries is approved, batch 2 may start; see `drydock upgrade status prod/changed`\n",
		succeeds(t, "upgrade", "approve", "prod/changed", "--comment", "CHG-7"))

	failed := ranv1.ClusterStatus{State: ranv1.ClusterFailed, Reason: temporal.ErrDrainTimedOut, Message: "drain worker-1: 1 pod left"}
	s.simulate(t, "changed", "spoke-2", failed)
	over := reaches(t, "changed", func(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Status.CompletedAt != nil })
	require.Equal(t, "CHG-7", over.Status.Approvals[0].Comment)
	require.Error(t, s.client.GetWorkflow(t.Context(), "cgu/prod/changed", "").Get(t.Context(), nil), "its workflow has closed")
	require.Contains(t, drydock(t, "upgrade", "approve", "prod/changed").stderr, "has already ended (Failed), so approve has no effect")

	require.Contains(t, succeeds(t, "upgrade", "retry", "prod/changed", "--reason", "budget fixed"), "rollout prod/changed started; follow it with")
	reaches(t, "changed", func(status ranv1.ClusterGroupUpgradeStatus) bool {
		return reasonOf(status.Wait) == ranv1.ReasonWaitingForApproval && status.Counts.Complete == 1
	})
	require.Contains(t, drydock(t, "upgrade", "retry", "prod/changed").stderr, "rollout prod/changed is already running")
	succeeds(t, "upgrade", "approve", "prod/changed")
	s.simulate(t, "changed", "spoke-2", complete)
	again := reaches(t, "changed", func(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Status.CompletedAt != nil })
	require.True(t, succeeded(again.Status))
	require.NoError(t, s.client.GetWorkflow(t.Context(), "cgu/prod/changed", "").Get(t.Context(), nil), "its workflow has closed")
	require.Equal(t, over.Status.RemediationPlan, again.Status.RemediationPlan)
	receiver.accepts(t, map[string]int{
		"dev.drydock.rollout.started": 2, "dev.drydock.rollout.waitingforapproval": 2, "dev.drydock.rollout.failed": 1, "dev.drydock.rollout.completed": 1,
	})
	require.Equal(t, "error: retry rollout prod/changed: every cluster is complete: there is nothing to retry\n", drydock(t, "upgrade", "retry", "prod/changed").stderr)
}

func (s *stage) listsRollouts(t *testing.T) {
	list := awaitOutput(t, func(list listing) bool { // Temporal's visibility lags behind
		return list.Counts["Completed"] == 2 && list.Counts["Failed"] == 1
	}, "upgrade", "list")
	total := 0
	for _, count := range list.Counts {
		total += count
	}
	require.Len(t, list.Items, total)
	ids := succeeds(t, "upgrade", "list", "-o", "name")
	require.Equal(t, 1, strings.Count(ids, "cgu/prod/twice\n"), "of a rollout that ran twice, the newest run is listed")
	table := succeeds(t, "upgrade", "list", "-n", "prod")
	require.Regexp(t, `(?m)^prod +november +Completed +2 +`, table)
	require.Contains(t, table, "2 Completed, 1 Failed, ")
	require.Equal(t, "no rollouts in namespace test\n", succeeds(t, "upgrade", "list", "-n", "test"))
	require.Equal(t, "no rollouts running in namespace test with phase=Failed\n", succeeds(t, "upgrade", "list", "-n", "test", "-l", "phase=Failed", "--running"))
	require.Empty(t, succeeds(t, "upgrade", "list", "-n", "test", "-o", "name"))
}

// documentedQuery matches a visibility query in a table of the documentation.
var documentedQuery = regexp.MustCompile("\\| `((?:Drydock|WorkflowType)[^`]* (?:=|IN|STARTS_WITH) [^`]*)` \\|")

func (s *stage) acceptsDocumentedQueries(t *testing.T) {
	for _, page := range []string{"how-to/monitor.md", "reference/workflows.md"} {
		text, err := os.ReadFile("../docs/" + page)
		require.NoError(t, err)
		queries := documentedQuery.FindAllStringSubmatch(string(text), -1)
		require.NotEmpty(t, queries, page)
		for _, query := range queries {
			_, err := s.client.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query[1]})
			require.NoError(t, err, query[1])
		}
	}
}

func (s *stage) completes(t *testing.T) {
	// A completion that takes too long is empty.
	require.Eventually(t, func() bool {
		return strings.Contains(drydock(t, "__complete", "upgrade", "status", "").stdout, "prod/november\n")
	}, patience, tick)
	atWork := ""
	require.Eventually(t, func() bool {
		atWork = drydock(t, "__complete", "upgrade", "pause", "").stdout
		return strings.Contains(atWork, "prod/planned\n")
	}, patience, tick)
	require.NotContains(t, atWork, "prod/november\n")
}

func (s *stage) refusesSignalsToEndedRollouts(t *testing.T) {
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: rollout prod/november has already ended (Completed), so pause has no effect; see `drydock upgrade status prod/november`\n",
	}, drydock(t, "upgrade", "pause", "prod/november"))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: rollout prod/december not found: see `drydock upgrade list`\n",
	}, drydock(t, "upgrade", "pause", "prod/december"))
	require.Equal(t, outcome{
		status: exitFailed,
		stderr: "error: rollout prod/december not found: see `drydock upgrade list`\n",
	}, drydock(t, "upgrade", "status", "prod/december"))
	require.Equal(t, exitFailed, drydock(t, "upgrade", "list", "--temporal-namespace", "other").status)
}

func (s *stage) stopsWatching(t *testing.T) {
	watch := begin(t, "upgrade", "status", "prod/paused", "--watch")
	watch.prints(t, "spoke-1: running")
	watch.stop()
	got := watch.end(t)
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: stopped watching rollout prod/paused, which continues: see `drydock upgrade status prod/paused`\n", got.stderr)

	for enough := 500 * time.Millisecond; enough < patience && !strings.Contains(got.stderr, "within --timeout"); enough *= 2 { // until it connects in time
		got = drydock(t, "upgrade", "status", "prod/paused", "--watch", "--timeout", enough.String())
	}
	require.Equal(t, exitFailed, got.status)
	require.Equal(t, "error: rollout prod/paused has not ended within --timeout and continues: see `drydock upgrade status prod/paused`\n", got.stderr)
}

// ordersSignals sends signals without a worker, so that the next worker receives them in one task.
func (s *stage) ordersSignals(t *testing.T) {
	for _, signals := range [][]string{{"resume", "pause"}, {"pause", "resume"}, {"pause", "resume", "pause"}, {"resume", "pause", "resume"}} {
		s.stopWorker()
		for _, signal := range signals {
			succeeds(t, "upgrade", signal, "prod/paused")
		}
		s.startWorker(t)
		paused := signals[len(signals)-1] == "pause"
		reaches(t, "paused", func(status ranv1.ClusterGroupUpgradeStatus) bool { return status.Paused == paused })
	}
}

// showsEndedRuns runs last: it stops the worker.
func (s *stage) showsEndedRuns(t *testing.T) {
	s.stopWorker()
	for rollout, reason := range map[string]string{"november": ranv1.ReasonCompleted, "failing": ranv1.ReasonFailed} {
		got := drydock(t, "upgrade", "status", "prod/"+rollout)
		require.Equal(t, exitDone, got.status, got.stderr)
		require.Equal(t, "rollout prod/"+rollout+": no worker answers: this is the status when it ended\n", got.stderr)
		require.Contains(t, got.stdout, "rollout prod/"+rollout+"   "+reason)
	}
	runs := parsed[rolloutHistory](t, "upgrade", "history", "prod/changed").Runs
	require.Equal(t, []string{ranv1.ReasonFailed, ranv1.ReasonCompleted}, []string{runs[0].Outcome, runs[1].Outcome})
}
