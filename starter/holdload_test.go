package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"drydock.dev/drydock/activities/holds"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/emergencystop"
	"drydock.dev/drydock/workflows/kit"
)

// refusals counts requests that the server refuses because the workflow is busy, at one layer of the connection.
type refusals struct{ atomic.Int64 }

func (r *refusals) count() grpc.DialOption {
	return grpc.WithChainUnaryInterceptor(func(ctx context.Context, method string, request, reply any, connection *grpc.ClientConn,
		send grpc.UnaryInvoker, options ...grpc.CallOption,
	) error {
		err := send(ctx, method, request, reply, connection, options...)
		if status.Code(err) == codes.ResourceExhausted {
			r.Add(1)
		}
		return err
	})
}

// The server refuses updates while the emergency stop continues as new. The SDK doubles its pause after each refusal: after four, a user has
// waited for 6 s. No refusal may reach the SDK, and no update may be executed twice.
func TestAHoldDuringContinueAsNewIsAnsweredImmediately(t *testing.T) {
	s := newStage(t)
	s.worker = worker.New(s.client, temporal.TaskQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}}})
	s.worker.RegisterWorkflowWithOptions(emergencystop.EmergencyStop, workflow.RegisterOptions{Name: temporal.EmergencyStop})
	s.worker.RegisterActivity(&holds.Activities{Temporal: s.client, Hub: noHub{}})
	require.NoError(t, s.worker.Start())
	t.Cleanup(s.worker.Stop)

	var byServer, bySDK refusals
	options, err := temporal.Connection{}.Options(nil, nil)
	require.NoError(t, err)
	dial := &options.ConnectionOptions.DialOptions // the first is the outermost
	*dial = append(append([]grpc.DialOption{bySDK.count()}, *dial...), byServer.count())
	connection, err := temporal.Dial(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(connection.Close)
	people := &server{Client: connection}

	state := func() (status emergencystop.Status) {
		var err error
		for range 20 { // the next run does its first task late in a busy worker
			if err = people.query(t.Context(), emergencyStop(), "", &status); !errors.Is(err, observe.ErrNoWorker) {
				break
			}
		}
		require.NoError(t, err)
		return status
	}
	_, err = people.hold(t.Context(), emergency.Request{All: true})
	require.NoError(t, err)
	before := state()

	const enough = 10
	var changes atomic.Int64
	var holding sync.WaitGroup
	for person := range 4 {
		holding.Go(func() {
			request := emergency.Request{Clusters: []string{fmt.Sprintf("hall-%d", person)}}
			for byServer.Load() < enough && changes.Load() < 10_000 && !t.Failed() {
				_, err := people.hold(t.Context(), request)
				if err == nil {
					_, err = people.release(t.Context(), request)
				}
				if err != nil {
					t.Error(err)
				}
				changes.Add(2)
			}
		})
	}
	holding.Wait()
	require.GreaterOrEqual(t, byServer.Load(), int64(enough), "the server has refused too few of %d requests", changes.Load())
	require.Zero(t, bySDK.Load(), "of %d refusals", byServer.Load())
	after := state()
	require.Equal(t, before.Holds, after.Holds)
	require.Equal(t, before.Number+changes.Load(), after.Number, "each change was made once")
}
