package rollout_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
)

func TestAReasonInWordsKeepsItsAbbreviations(t *testing.T) {
	for reason, words := range map[string]string{
		"TimedOut": "Timed out", "NotEnabled": "Not enabled", "timedout": "Timedout", "MissingBlockingCR": "Missing blocking CR",
		"IncompleteBlockingCR": "Incomplete blocking CR", "CRMissing": "CR missing", "WaitForPodCompletion": "Wait for pod completion", "": "",
	} {
		require.Equal(t, words, rollout.Words(reason))
	}
}

func TestTheCountsOfARolloutAreInPlainWords(t *testing.T) {
	counts := ranv1.ClusterCounts{Total: 6, Complete: 1, Running: 1, TimedOut: 1, Pending: 3}
	require.Equal(t, "1 of 6 clusters complete, 1 running, 1 timed out, 3 pending", rollout.CountsText(counts, false))
	counts.Running, counts.Cancelled = 0, 1
	require.Equal(t, "1 of 6 clusters complete, 1 timed out, 1 cancelled, 3 not started", rollout.CountsText(counts, true), "what is pending at the end never starts")
	require.Equal(t, "0 of 1 cluster complete", rollout.CountsText(ranv1.ClusterCounts{Total: 1}, false))
}
