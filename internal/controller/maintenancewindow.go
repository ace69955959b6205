package controller

import (
	"context"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/objects"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/manifest"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/window"
)

// maintenanceWindows is the kind MaintenanceWindow.
func maintenanceWindows() kind {
	gvk := drydockv1.GroupVersion.WithKind("MaintenanceWindow")
	return kind{
		name:     gvk.Kind,
		resource: drydockv1.GroupVersion.WithResource("maintenancewindows").GroupResource(),
		gvk:      gvk,
		watch: func(cluster *kube.Cluster, options Options) (*controller, error) {
			return newRequests(&maintenanceWindow{cluster: cluster}, gvk, cluster, options).watch(options), nil
		},
	}
}

// maintenanceWindow is how MaintenanceWindows define windows.
type maintenanceWindow struct{ cluster *kube.Cluster }

func (m *maintenanceWindow) workflow(name types.NamespacedName) (workflowType, id string) {
	return temporal.MaintenanceWindow, temporal.MaintenanceWindowPrefix + name.String()
}

func (m *maintenanceWindow) running() string {
	return observe.WorkflowsOf(temporal.MaintenanceWindow, true)
}

func (m *maintenanceWindow) condition() string { return drydockv1.ConditionReady }

func (m *maintenanceWindow) conditions(object *drydockv1.MaintenanceWindow) []metav1.Condition {
	return object.Status.Conditions
}

// over: a window without further openings is defined again when its object changes.
func (m *maintenanceWindow) over(object *drydockv1.MaintenanceWindow, _ bool) bool {
	return object.Status.Phase == string(windows.PhaseOver) && object.Status.ObservedGeneration == object.Generation
}

// adopts: a workflow that waits for the definition of its window runs already if a rollout or a node maintenance names the window.
func (m *maintenanceWindow) adopts(last run) bool {
	return last.phase == "" || last.phase == string(windows.PhaseUndefined) || last.phase == string(windows.PhaseOver)
}

func (m *maintenanceWindow) gone(uid types.UID) any {
	return window.ObjectRequest{Source: temporal.Object{UID: uid}, Deleted: true, Gone: true}
}

func (m *maintenanceWindow) besideSpec(*drydockv1.MaintenanceWindow) any { return nil }

func (m *maintenanceWindow) request(object *drydockv1.MaintenanceWindow) any {
	request := window.ObjectRequest{
		Source: temporal.Object{
			Cluster: clusterOf(m.cluster), APIVersion: drydockv1.GroupVersion.String(), Kind: "MaintenanceWindow",
			Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
		Generation: object.Generation, Deleted: object.DeletionTimestamp != nil,
	}
	complete, err := completedWindow(object)
	if err != nil {
		request.InvalidSpec = err.Error()
		return request
	}
	request.Object = *complete
	return request
}

func (m *maintenanceWindow) prepare(ctx context.Context, of temporal.Object, object *drydockv1.MaintenanceWindow) (*start, *metav1.Condition, error) {
	if _, err := completedWindow(object); err != nil {
		return nil, refusal(reasonInvalidSpec, err.Error()), nil
	}
	if _, err := objects.Hold(ctx, m.cluster.Client, object, nil); err != nil {
		return nil, nil, err
	}
	return &start{options: temporal.MaintenanceWindowOptions(of.Namespace + "/" + of.Name), input: window.Input{}}, nil, nil
}

// completedWindow returns the name and the spec of an object with their defaults, or why the spec is invalid.
func completedWindow(object *drydockv1.MaintenanceWindow) (*drydockv1.MaintenanceWindow, error) {
	complete := &drydockv1.MaintenanceWindow{ObjectMeta: metav1.ObjectMeta{Namespace: object.Namespace, Name: object.Name}, Spec: *object.Spec.DeepCopy()}
	if err := manifest.Complete(complete); err != nil {
		return nil, err
	}
	return complete, nil
}
