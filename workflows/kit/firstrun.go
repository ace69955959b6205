package kit

import (
	"errors"

	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/workflow"
)

// Continued is the input of a workflow that continues as new.
type Continued interface {
	// Continues reports whether the input has the state of a previous run.
	Continues() bool
}

// OnCluster is the input of a workflow that works on one cluster.
type OnCluster interface {
	// ClusterName returns the name of the cluster.
	ClusterName() string
}

// FirstRun is an interceptor that refuses the state of a previous run in the input of a first run, and an input without its cluster, of which a workflow
// that never ends would wait for workers. A workflow does not check that state: its own
// previous run made it. Every worker of the workflows needs it.
type FirstRun struct {
	interceptor.WorkerInterceptorBase
}

// InterceptWorkflow implements interceptor.WorkerInterceptor.
func (*FirstRun) InterceptWorkflow(_ workflow.Context, next interceptor.WorkflowInboundInterceptor) interceptor.WorkflowInboundInterceptor {
	return &firstRunInbound{WorkflowInboundInterceptorBase: interceptor.WorkflowInboundInterceptorBase{Next: next}}
}

type firstRunInbound struct {
	interceptor.WorkflowInboundInterceptorBase
}

// ExecuteWorkflow implements interceptor.WorkflowInboundInterceptor.
func (i *firstRunInbound) ExecuteWorkflow(ctx workflow.Context, in *interceptor.ExecuteWorkflowInput) (any, error) {
	for _, argument := range in.Args {
		if input, ok := argument.(Continued); ok && input.Continues() && workflow.GetInfo(ctx).ContinuedExecutionRunID == "" {
			return nil, InvalidSpec(errors.New("the input has the state of a previous run, and there is none: start the workflow without it"))
		}
		if input, ok := argument.(OnCluster); ok && input.ClusterName() == "" {
			return nil, InvalidSpec(errors.New("cluster: Required value: name the cluster"))
		}
	}
	return i.Next.ExecuteWorkflow(ctx, in)
}
