package scheduler

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"

	"drydock.dev/drydock/activities/activitytest"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

// someOwners are the workflows of owners, some of which are closed.
type someOwners struct {
	aScheduler
	closed   map[string]bool
	busy     map[string]bool
	received sync.Map
}

func (o *someOwners) SignalWorkflow(_ context.Context, id, _, signal string, payload any) error {
	switch {
	case o.busy[id]:
		return errors.New("resource exhausted")
	case o.closed[id]:
		return serviceerror.NewNotFound("workflow execution already completed")
	}
	o.received.Store(id, fmt.Sprint(signal, payload))
	return nil
}

// An owner that cannot be signalled keeps nothing from the others.
func TestResponsesReachAllOwnersThatCanBeSignalled(t *testing.T) {
	lose := map[string]bool{"owner-0": true, "owner-7": true}
	server := &someOwners{aScheduler: aScheduler{Workflows: activitytest.NewWorkflows()}, closed: map[string]bool{"owner-7": true}, busy: map[string]bool{"owner-0": true}}
	var responses []scheduling.SlotResponse
	for i := range 100 {
		responses = append(responses, scheduling.SlotResponse{Owner: scheduling.SlotOwner{WorkflowID: fmt.Sprintf("owner-%d", i), FirstRunID: "run"}, Number: int64(i)})
	}
	lost, err := (&Activities{Temporal: server}).SendResponses(t.Context(), responses)
	require.NoError(t, err)
	require.Equal(t, []scheduling.SlotOwner{responses[0].Owner, responses[7].Owner}, lost)
	for _, response := range responses {
		payload, arrived := server.received.Load(response.Owner.WorkflowID)
		require.NotEqual(t, lose[response.Owner.WorkflowID], arrived, response.Owner.WorkflowID)
		if arrived {
			require.Equal(t, fmt.Sprint(temporal.SignalSlotResponse, response), payload)
		}
	}
}

func TestAResyncAsksAllOwnersThatCanBeSignalled(t *testing.T) {
	server := &someOwners{aScheduler: aScheduler{Workflows: activitytest.NewWorkflows()}, closed: map[string]bool{"b": true}, busy: map[string]bool{"a": true}}
	require.NoError(t, (&Activities{Temporal: server}).RequestResync(t.Context(), RequestResyncInput{Owners: []string{"a", "b", "c", "d"}}))
	for id, wanted := range map[string]bool{"a": false, "b": false, "c": true, "d": true} {
		_, arrived := server.received.Load(id)
		require.Equal(t, wanted, arrived, id)
	}
}
