package main

import (
	"fmt"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/duration"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
)

func (s rolloutStatus) lines(time.Time) []statusLine {
	var lines []statusLine
	run := s.Status.Status
	if run.CurrentBatch > 0 && int(run.CurrentBatch) <= len(s.Status.RemediationPlan) {
		lines = append(lines, statusLine{"batch", fmt.Sprintf("batch %d of %d: %s", run.CurrentBatch, len(s.Status.RemediationPlan),
			strings.Join(s.Status.RemediationPlan[run.CurrentBatch-1], ", "))})
	}
	for _, cluster := range s.Status.Clusters {
		if cluster.State != ranv1.ClusterPending {
			lines = append(lines, statusLine{"cluster " + cluster.Name, clusterLine(cluster)})
		}
	}
	return append(lines, s.wholeLine())
}

// wholeLine describes the rollout itself. It comes last, so that the end is the last line.
func (s rolloutStatus) wholeLine() statusLine {
	line := fmt.Sprintf("rollout %s/%s: %s", s.Metadata.Namespace, s.Metadata.Name, s.state(time.Time{}))
	if message := s.message(time.Time{}); message != "" {
		line += ": " + message
	}
	if wait := s.ownWait(time.Time{}); wait != nil {
		line += "; waiting: " + strings.TrimSuffix(wait.Reason+": "+wait.Message, ": ")
	}
	if held := holdLine(s.Status.Held, reasonOf(s.ownWait(time.Time{}))); held != "" {
		line += "; " + held
	}
	return statusLine{"rollout", line}
}

func clusterLine(cluster ranv1.ClusterStatus) string {
	words := []string{fmt.Sprintf("%s: %s", cluster.Name, cluster.State)}
	if nodes := nodesText(cluster.Nodes); nodes != "" {
		words[0] += " " + nodes + " nodes"
	}
	if cluster.Step != "" && !cluster.State.Over() {
		words = append(words, cluster.Step)
	}
	if cluster.Reason != "" || cluster.Message != "" {
		words = append(words, strings.Trim(cluster.Reason+": "+cluster.Message, ": "))
	}
	words = append(words, lockTexts(cluster)...)
	if cluster.Held != nil && cluster.Reason != emergency.Reason(*cluster.Held) {
		words = append(words, "held"+cluster.Held.ByWhom())
	}
	if cluster.StartedAt != nil && cluster.CompletedAt != nil {
		words = append(words, "took "+duration.HumanDuration(cluster.CompletedAt.Sub(cluster.StartedAt.Time)))
	}
	return strings.Join(words, "; ")
}
