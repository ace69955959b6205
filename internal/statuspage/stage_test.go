package statuspage

import (
	"context"
	"net"
	"net/http"
	"sync/atomic"
	"testing"

	"connectrpc.com/connect"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"

	"drydock.dev/drydock/activities/portals"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/portal"
	"drydock.dev/drydock/internal/statuspage/proto/drydock/v1/statusv1connect"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
	portalworkflow "drydock.dev/drydock/workflows/portal"
)

// simulated is a workflow in place of one of Drydock's, with a status that a test sets.
func simulated[S any](ctx workflow.Context, status S) (S, error) {
	if err := workflow.SetQueryHandler(ctx, temporal.QueryStatus, func() (S, error) { return status, nil }); err != nil {
		return status, err
	}
	var over, continued bool
	for !over && !continued {
		selector := workflow.NewSelector(ctx)
		selector.AddReceive(workflow.GetSignalChannel(ctx, signalSetStatus), func(c workflow.ReceiveChannel, _ bool) { c.Receive(ctx, &status) })
		selector.AddReceive(workflow.GetSignalChannel(ctx, signalEnd), func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, &status)
			over = true
		})
		selector.AddReceive(workflow.GetSignalChannel(ctx, signalContinueAsNew), func(c workflow.ReceiveChannel, _ bool) {
			c.Receive(ctx, nil)
			continued = true
		})
		selector.Select(ctx)
	}
	if continued {
		return status, workflow.NewContinueAsNewError(ctx, workflow.GetInfo(ctx).WorkflowType.Name, status)
	}
	return status, nil
}

const typeSimulatedPortal = "SimulatedPortal"

// stage is a real Temporal server, a worker with simulated workflows, and the server of the status page.
type stage struct {
	process  *devstack.Process
	temporal client.Client
	worker   worker.Worker
	// reading is the connection of the status page; calls counts its requests.
	reading   client.Client
	calls     *atomic.Int64
	namespace string
	url       string
	api       statusv1connect.StatusServiceClient
}

func newStage(t *testing.T) *stage {
	stack := devstacktest.Start(t, devstack.Options{Temporal: &devstack.TemporalOptions{
		Database: "temporal.db", DynamicConfig: map[string]string{"matching.queryPollerUnavailableWindow": `"1s"`},
	}})
	s := &stage{process: stack.Temporal.Process, calls: &atomic.Int64{}}
	options, err := temporal.Connection{Address: stack.Temporal.Address}.Options(nil, nil)
	require.NoError(t, err)
	s.temporal, err = temporal.Dial(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(s.temporal.Close)
	_, err = temporal.RegisterSearchAttributes(t.Context(), s.temporal, options.Namespace)
	require.NoError(t, err)
	s.startWorker(t)

	counted := options
	counted.ConnectionOptions.DialOptions = append(counted.ConnectionOptions.DialOptions, grpc.WithChainUnaryInterceptor(
		func(ctx context.Context, method string, in, out any, connection *grpc.ClientConn, invoke grpc.UnaryInvoker, options ...grpc.CallOption) error {
			s.calls.Add(1)
			return invoke(ctx, method, in, out, connection, options...)
		}))
	reading, err := temporal.Dial(t.Context(), counted)
	require.NoError(t, err)
	t.Cleanup(reading.Close)
	s.reading, s.namespace = reading, options.Namespace
	s.url, s.api = s.serve(t, "main")
	return s
}

// serve serves a portal until the test is over.
func (s *stage) serve(t *testing.T, portalName string) (address string, api statusv1connect.StatusServiceClient) {
	t.Helper()
	return s.serveWith(t, Options{Temporal: s.reading, Namespace: s.namespace, Portal: portalName, Access: Access{Token: token}, Log: discard()})
}

// serveWith serves with all options until the test is over.
func (s *stage) serveWith(t *testing.T, options Options) (address string, api statusv1connect.StatusServiceClient) {
	t.Helper()
	server, err := New(options)
	require.NoError(t, err)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(ctx, listener) }()
	t.Cleanup(func() {
		stop()
		require.NoError(t, <-ended)
	})
	address = "http://" + listener.Addr().String()
	return address, statusv1connect.NewStatusServiceClient(http.DefaultClient, address)
}

func (s *stage) startWorker(t *testing.T) {
	s.worker = worker.New(s.temporal, temporal.TaskQueue, worker.Options{Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}}})
	for name, definition := range map[string]any{
		typeSimulatedPortal:          simulated[portal.View],
		temporal.StatusPortal:        portalworkflow.StatusPortal,
		temporal.ClusterGroupUpgrade: simulated[ranv1.ClusterGroupUpgradeStatus],
		temporal.NodeMaintenance:     simulated[maintenancev1.NodeMaintenanceStatus],
		temporal.EmergencyStop:       simulated[struct{}],
	} {
		s.worker.RegisterWorkflowWithOptions(definition, workflow.RegisterOptions{Name: name})
	}
	s.worker.RegisterActivity(&portals.Activities{Temporal: s.temporal})
	require.NoError(t, s.worker.Start())
}

// setStatus starts a simulated workflow if it does not run, and sets its status.
func (s *stage) setStatus(t *testing.T, id, name string, status any) {
	t.Helper()
	_, err := s.temporal.SignalWithStartWorkflow(t.Context(), id, signalSetStatus, status, client.StartWorkflowOptions{ID: id, TaskQueue: temporal.TaskQueue}, name)
	require.NoError(t, err)
}

// disrupt signals the emergency stop, as every workflow does before a disruption.
func (s *stage) disrupt(t *testing.T) {
	t.Helper()
	s.setStatus(t, temporal.EmergencyStopID, temporal.EmergencyStop, struct{}{})
}

// eventually waits for an answer of the API that is as wanted.
func eventually[T any](t *testing.T, ask func() (*connect.Response[T], error), wanted func(*T) bool) *T {
	t.Helper()
	var last *T
	require.Eventually(t, func() bool {
		answer, err := ask()
		if err != nil {
			return false
		}
		last = answer.Msg
		return wanted(last)
	}, patience, tick, "%v", &last)
	return last
}
