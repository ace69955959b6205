package attack

import (
	"context"
	"fmt"
	"maps"
	"net"
	"slices"
	"strings"
	"sync"

	"go.temporal.io/api/proxy"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"drydock.dev/drydock/internal/temporal"
)

// answersOnly is a proxy in front of Temporal with the rights of a worker inside a cluster (docs/how-to/restrict-temporal.md): it may poll its own task queue for
// activities, and answer the tasks that it got there. Everything else is refused.
type answersOnly struct {
	address string
	queue   string

	mu sync.Mutex
	// tokens are those of the tasks that the worker got.
	tokens map[string]bool
	// used counts the allowed methods, and refused the others.
	used, refused map[string]int
}

// startAnswersOnly starts the proxy. It ends with the test program.
func startAnswersOnly(server, cluster string) (*answersOnly, error) {
	connection, err := grpc.NewClient(server, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		return nil, err
	}
	forward, err := proxy.NewWorkflowServiceProxyServer(proxy.WorkflowServiceProxyOptions{Client: workflowservice.NewWorkflowServiceClient(connection)})
	if err != nil {
		return nil, err
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	p := &answersOnly{
		address: listener.Addr().String(), queue: temporal.ClusterTaskQueue(cluster), tokens: map[string]bool{}, used: map[string]int{}, refused: map[string]int{},
	}
	serving := grpc.NewServer(grpc.UnaryInterceptor(p.decide))
	workflowservice.RegisterWorkflowServiceServer(serving, forward)
	go func() { _ = serving.Serve(listener) }()
	return p, nil
}

// decide forwards a request that the worker may send.
func (p *answersOnly) decide(ctx context.Context, request any, info *grpc.UnaryServerInfo, forward grpc.UnaryHandler) (any, error) {
	method := info.FullMethod[strings.LastIndex(info.FullMethod, "/")+1:]
	if !p.allows(method, request) {
		return nil, status.Error(codes.PermissionDenied, fmt.Sprintf("the worker inside a cluster may not %s", method))
	}
	answer, err := forward(ctx, request)
	if task, is := answer.(*workflowservice.PollActivityTaskQueueResponse); is && err == nil {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.tokens[string(task.GetTaskToken())] = true
	}
	return answer, err
}

func (p *answersOnly) allows(method string, request any) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	var allowed bool
	switch request := request.(type) {
	case *workflowservice.GetSystemInfoRequest, *workflowservice.DescribeNamespaceRequest:
		allowed = true
	case *workflowservice.PollActivityTaskQueueRequest:
		allowed = request.GetTaskQueue().GetName() == p.queue
	case *workflowservice.RespondActivityTaskCompletedRequest, *workflowservice.RespondActivityTaskFailedRequest,
		*workflowservice.RespondActivityTaskCanceledRequest, *workflowservice.RecordActivityTaskHeartbeatRequest:
		allowed = p.tokens[string(request.(interface{ GetTaskToken() []byte }).GetTaskToken())]
	}
	if allowed {
		p.used[method]++
	} else {
		p.refused[method]++
	}
	return allowed
}

// methods returns the allowed methods that were used, and the refused ones.
func (p *answersOnly) methods() (used, refused []string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Sorted(maps.Keys(p.used)), slices.Sorted(maps.Keys(p.refused))
}

// forget forgets the refused requests of an attacker.
func (p *answersOnly) forget() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.refused = map[string]int{}
}
