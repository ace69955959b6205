package controller

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
)

// slowLists is a Temporal server whose lists of HarborClusters answer when they are told to.
type slowLists struct {
	client.Client
	asked  int
	answer chan error
}

func (s *slowLists) ListWorkflow(_ context.Context, request *workflowservice.ListWorkflowExecutionsRequest) (*workflowservice.ListWorkflowExecutionsResponse, error) {
	if !strings.Contains(request.Query, "HarborCluster") {
		return &workflowservice.ListWorkflowExecutionsResponse{}, nil
	}
	s.asked++
	return &workflowservice.ListWorkflowExecutionsResponse{}, <-s.answer
}

// A worker with many clusters starts all their controllers at the same time.
func TestASlowTemporalDelaysControllersOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		server := &slowLists{answer: make(chan error)}
		started := newStartedByObjects(t.Context(), server)
		results := make(chan error, 10)
		ask := func(ctx context.Context) {
			_, err := started.clusters(ctx, "HarborCluster", "HarborCluster")
			results <- err
		}
		gone, leave := context.WithCancel(t.Context())
		go ask(gone)
		synctest.Wait()
		for range 3 {
			go ask(t.Context())
		}
		synctest.Wait()
		_, err := started.clusters(t.Context(), "NodeMaintenance", "NodeMaintenance")
		require.NoError(t, err, "other kinds do not wait")

		leave()
		require.ErrorIs(t, <-results, context.Canceled, "a cluster that goes away does not wait")
		unavailable := errors.New("unavailable")
		server.answer <- unavailable
		for range 3 {
			require.ErrorIs(t, <-results, unavailable)
		}
		require.Equal(t, 1, server.asked, "one query for all clusters")

		go ask(t.Context())
		server.answer <- nil
		require.NoError(t, <-results, "a failed query is repeated")
		go ask(t.Context())
		require.NoError(t, <-results, "an answer is used again")
		require.Equal(t, 2, server.asked)
	})
}
