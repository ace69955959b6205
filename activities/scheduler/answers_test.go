package scheduler

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	"go.temporal.io/sdk/interceptor"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// nextUpdate runs one attempt of WatchNodes in a worker that may only answer its tasks, and returns its update and what it leaves to the next attempt.
func nextUpdate(t *testing.T, activities *Activities, state []byte) (scheduling.NodeUpdate, []byte) {
	t.Helper()
	env := (&testsuite.WorkflowTestSuite{}).NewTestActivityEnvironment()
	env.RegisterActivity(activities)
	env.SetContextPropagators([]workflow.ContextPropagator{temporal.AttemptHeaders(temporal.DataConverter())})
	ctx, stop := context.WithTimeout(t.Context(), activitytest.EventTimeout)
	defer stop()
	env.SetWorkerOptions(worker.Options{BackgroundActivityContext: ctx, Interceptors: []interceptor.WorkerInterceptor{&temporal.AnswersOnly{}}})
	if state != nil {
		payload := &commonpb.Payload{Metadata: map[string][]byte{converter.MetadataEncoding: []byte(converter.MetadataEncodingJSON)}, Data: state}
		env.SetHeader(&commonpb.Header{Fields: map[string]*commonpb.Payload{"drydock-state": payload}})
	}
	_, err := env.ExecuteActivity(activities.WatchNodes, activitytest.HubName)
	application, ok := errors.AsType[*sdktemporal.ApplicationError](err)
	require.True(t, ok, "%v", err)
	require.Equal(t, temporal.ErrMessage, application.Type(), "%v", err)
	var message struct {
		Signal  string
		Payload scheduling.NodeUpdate
		State   rawJSON
	}
	require.NoError(t, application.Details(&message))
	require.Equal(t, temporal.SignalNodeUpdate, message.Signal)
	return message.Payload, message.State
}

type rawJSON []byte

func (r *rawJSON) UnmarshalJSON(text []byte) error {
	*r = append((*r)[:0], text...)
	return nil
}

func TestAnAttemptThatEndsWithItsUpdateContinuesTheOneBefore(t *testing.T) {
	activitytest.BareNodes(t, "a", "b")
	activities := &Activities{Clusters: activitytest.Clusters}
	var state scheduling.SlotState
	whole, left := nextUpdate(t, activities, nil)
	require.True(t, whole.First && whole.Last)
	state.Update(whole, time.Now())

	activitytest.BareNodes(t, "c")
	change, left := nextUpdate(t, activities, left)
	require.False(t, change.First, "only the change is sent")
	require.Equal(t, "c", change.Nodes[0].Name)
	require.Len(t, change.Nodes, 1)
	state.Update(change, time.Now())
	require.Len(t, state.Nodes, len(whole.Nodes)+1, "the change belongs to the same watch")

	another := &Activities{Clusters: activitytest.Clusters}
	again, _ := nextUpdate(t, another, left)
	require.True(t, again.First, "another worker does not know what was sent")
	state.Update(again, time.Now())
	require.Len(t, state.Nodes, len(whole.Nodes)+1)

	lost, _ := nextUpdate(t, activities, []byte(`{"from":"2026-11-26T00:00:00Z","number":1}`))
	require.True(t, lost.First, "nor does one whose last update was lost")
}

func TestTheRestOfALargeUpdateFollowsInFurtherAttempts(t *testing.T) {
	activitytest.BareNodes(t, "a")
	activities, from := &Activities{Clusters: activitytest.Clusters}, time.Now().UTC().Truncate(time.Second)
	parts := fullUpdate(manyNodes(), from)
	require.Greater(t, len(parts), 2)
	activities.sent.Store("default-test-workflow-id", sentNodes{From: from, Number: 1, view: manyNodes(), rest: parts[1:]})
	left := []byte(`{"from":"` + from.Format(time.RFC3339) + `","number":1}`)
	var part scheduling.NodeUpdate
	for i, want := range parts[1:] {
		part, left = nextUpdate(t, activities, left)
		require.Equal(t, len(want.Nodes), len(part.Nodes), i)
		require.Equal(t, want.Last, part.Last)
	}
	part, _ = nextUpdate(t, activities, left)
	require.True(t, part.First, "none of those nodes exists, which is too long for a change")
}
