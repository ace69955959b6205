package temporal_test

import (
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

func TestAnErrorNamesTheFirstBlockersAndCountsTheOthers(t *testing.T) {
	var blockers []drydockv1.Blocker
	for i := range 250 {
		blockers = append(blockers, drydockv1.Blocker{Kind: "Pod", Name: fmt.Sprint("web-", i)})
	}
	all := temporal.Error(temporal.ErrDrainTimedOut, "drain n1", nil, blockers[:20]...)
	require.Equal(t, blockers[:20], temporal.Blockers(all))
	require.Equal(t, "drain n1", temporal.ErrorMessage(all))

	some := temporal.Error(temporal.ErrDrainTimedOut, "drain n1", nil, blockers...)
	require.Equal(t, blockers[:20], temporal.Blockers(some))
	require.Equal(t, "drain n1 (20 blockers are named, and there are 230 more)", temporal.ErrorMessage(some))
	again := temporal.Error(temporal.ErrDrainTimedOut, temporal.ErrorMessage(some), nil, temporal.Blockers(some)...)
	require.Equal(t, temporal.ErrorMessage(some), temporal.ErrorMessage(again), "an error that is wrapped again keeps its count")
}

func TestAnErrorHasNoTermsOfTheSDKAndNoRepeatedText(t *testing.T) {
	forbidden := temporal.Error(temporal.ErrForbidden, "cluster c1: grant the role: pods is forbidden", errors.New("pods is forbidden"))
	require.Contains(t, forbidden.Error(), "retryable: true", "so the SDK writes it")
	require.Equal(t, "apply: cluster c1: grant the role: pods is forbidden", temporal.ErrorMessage(temporal.Error("Failed", fmt.Sprintf("apply: %v", forbidden), nil)))
	require.Equal(t, "apply: no answer: connection refused", temporal.PlainText("apply: no answer (type: ClusterUnreachable, retryable: true): connection refused"))
	require.Equal(t, "a: b; c: d", temporal.PlainText("a: b (type: NoHub, retryable: false); c: d (type: , retryable: true): d"))
}
