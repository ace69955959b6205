package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"testing"

	"github.com/stretchr/testify/require"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"

	"drydock.dev/drydock/internal/devstack"
)

// publishedMaintenance has the fields of a NodeMaintenance that the operators know, with their types: those of the published API, without Drydock's.
type publishedMaintenance struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitempty"`
	Spec              struct {
		RequestorID          string          `json:"requestorID"`
		AdditionalRequestors []string        `json:"additionalRequestors,omitempty"`
		NodeName             string          `json:"nodeName"`
		Cordon               bool            `json:"cordon,omitempty"`
		WaitForPodCompletion *publishedWait  `json:"waitForPodCompletion,omitempty"`
		DrainSpec            *publishedDrain `json:"drainSpec,omitempty"`
	} `json:"spec,omitempty"`
	Status struct {
		Conditions        []metav1.Condition `json:"conditions,omitempty"`
		WaitForCompletion []string           `json:"waitForCompletion,omitempty"`
		Drain             *struct {
			TotalPods       int32    `json:"totalPods"`
			EvictionPods    int32    `json:"evictionPods"`
			DrainProgress   int32    `json:"drainProgress"`
			WaitForEviction []string `json:"waitForEviction,omitempty"`
		} `json:"drain,omitempty"`
	} `json:"status,omitempty"`
}

type publishedWait struct {
	PodSelector   string `json:"podSelector,omitempty"`
	TimeoutSecond int32  `json:"timeoutSeconds,omitempty"`
}

type publishedDrain struct {
	Force              bool              `json:"force,omitempty"`
	PodSelector        string            `json:"podSelector,omitempty"`
	TimeoutSecond      int32             `json:"timeoutSeconds,omitempty"`
	DeleteEmptyDir     bool              `json:"deleteEmptyDir,omitempty"`
	PodEvictionFilters []publishedFilter `json:"podEvictionFilters,omitempty"`
}

type publishedFilter struct {
	ByResourceNameRegex *string `json:"byResourceNameRegex,omitempty"`
}

// operatorClient makes the requests of the operators that use NodeMaintenances: the GPU and the network operator upgrade drivers, and drain nodes for SR-IOV.
type operatorClient struct {
	t    *testing.T
	id   string
	node string
	api  dynamic.ResourceInterface
}

func newOperatorClient(t *testing.T, spoke *devstack.Cluster, id, node string) *operatorClient {
	t.Helper()
	client, err := dynamic.NewForConfig(spoke.Config)
	require.NoError(t, err)
	return &operatorClient{t: t, id: id, node: node, api: client.Resource(schema.GroupVersionResource{
		Group: "maintenance.nvidia.com", Version: "v1alpha1", Resource: "nodemaintenances",
	}).Namespace("default")}
}

// name is that of the object which the operators share.
func (o *operatorClient) name() string { return "nvidia-operator-" + o.node }

func (o *operatorClient) decode(object *unstructured.Unstructured) *publishedMaintenance {
	o.t.Helper()
	text, err := object.MarshalJSON()
	require.NoError(o.t, err)
	maintenance := &publishedMaintenance{}
	require.NoError(o.t, json.Unmarshal(text, maintenance), "the operators cannot read the object")
	return maintenance
}

// get returns the object; nil: there is none.
func (o *operatorClient) get() *publishedMaintenance {
	o.t.Helper()
	object, err := o.api.Get(o.t.Context(), o.name(), metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil
	}
	require.NoError(o.t, err)
	return o.decode(object)
}

// request creates the object, or adds the operator to that of another. A conflict is left to the next reconcile.
func (o *operatorClient) request(wait *publishedWait, drain *publishedDrain) {
	o.t.Helper()
	for {
		there := o.get()
		if there == nil {
			o.create(wait, drain)
			return
		}
		if there.Spec.RequestorID == o.id || slices.Contains(there.Spec.AdditionalRequestors, o.id) {
			return
		}
		err := o.patchRequestors(there, append(there.Spec.AdditionalRequestors, o.id))
		if !apierrors.IsConflict(err) {
			require.NoError(o.t, err)
			return
		}
	}
}

// create sends an object as the operators encode it.
func (o *operatorClient) create(wait *publishedWait, drain *publishedDrain) {
	o.t.Helper()
	maintenance := &publishedMaintenance{TypeMeta: metav1.TypeMeta{APIVersion: "maintenance.nvidia.com/v1alpha1", Kind: "NodeMaintenance"}}
	maintenance.Namespace, maintenance.Name = "default", o.name()
	maintenance.Spec.RequestorID, maintenance.Spec.NodeName = o.id, o.node
	maintenance.Spec.WaitForPodCompletion, maintenance.Spec.DrainSpec = wait, drain
	text, err := json.Marshal(maintenance)
	require.NoError(o.t, err)
	object := &unstructured.Unstructured{}
	require.NoError(o.t, object.UnmarshalJSON(text))
	_, err = o.api.Create(o.t.Context(), object, metav1.CreateOptions{})
	require.NoError(o.t, err)
	o.t.Cleanup(func() { _ = o.api.Delete(context.Background(), o.name(), metav1.DeleteOptions{}) })
	_, err = o.api.Create(o.t.Context(), object, metav1.CreateOptions{})
	require.True(o.t, apierrors.IsAlreadyExists(err), "%v", err)
}

// patchRequestors is a merge patch with an optimistic lock. An empty list is absent in their encoding, so the patch removes it.
func (o *operatorClient) patchRequestors(read *publishedMaintenance, requestors []string) error {
	o.t.Helper()
	var value any
	if len(requestors) > 0 {
		value = requestors
	}
	patch, err := json.Marshal(map[string]any{
		"metadata": map[string]any{"resourceVersion": read.ResourceVersion}, "spec": map[string]any{"additionalRequestors": value},
	})
	require.NoError(o.t, err)
	_, err = o.api.Patch(o.t.Context(), o.name(), types.MergePatchType, patch, metav1.PatchOptions{})
	return err
}

// done deletes the operator's own object, or takes it out of that of another.
func (o *operatorClient) done() {
	o.t.Helper()
	for {
		there := o.get()
		switch {
		case there == nil:
			return
		case there.Spec.RequestorID == o.id:
			if there.DeletionTimestamp == nil {
				require.NoError(o.t, o.api.Delete(o.t.Context(), o.name(), metav1.DeleteOptions{}))
			}
			return
		}
		err := o.patchRequestors(there, slices.DeleteFunc(there.Spec.AdditionalRequestors, func(id string) bool { return id == o.id }))
		if !apierrors.IsConflict(err) {
			require.NoError(o.t, err)
			return
		}
	}
}

// awaitReady watches the conditions as the operators do: the reason of Ready counts. awaitGone watches until the object is deleted.
func (o *operatorClient) awaitReady() *publishedMaintenance {
	o.t.Helper()
	return o.await("the node is not ready for "+o.id, func(m *publishedMaintenance) bool {
		ready := m != nil && m.Status.Conditions != nil && meta.FindStatusCondition(m.Status.Conditions, "Ready") != nil
		return ready && meta.FindStatusCondition(m.Status.Conditions, "Ready").Reason == "Ready"
	})
}

func (o *operatorClient) awaitGone() {
	o.t.Helper()
	o.await("the object is not released", func(m *publishedMaintenance) bool { return m == nil })
}

func (o *operatorClient) await(otherwise string, enough func(*publishedMaintenance) bool) *publishedMaintenance {
	o.t.Helper()
	ctx, cancel := context.WithTimeout(o.t.Context(), stateLimit)
	defer cancel()
	for ctx.Err() == nil {
		list, err := o.api.List(ctx, metav1.ListOptions{})
		require.NoError(o.t, err)
		found := (*publishedMaintenance)(nil)
		for i := range list.Items {
			if list.Items[i].GetName() == o.name() {
				found = o.decode(&list.Items[i])
			}
		}
		if enough(found) {
			return found
		}
		changes, err := o.api.Watch(ctx, metav1.ListOptions{ResourceVersion: list.GetResourceVersion(), FieldSelector: "metadata.name=" + o.name()})
		require.NoError(o.t, err)
		<-changes.ResultChan()
		changes.Stop()
	}
	require.Fail(o.t, otherwise, fmt.Sprintf("%+v", o.get()))
	return nil
}

func TestTheClientsOfTheNodeOperatorShareANode(t *testing.T) {
	reserve(t, "spoke-4")
	spoke := theFleet.Cluster("spoke-4")
	deployTenants(t, spoke, 2*workers)
	gpu, network := newOperatorClient(t, spoke, "nvidia.gpu.operator", "worker-1"), newOperatorClient(t, spoke, "nvidia.network.operator", "worker-1")
	filter := "nvidia.com/gpu-*"
	gpu.request(&publishedWait{PodSelector: "drydock.dev/test=none"}, &publishedDrain{
		Force: true, PodSelector: "nvidia.com/gpu-driver-upgrade-drain.skip!=true", TimeoutSecond: 900, DeleteEmptyDir: true,
		PodEvictionFilters: []publishedFilter{{ByResourceNameRegex: &filter}},
	})
	first := gpu.get()
	network.request(nil, nil)
	require.True(t, apierrors.IsConflict(network.patchRequestors(first, []string{"late"})), "the lock of an older version is refused")
	gpu.awaitReady()
	shared := network.awaitReady()
	require.Equal(t, []string{"nvidia.network.operator"}, shared.Spec.AdditionalRequestors)
	require.True(t, shared.Spec.Cordon)
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable)

	gpu.done()
	require.NotNil(t, network.awaitReady().DeletionTimestamp, "the network operator has the node")
	require.True(t, node(t, spoke, "worker-1").Spec.Unschedulable)
	gpu.done()
	network.done()
	gpu.awaitGone()
	require.False(t, node(t, spoke, "worker-1").Spec.Unschedulable)
	network.done()
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}

// The drain of the network operator for SR-IOV asks again and again until the node is ready.
func TestTheDrainOfTheNetworkOperator(t *testing.T) {
	reserve(t, "spoke-3")
	spoke := theFleet.Cluster("spoke-3")
	deployTenants(t, spoke, 2*workers)
	sriov := newOperatorClient(t, spoke, "nvidia.network.operator.drain", "worker-2")
	drain := &publishedDrain{
		Force: true, PodSelector: "nvidia.com/gpu-driver-upgrade-drain.skip!=true,nvidia.com/ofed-driver-upgrade-drain.skip!=true",
		TimeoutSecond: 900, DeleteEmptyDir: true,
	}
	for range 2 { // the object of the next drain has the same name
		sriov.request(nil, drain)
		sriov.request(nil, drain)
		ready := sriov.awaitReady()
		require.Empty(t, evictable(t, spoke, "worker-2"))
		require.EqualValues(t, 100, ready.Status.Drain.DrainProgress)
		require.Empty(t, ready.Status.Drain.WaitForEviction)
		sriov.done()
		sriov.awaitGone()
		require.False(t, node(t, spoke, "worker-2").Spec.Unschedulable)
	}
	require.NoError(t, theFleet.AwaitCleanup(t.Context(), spoke))
}
