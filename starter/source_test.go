package main

import (
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

func TestAStatusNamesItsObjectAndHowToSteerIt(t *testing.T) {
	rollout := atNoon()
	require.NotContains(t, rollout.frame(noon, frameStyle{}), "from ")
	rollout.Object = &temporal.Object{Kind: "ClusterGroupUpgrade", Namespace: "prod", Name: "november"}
	require.Contains(t, rollout.frame(noon, frameStyle{}), "\nfrom ClusterGroupUpgrade prod/november on the hub: edit it to change the rollout, delete it to cancel\n")
	rollout.Status.Status.CompletedAt = ago(0)
	require.Contains(t, rollout.frame(noon, frameStyle{}), "\nfrom ClusterGroupUpgrade prod/november on the hub\n")

	maintenance := maintenanceStatus{
		Metadata: maintenanceRef{workflowRef: observe.RefOf("node/spoke-1/default/driver", "run"), Node: "worker-1", Requestor: "driver.example.com"},
		Object:   &temporal.Object{Cluster: "spoke-1", Kind: "NodeMaintenance", Namespace: "default", Name: "driver"},
	}
	maintenance.Status.State = maintenancev1.NodeReady
	require.Contains(t, maintenance.frame(noon, frameStyle{}), "\nfrom NodeMaintenance default/driver in cluster spoke-1: delete it when the work is done, or to cancel")
	maintenance.Status.State = maintenancev1.NodeCompleted
	require.Regexp(t, `(?m)^from NodeMaintenance default/driver in cluster spoke-1$`, maintenance.frame(noon, frameStyle{}))
}

func TestTheObjectOfAWorkflowIsInItsMemo(t *testing.T) {
	execution := &client.WorkflowExecutionDescription{}
	require.Nil(t, sourceOf(execution))
	object := temporal.Object{Cluster: "c1", Kind: "NodeMaintenance", Namespace: "default", Name: "driver", UID: "u"}
	payload, err := converter.GetDefaultDataConverter().ToPayload(object)
	require.NoError(t, err)
	execution.Memo = &commonpb.Memo{Fields: map[string]*commonpb.Payload{temporal.MemoObject: payload}}
	require.Equal(t, &object, sourceOf(execution))
}
