package controller_test

import (
	"context"
	"io"
	"log/slog"
	"os"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"k8s.io/apimachinery/pkg/types"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	goharborv1 "drydock.dev/drydock/internal/apis/goharbor/v1beta1"
	"drydock.dev/drydock/internal/controller"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/temporal"
)

// describes counts the answered reads of workflows.
type describes struct {
	client.Client
	answered atomic.Int64
}

func (d *describes) DescribeWorkflowExecution(ctx context.Context, id, run string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	described, err := d.Client.DescribeWorkflowExecution(ctx, id, run)
	d.answered.Add(1)
	return described, err
}

// harborEditedAsItIsReleased edits and deletes a HarborCluster while a run that no longer looks at it has not closed. The test plays the workflow.
func harborEditedAsItIsReleased(t *testing.T, cluster *devstack.Cluster, server client.Client) {
	admin, watched := adminOf(t, cluster), &describes{Client: server}
	require.NoError(t, cluster.Apply(t.Context(), "deploy/crds/goharbor.io_harborclusters.yaml"))
	text, err := os.ReadFile("../../docs/examples/harbor-cluster.yaml")
	require.NoError(t, err)
	object := &goharborv1.HarborCluster{}
	require.NoError(t, yaml.UnmarshalStrict(text, object))
	object.Namespace = "default"
	require.Eventually(t, func() bool { return admin.Create(t.Context(), object) == nil }, patience, 20*time.Millisecond, "the API server serves a new kind a moment later")
	run(t, "harbors", cluster.Config, controller.Options{Temporal: watched, Log: slog.New(slog.NewTextHandler(io.Discard, nil))})

	id := temporal.HarborClusterID("harbors", "default", object.Name)
	patch := func(patch string) {
		t.Helper()
		require.NoError(t, admin.Patch(t.Context(), object, kubeclient.RawPatch(types.MergePatchType, []byte(patch))))
	}
	running := func(otherThan string) string {
		t.Helper()
		found := ""
		require.Eventually(t, func() bool {
			described, err := server.DescribeWorkflowExecution(t.Context(), id, "")
			if err != nil || described.WorkflowExecutionInfo.Status != enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING {
				return false
			}
			found = described.WorkflowExecutionInfo.Execution.RunId
			return found != otherThan
		}, patience, 20*time.Millisecond, "no other run than %q", otherThan)
		return found
	}
	closeOnceSeen := func(change func()) {
		t.Helper()
		before := watched.answered.Load()
		change()
		require.Eventually(t, func() bool { return watched.answered.Load() > before }, patience, 20*time.Millisecond, "the change was not looked at")
		require.NoError(t, server.TerminateWorkflow(t.Context(), id, "", "its end"))
	}

	first := running("")
	patch(`{"metadata":{"finalizers":["` + harbor.Finalizer + `"]}}`)
	patch(`{"metadata":{"finalizers":null,"annotations":{"` + harbor.AnnotationUnmanaged + `":"1"}}}`)
	closeOnceSeen(func() { patch(`{"spec":{"version":"2.10.0"}}`) })
	second := running(first)

	patch(`{"metadata":{"finalizers":["` + harbor.Finalizer + `"],"annotations":{"` + harbor.AnnotationUnmanaged + `":null}}}`)
	closeOnceSeen(func() { require.NoError(t, admin.Delete(t.Context(), object)) })
	running(second)
}
