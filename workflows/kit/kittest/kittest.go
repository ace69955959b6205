// Package kittest runs functions as workflows, for unit tests of helpers. Tests of whole workflows use package workflowtest.
package kittest

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/interceptor"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/workflows/kit"
)

// WorkerOptions returns the options of a worker for workflows of tests. The SDK hashes the test binary during the first workflow task. On a busy machine
// that takes longer than the default deadlock timeout of one second.
func WorkerOptions() worker.Options {
	return worker.Options{DeadlockDetectionTimeout: time.Minute, Interceptors: []interceptor.WorkerInterceptor{&kit.SignalOrder{}, &kit.FirstRun{}}}
}

// Run runs body as a workflow and returns its result. It fails the test if body returns an error.
func Run[Result any](t *testing.T, body func(ctx workflow.Context) (Result, error)) (result Result) {
	t.Helper()
	env := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	env.SetWorkerOptions(WorkerOptions())
	env.ExecuteWorkflow(func(ctx workflow.Context) (Result, error) { return body(ctx) })
	require.True(t, env.IsWorkflowCompleted())
	require.NoError(t, env.GetWorkflowError())
	require.NoError(t, env.GetWorkflowResult(&result))
	return result
}
