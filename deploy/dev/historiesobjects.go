package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// objectsPortal is the portal of the applied components.
const objectsPortal = "applied"

// requestObject is an object that starts a workflow, and what happens to it until it is deleted.
type requestObject struct {
	manifest string
	steps    []objectStep
}

// objectStep waits until a condition of the object has a status, and edits the object then.
type objectStep struct {
	condition, status string
	// patch is a merge patch; empty: no edit.
	patch string
}

// shownBy reports whether the object has the status for its present generation.
func (s objectStep) shownBy(object *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(object.Object, "status", "conditions")
	for _, entry := range conditions {
		condition := entry.(map[string]any)
		observed, known := condition["observedGeneration"].(int64)
		if condition["type"] == s.condition && condition["status"] == s.status && (!known || observed == object.GetGeneration()) {
			return true
		}
	}
	return false
}

// recordObjects applies an object of each kind, edits and deletes it, and saves the histories of the workflows that they start.
func (r *recorder) recordObjects(ctx context.Context) error {
	spoke := r.Spokes[0]
	now := time.Now().UTC()
	for _, of := range []struct {
		cluster *devstack.Cluster
		object  requestObject
	}{
		{r.Hub, requestObject{steps: []objectStep{
			{"Progressing", "False", `{"spec":{"enable":true}}`}, {"Succeeded", "True", ""},
		}, manifest: fmt.Sprintf(`
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: applied, namespace: default}
spec: {clusters: [%s], enable: false, remediationStrategy: {maxConcurrency: 1}, nodeMaintenance: {drainSpec: {}}}
`, r.Spokes[1].Name)}},
		{spoke, requestObject{steps: []objectStep{
			{"Ready", "True", `{"spec":{"additionalRequestors":["network.example.com"]}}`}, {"Ready", "True", `{"spec":{"additionalRequestors":[]}}`}, {"Ready", "True", ""},
		}, manifest: `
apiVersion: maintenance.nvidia.com/v1alpha1
kind: NodeMaintenance
metadata: {name: applied, namespace: default}
spec: {requestorID: gpu.example.com, nodeName: worker-1, drainSpec: {}}
`}},
		{spoke, requestObject{steps: []objectStep{
			{"Ready", "True", `{"spec":{"maxInactiveNodes":2}}`}, {"Ready", "True", ""},
		}, manifest: `
apiVersion: drydock.dev/v1alpha1
kind: WorkloadLockPolicy
metadata: {name: applied}
spec: {controllerName: applied, namespace: default, nodePodSelector: {matchLabels: {app: applied}}, nodeSelector: {matchLabels: {no: node}}}
`}},
		{r.Hub, requestObject{steps: []objectStep{
			{"Ready", "True", `{"spec":{"title":"Nightly"}}`}, {"Ready", "True", ""},
		}, manifest: fmt.Sprintf(`
apiVersion: drydock.dev/v1alpha1
kind: MaintenanceWindow
metadata: {name: applied, namespace: default}
spec: {timeZone: UTC, recurrence: "RDATE:%s", duration: 1h}
`, now.Add(3*time.Second).Format("20060102T150405Z"))}},
		{r.Hub, requestObject{steps: []objectStep{
			{"Ready", "True", `{"spec":{"title":"Newer switches"}}`}, {"Ready", "True", ""},
		}, manifest: fmt.Sprintf(`
apiVersion: sreportal.io/v1alpha1
kind: Maintenance
metadata: {name: applied, namespace: default}
spec: {title: New switches, portalRef: %s, components: [applied], scheduledStart: %q, scheduledEnd: %q}
`, objectsPortal, now.Format(time.RFC3339), now.Add(time.Hour).Format(time.RFC3339))}},
		{r.Hub, requestObject{steps: []objectStep{
			{"Ready", "True", `{"spec":{"status":"degraded"}}`}, {"Ready", "True", ""},
		}, manifest: fmt.Sprintf(`
apiVersion: sreportal.io/v1alpha1
kind: Component
metadata: {name: applied, namespace: default}
spec: {displayName: Shop, group: Customers, portalRef: %s, status: operational}
`, objectsPortal)}},
	} {
		if err := r.useObject(ctx, of.cluster, of.object); err != nil {
			return err
		}
	}
	return r.save(ctx, "objects", temporal.ClusterGroupUpgradeID("default", "applied"), temporal.NodeMaintenanceID(spoke.Name, "default", "applied"),
		temporal.WorkloadLockControllerID(spoke.Name, "applied"), temporal.MaintenanceWindowID("default", "applied"), temporal.StatusPortalID(objectsPortal))
}

// useObject creates an object, edits it step by step, and deletes it.
func (r *recorder) useObject(ctx context.Context, cluster *devstack.Cluster, of requestObject) error {
	c, err := client.New(cluster.Config, client.Options{})
	if err != nil {
		return err
	}
	object := &unstructured.Unstructured{}
	if err := yaml.Unmarshal([]byte(of.manifest), &object.Object); err != nil {
		return err
	}
	what := object.GetKind() + " " + object.GetName()
	if err := c.Create(ctx, object); err != nil {
		return err
	}
	for _, step := range of.steps {
		if err := awaitObject(ctx, c, object, func() bool { return step.shownBy(object) }); err != nil {
			return fmt.Errorf("%s: condition %s does not become %s: %w", what, step.condition, step.status, err)
		}
		if step.patch == "" {
			continue
		}
		if err := c.Patch(ctx, object, client.RawPatch(types.MergePatchType, []byte(step.patch))); err != nil {
			return err
		}
	}
	if err := c.Delete(ctx, object); err != nil {
		return err
	}
	err = awaitObject(ctx, c, object, func() bool { return false })
	if apierrors.IsNotFound(err) {
		return nil
	}
	return errors.Join(fmt.Errorf("%s: it is not released", what), err)
}

// awaitObject reads an object until a condition holds.
func awaitObject(ctx context.Context, c client.Client, object *unstructured.Unstructured, holds func() bool) error {
	return wait.PollUntilContextTimeout(ctx, 100*time.Millisecond, 5*time.Minute, true, func(ctx context.Context) (bool, error) {
		err := c.Get(ctx, client.ObjectKeyFromObject(object), object)
		return err == nil && holds(), err
	})
}
