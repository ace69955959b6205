package policies_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"drydock.dev/drydock/internal/policies"
)

func TestACacheKeepsSinceWhenAClusterIsOffline(t *testing.T) {
	at := time.Date(2026, 1, 10, 12, 0, 0, 0, time.UTC)
	for status, since := range map[string]time.Time{"True": {}, "False": at, "Unknown": at} {
		cluster := &unstructured.Unstructured{Object: map[string]any{"status": map[string]any{"conditions": []any{
			map[string]any{"type": "HubAcceptedManagedCluster", "status": "True"},
			map[string]any{"type": "ManagedClusterConditionAvailable", "status": status, "lastTransitionTime": "2026-01-10T12:00:00Z"},
		}}}}
		trimmed, err := policies.TrimManagedCluster(cluster)
		require.NoError(t, err)
		for _, read := range []*unstructured.Unstructured{cluster, trimmed.(*unstructured.Unstructured)} {
			require.Equal(t, since, policies.OfflineSince(read), status)
			require.Equal(t, status == "True", policies.Available(read))
		}
	}
	require.Zero(t, policies.OfflineSince(&unstructured.Unstructured{Object: map[string]any{}}))
}
