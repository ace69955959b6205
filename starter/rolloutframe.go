package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/duration"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/rollout"
)

const (
	// frameLines is the number of lines in a frame besides the clusters: headline, object, message, wait, hold, bar, estimate, a blank, header, rest,
	// note, and the cursor's line.
	frameLines = 12
	barWidth   = 32
)

// clusterLines is the number of clusters that fit on a terminal of this height.
func clusterLines(height int) int { return max(5, height-frameLines) }

func (s rolloutStatus) frame(now time.Time, style frameStyle) string {
	lines := []string{s.headline(now, style)}
	if s.Object != nil {
		lines = append(lines, sourceLine(s.Object, s.over(), "edit it to change the rollout, delete it to cancel"))
	}
	if text := startText(s.Metadata, "", ""); text != "" {
		lines = append(lines, text)
	}
	wait := s.ownWait(now)
	if message := s.message(now); message != "" && (wait == nil || wait.Message != message) {
		lines = append(lines, message)
	}
	if wait != nil {
		lines = append(lines, "waiting: "+waitText(*wait, now))
	}
	if line := holdLine(s.Status.Held, reasonOf(s.ownWait(now))); line != "" {
		lines = append(lines, line)
	}
	if percentage := int(s.Status.Percentage); s.Status.Counts.Total > 0 { // without clusters there is no progress
		lines = append(lines, fmt.Sprintf("%s %3d%%  %s%s", bar(percentage, barWidth), percentage, rollout.CountsText(s.Status.Counts, s.over()), s.workText()))
	}
	if text := expectationText(rollout.ExpectationOf(&s.Status, now), now); text != "" {
		lines = append(lines, text)
	}
	for _, note := range s.Status.Notes {
		lines = append(lines, "note: "+note)
	}
	if len(s.Status.Clusters) > 0 {
		lines = append(lines, "", s.clusters(now, style))
	}
	if next := s.nextStep(""); next != "" {
		lines = append(lines, next)
	}
	return strings.Join(lines, "\n")
}

// nextStep is what a person can do about a rollout that waits for one, or that has ended without success, after a separator; empty if there is nothing
// to do.
func (s rolloutStatus) nextStep(separator string) string {
	does, command := rollout.NextStep(&s.Status, s.Metadata.Namespace+"/"+s.Metadata.Name)
	if command == "" {
		return ""
	}
	return fmt.Sprintf("%s%s: `%s`", separator, does, command)
}

// ownWait is what the rollout waits for; nil while its clusters are running and between batches, which have their own lines.
func (s rolloutStatus) ownWait(now time.Time) *drydockv1.Wait {
	wait := s.Status.Wait
	if wait == nil || wait.Reason == ranv1.ReasonBatchInProgress || rollout.Brief(wait.Reason, &wait.Since, now) {
		return nil
	}
	return wait
}

// over reports whether the rollout has ended.
func (s rolloutStatus) over() bool { return s.Status.Status.CompletedAt != nil }

// state is the state of the rollout in plain words.
func (s rolloutStatus) state(now time.Time) string {
	reason, _ := verdict(s.Status)
	return rollout.State(&s.Status, reason, now)
}

// message is that of the condition that describes the rollout best; empty if the state says more.
func (s rolloutStatus) message(now time.Time) string {
	_, message := verdict(s.Status)
	return rollout.Message(&s.Status, s.state(now), message)
}

// MarshalJSON omits an estimate that no longer holds: a status is as old as the last change.
func (s rolloutStatus) MarshalJSON() ([]byte, error) {
	type plain rolloutStatus
	s.Status.Status.Estimate = rollout.ExpectationOf(&s.Status, time.Now()).Estimate
	return json.Marshal(plain(s))
}

// headline is e.g. "rollout ztp/november   Running   batch 2 of 3 (times out in 14m)   started 3m ago".
func (s rolloutStatus) headline(now time.Time, style frameStyle) string {
	run := s.Status.Status
	parts := []string{fmt.Sprintf("rollout %s/%s", s.Metadata.Namespace, s.Metadata.Name), style.paint(s.state(now))}
	if run.CurrentBatch > 0 && run.CompletedAt == nil {
		parts = append(parts, fmt.Sprintf("batch %d of %d%s", run.CurrentBatch, s.batches(), timesOut(run.CurrentBatchDeadline, now)))
	}
	switch {
	case run.CompletedAt != nil && run.StartedAt != nil:
		parts = append(parts, "took "+duration.HumanDuration(run.CompletedAt.Sub(run.StartedAt.Time)))
	case run.StartedAt != nil:
		parts = append(parts, "started "+age(now, run.StartedAt.Time)+" ago"+timesOut(run.Deadline, now))
	}
	return style.headline(parts)
}

// batches is the number of batches; a partial status has no plan.
func (s rolloutStatus) batches() int {
	return max(len(s.Status.RemediationPlan), int(s.Status.Status.Batches))
}

func timesOut(deadline *metav1.Time, now time.Time) string {
	if deadline == nil {
		return ""
	}
	return " (times out in " + duration.HumanDuration(deadline.Sub(now)) + ")"
}

// expectationText is e.g. "ends in about 12m (9m to 15m)", or "end unknown: spoke-1 is blocked: ...; this step gives up at 19:55:00 UTC".
func expectationText(expectation rollout.Expectation, now time.Time) string {
	if expectation.Unknown != "" {
		text := "end unknown: " + expectation.Unknown
		if expectation.BoundAt != nil {
			text += "; " + expectation.Bound + " at " + clock(expectation.BoundAt.Time, now)
		}
		return text
	}
	estimate := expectation.Estimate
	if estimate == nil {
		return ""
	}
	in := func(at metav1.Time) string { return duration.HumanDuration(max(at.Sub(now), 0)) }
	text := "ends in about " + in(estimate.End)
	if least, most := in(estimate.Earliest), in(estimate.Latest); least != most {
		text += fmt.Sprintf(" (%s to %s)", least, most)
	}
	return text
}

// workText is e.g. "; 9 nodes done, 31 pods evicted"; empty without work, or if not all clusters are known.
func (s rolloutStatus) workText() string {
	var nodes, pods int
	for _, cluster := range s.Status.Clusters {
		nodes += int(cluster.Nodes.Done)
		pods += int(cluster.Nodes.Evicted)
	}
	if nodes+pods == 0 || len(s.Status.Clusters) < int(s.Status.Counts.Total) {
		return ""
	}
	return fmt.Sprintf("; %s done, %s evicted", plural(nodes, "node"), plural(pods, "pod"))
}

// planOrderLimit is the number of clusters up to which the table keeps the order of the plan.
const planOrderLimit = 50

// clusters is the table of the clusters, in the order of the plan or, with many clusters, the most important first. It notes how many did
// not fit.
func (s rolloutStatus) clusters(now time.Time, style frameStyle) string {
	clusters := slices.Clone(s.Status.Clusters)
	switch {
	case style.height > 0 && len(clusters) > clusterLines(style.height):
		clusters = clusters[:clusterLines(style.height)]
	case style.height == 0 && len(clusters) > planOrderLimit:
		clusters = rollout.ByUrgency(clusters)
	}
	shown := len(clusters)
	if shown <= planOrderLimit {
		slices.SortStableFunc(clusters, func(a, b ranv1.ClusterStatus) int { return cmp.Compare(batchRank(a), batchRank(b)) })
	}
	t := style.newTable("BATCH", "CLUSTER", "STATE", "NODES", "NOW")
	batch, told := int32(-1), ""
	if wait := s.ownWait(now); wait != nil {
		told = wait.Message
	}
	for _, cluster := range clusters {
		label := ""
		if cluster.Batch != batch && cluster.Batch > 0 {
			label = fmt.Sprint(cluster.Batch)
		}
		batch = cluster.Batch
		t.AppendRow(table.Row{label, cluster.Name, style.paint(rollout.ClusterWords(cluster.State, s.over())), nodesText(cluster.Nodes), nowText(cluster, now, told)})
	}
	rendered := t.Render()
	if rest := int(s.Status.Counts.Total) - shown; rest > 0 {
		rendered += fmt.Sprintf("\nand %s more", plural(rest, "cluster"))
	}
	return rendered
}

// batchRank sorts skipped clusters, which have no batch, last.
func batchRank(cluster ranv1.ClusterStatus) int32 {
	if cluster.Batch == 0 {
		return 1 << 30
	}
	return cluster.Batch
}

func nodesText(nodes ranv1.NodeCounts) string {
	if nodes.Total == 0 {
		return ""
	}
	return fmt.Sprintf("%d/%d", nodes.Done, nodes.Total)
}

// nowText describes the current step of a cluster, or its end, without a message that was told before.
func nowText(cluster ranv1.ClusterStatus, now time.Time, told string) string {
	var parts []string
	if cluster.State.Over() {
		cluster.Since = nil // its clock has stopped
	}
	if cluster.Reason != "" && strings.Contains(told, cluster.Name+": "+cluster.Step+": "+cluster.Message) {
		cluster.Message = ""
	}
	if cluster.Step != "" && !cluster.State.Over() {
		parts = append(parts, cluster.Step)
	}
	if cluster.Reason != "" || cluster.Message != "" {
		parts = append(parts, reasonFor(cluster.Reason, cluster.Message, cluster.Since, now))
	}
	if len(parts) == 0 && cluster.State == ranv1.ClusterRunning {
		parts = append(parts, "starting")
	}
	parts = append(parts, lockTexts(cluster)...)
	if cluster.Held != nil && cluster.Reason != emergency.Reason(*cluster.Held) {
		parts = append(parts, "held"+cluster.Held.ByWhom())
	}
	if cluster.StartedAt != nil && cluster.CompletedAt != nil {
		parts = append(parts, "took "+duration.HumanDuration(cluster.CompletedAt.Sub(cluster.StartedAt.Time)))
	}
	return strings.Join(parts, "; ")
}

// lockTexts describes the progress of each application that holds locks.
func lockTexts(cluster ranv1.ClusterStatus) (texts []string) {
	for _, application := range cluster.LockProgress {
		texts = append(texts, application.String())
	}
	return texts
}

// reasonFor is e.g. "DisruptionBudget for 2m: budget shop/web allows 0 of 3".
func reasonFor(reason, message string, since *metav1.Time, now time.Time) string {
	words := reason
	if since != nil && now.Sub(since.Time) >= time.Second {
		words += " for " + age(now, since.Time)
	}
	if message == "" {
		return words
	}
	return strings.TrimPrefix(words+": "+message, ": ")
}

// waitText is e.g. "DisruptionBudget for 2m (until 10:59:49): budget shop/web allows 0 of 3": a wait with its deadline, if it has one. For
// windows the message has the time.
func waitText(wait drydockv1.Wait, now time.Time) string {
	words := reasonFor(wait.Reason, "", &wait.Since, now)
	if wait.Until != nil && wait.Reason != emergency.ReasonWaitingForWindow {
		words += " (until " + clock(wait.Until.Time, now) + ")"
	}
	return strings.TrimSuffix(words+": "+wait.Message, ": ")
}

// paint colours a state: green for success, cyan for running, yellow for waiting, red for failure.
func (s frameStyle) paint(state string) string {
	if !s.colours {
		return state
	}
	switch {
	case state == string(ranv1.ClusterComplete), state == ranv1.ReasonCompleted:
		return text.FgGreen.Sprint(state)
	case state == string(ranv1.ClusterRunning), state == string(ranv1.ClusterSoaking), state == rollout.StateRunning:
		return text.FgCyan.Sprint(state)
	case state == rollout.StateBlocked, state == rollout.StateWaitingForWindow, state == rollout.StateWaitingForApproval,
		state == string(ranv1.ClusterOffline), state == rollout.StateWaitingForClusters, state == rollout.Words(ranv1.ReasonClustersOffline),
		state == rollout.StateHeld, state == rollout.StatePaused:
		return text.FgYellow.Sprint(state)
	case state == string(ranv1.ClusterFailed), state == rollout.ClusterWords(ranv1.ClusterTimedOut, true),
		state == rollout.Words(ranv1.ReasonTimedOut), state == ranv1.ReasonFailed, state == ranv1.ReasonAborted:
		return text.FgRed.Sprint(state)
	}
	return state
}
