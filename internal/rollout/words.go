package rollout

import (
	"fmt"
	"strings"
	"unicode"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Words are a CamelCase reason as words, e.g. "Timed out" for TimedOut, and "Missing blocking CR" for MissingBlockingCR.
func Words(reason string) string {
	if reason == "DisruptionBudgetNever" {
		return "Disruption budget allows none"
	}
	var words strings.Builder
	letters := []rune(reason)
	isUpper := func(i int) bool { return i >= 0 && i < len(letters) && unicode.IsUpper(letters[i]) }
	for i, letter := range letters {
		begins := isUpper(i) && (!isUpper(i-1) || i+1 < len(letters) && !isUpper(i+1))
		switch {
		case i == 0:
			letter = unicode.ToUpper(letter)
		case begins && !isUpper(i+1):
			words.WriteByte(' ')
			letter = unicode.ToLower(letter)
		case begins: // an abbreviation
			words.WriteByte(' ')
		}
		words.WriteRune(letter)
	}
	return words.String()
}

// ClusterWords returns the state of a cluster in plain words. over: its rollout has ended, so a pending cluster will not start.
func ClusterWords(state ranv1.ClusterState, over bool) string {
	switch {
	case state == ranv1.ClusterTimedOut:
		return "timed out"
	case state == ranv1.ClusterPending && over:
		return "not started"
	}
	return string(state)
}

// CountsText returns how many clusters of a rollout are in each state, e.g. "5 of 13 clusters complete, 2 running, 1 failed, 5 pending".
func CountsText(counts ranv1.ClusterCounts, over bool) string {
	clusters := "clusters"
	if counts.Total == 1 {
		clusters = "cluster"
	}
	text := fmt.Sprintf("%d of %d %s complete", counts.Complete, counts.Total, clusters)
	for _, other := range []struct {
		count int32
		state ranv1.ClusterState
	}{
		{counts.Running, ranv1.ClusterRunning},
		{counts.Failed, ranv1.ClusterFailed},
		{counts.TimedOut, ranv1.ClusterTimedOut},
		{counts.Cancelled, ranv1.ClusterCancelled},
		{counts.Skipped, ranv1.ClusterSkipped},
		{counts.Offline, ranv1.ClusterOffline},
		{counts.Pending, ranv1.ClusterPending},
	} {
		if other.count > 0 {
			text += fmt.Sprintf(", %d %s", other.count, ClusterWords(other.state, over))
		}
	}
	return text
}
