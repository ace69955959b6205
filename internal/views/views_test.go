package views_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"sigs.k8s.io/yaml"

	"drydock.dev/drydock/internal/views"
)

func parse(t *testing.T, text string) *unstructured.Unstructured {
	t.Helper()
	object := &unstructured.Unstructured{}
	require.NoError(t, yaml.Unmarshal([]byte(text), &object.Object))
	return object
}

var (
	june   = types.NamespacedName{Namespace: "fleet", Name: "june"}
	plans  = schema.GroupVersionKind{Group: "operators.coreos.com", Version: "v1alpha1", Kind: "InstallPlan"}
	object = views.Object{Kind: plans, Namespace: "ptp", Name: "install-abc"}
)

func TestAViewNamesItsObjectCompletely(t *testing.T) {
	view := views.View(june, "c1", object, time.Minute)
	require.Equal(t, map[string]any{
		"apiGroup": "operators.coreos.com", "version": "v1alpha1", "kind": "InstallPlan", "namespace": "ptp", "name": "install-abc", "updateIntervalSeconds": int64(60),
	}, view.Object["spec"].(map[string]any)["scope"])
	require.Equal(t, "c1", view.GetNamespace())
	require.Equal(t, "june", view.GetLabels()["openshift-cluster-group-upgrades/clusterGroupUpgrade"])
	require.Equal(t, "fleet", view.GetLabels()["openshift-cluster-group-upgrades/clusterGroupUpgradeNamespace"])
	require.Equal(t, views.Name(views.Views, june, "c1", object), types.NamespacedName{Namespace: view.GetNamespace(), Name: view.GetName()})
	for _, other := range []views.Object{{Kind: plans, Namespace: "sriov", Name: "install-abc"}, {Kind: plans, Namespace: "ptp", Name: "install-xyz"}} {
		require.NotEqual(t, view.GetName(), views.Name(views.Views, june, "c1", other).Name)
	}
	require.NotEqual(t, view.GetName(), views.Name(views.Views, types.NamespacedName{Namespace: "other", Name: "june"}, "c1", object).Name)
}

func TestTheAnswerOfAnAgentIsRead(t *testing.T) {
	const result = "{apiVersion: operators.coreos.com/v1alpha1, kind: InstallPlan, metadata: {namespace: ptp, name: install-abc}}"
	view := views.View(june, "c1", object, time.Minute)
	tests := []struct {
		name, status    string
		object, missing bool
		problem         string
	}{
		{name: "no answer yet", status: "{}"},
		{name: "the object", status: "{conditions: [{type: Processing, status: 'True', reason: GetResourceProcessing}], result: " + result + "}", object: true},
		{
			name: "another object", status: "{conditions: [{type: Processing, status: 'True'}], result: {apiVersion: operators.coreos.com/v1alpha1, kind: InstallPlan, metadata: {namespace: ptp, name: install-xyz}}}",
			problem: "ManagedClusterView c1/" + view.GetName() + " shows InstallPlan ptp/install-xyz",
		},
		{name: "no object", status: `{conditions: [{type: Processing, status: 'False', reason: GetResourceFailed, message: 'failed to get resource with err: installplans "x" not found'}], result: {metadata: {name: old}}}`, missing: true},
		{
			name: "no right", status: "{conditions: [{type: Processing, status: 'False', reason: GetResourceFailed, message: forbidden}], result: {metadata: {name: old}}}",
			problem: "forbidden",
		},
		{name: "no such kind", status: "{conditions: [{type: Processing, status: 'False', reason: ResourceGVKInvalid, message: no matches}]}", problem: "no matches"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			answered := view.DeepCopy()
			answered.Object["status"] = parse(t, "status: "+tt.status).Object["status"]
			viewed := views.Read(answered, object)
			require.Equal(t, tt.object, viewed.Object != nil)
			require.Equal(t, tt.missing, viewed.Missing)
			require.Equal(t, tt.problem, viewed.Problem)
		})
	}
}

// Another user may have created the view, because its name can be predicted.
func TestAViewOfAnotherObjectIsNotTrusted(t *testing.T) {
	for field, value := range map[string]string{"name": "install-xyz", "namespace": "sriov", "kind": "Subscription", "resource": "secrets"} {
		view := views.View(june, "c1", object, time.Minute)
		require.NoError(t, unstructured.SetNestedField(view.Object, value, "spec", "scope", field))
		view.Object["status"] = parse(t, "status: {conditions: [{type: Processing, status: 'False', reason: GetResourceFailed, message: not found}]}").Object["status"]
		require.Equal(t, views.Viewed{Problem: "ManagedClusterView c1/" + view.GetName() + " is not of this object: delete it"}, views.Read(view, object), field)
	}
}

// The agent removes the fields that a template omits, and fails if the resource version is another.
func TestAnActionUpdatesTheViewedVersionAndKeepsAllOtherFields(t *testing.T) {
	viewed := parse(t, `
apiVersion: operators.coreos.com/v1alpha1
kind: InstallPlan
metadata: {namespace: ptp, name: install-abc, uid: "1", resourceVersion: "7", labels: {a: b}, managedFields: [{manager: olm}], ownerReferences: [{kind: Subscription, name: ptp}]}
spec: {approval: Manual, approved: false, generation: 3}
status: {phase: RequiresApproval}`)
	action, err := views.Update(june, "c1", viewed, func(plan *unstructured.Unstructured) error {
		return unstructured.SetNestedField(plan.Object, true, "spec", "approved")
	})
	require.NoError(t, err)
	kube := action.Object["spec"].(map[string]any)["kube"].(map[string]any)
	require.Equal(t, "Update", action.Object["spec"].(map[string]any)["actionType"])
	require.Equal(t, []any{"installplan", "ptp", "install-abc"}, []any{kube["resource"], kube["namespace"], kube["name"]})
	require.Equal(t, parse(t, `
apiVersion: operators.coreos.com/v1alpha1
kind: InstallPlan
metadata: {namespace: ptp, name: install-abc, uid: "1", resourceVersion: "7", labels: {a: b}, ownerReferences: [{kind: Subscription, name: ptp}]}
spec: {approval: Manual, approved: true, generation: 3}`).Object, kube["template"])
	require.Equal(t, views.Outcome{Version: "7"}, views.OutcomeOf(action))
	approved, _, _ := unstructured.NestedBool(viewed.Object, "spec", "approved")
	require.False(t, approved, "the viewed object stays as it is")
}

func TestAnActionCreatesAndDeletesAnObject(t *testing.T) {
	job := parse(t, "{apiVersion: batch/v1, kind: Job, metadata: {namespace: ops, name: backup}, spec: {suspend: true}}")
	created := views.Create(june, "c1", job)
	require.Equal(t, map[string]any{
		"actionType": "Create", "kube": map[string]any{"resource": "job", "namespace": "ops", "name": "backup", "template": job.Object},
	}, created.Object["spec"])
	deleted := views.Delete(june, "c1", views.ObjectOf(job))
	require.Equal(t, map[string]any{"actionType": "Delete", "kube": map[string]any{"resource": "job", "namespace": "ops", "name": "backup"}}, deleted.Object["spec"])
	require.Equal(t, created.GetName(), deleted.GetName(), "only one of them exists at a time")
	require.Equal(t, views.TypeDelete, views.TypeOf(deleted))

	namespace := views.Create(june, "c1", parse(t, "{apiVersion: v1, kind: Namespace, metadata: {name: ops}}"))
	require.NotContains(t, namespace.Object["spec"].(map[string]any)["kube"], "namespace")
	require.Equal(t, "Namespace ops", views.Object{Kind: schema.GroupVersionKind{Version: "v1", Kind: "Namespace"}, Name: "ops"}.String())
}

// The agent could not report its success, and tries again.
func TestAnActionIsDoneIfTheClusterIsAsItWants(t *testing.T) {
	for _, tt := range []struct {
		does, failure string
		done          bool
	}{
		{"Create", `jobs.batch "x" already exists`, true},
		{"Create", `object is being deleted: namespaces "x" already exists`, false},
		{"Create", `namespaces "x" not found`, false},
		{"Delete", `jobs.batch "x" not found`, true},
		{"Delete", `jobs.batch "x" is forbidden`, false},
		{"Update", `installplans "x" not found`, false},
	} {
		message := "failed to handle action with err: " + tt.failure
		action := parse(t, "spec: {actionType: "+tt.does+"}\nstatus: {conditions: [{type: Completed, status: 'False', reason: Failed, message: '"+message+"'}]}")
		want := views.Outcome{Failure: message}
		if tt.done {
			want = views.Outcome{Done: true}
		}
		require.Equal(t, want, views.OutcomeOf(action), tt.does+" "+tt.failure)
	}
}

func TestTheOutcomeOfAnActionIsRead(t *testing.T) {
	const spec = "spec: {kube: {template: {metadata: {resourceVersion: '7'}}}}\n"
	for name, tt := range map[string]struct {
		status string
		want   views.Outcome
	}{
		"pending":          {"{}", views.Outcome{Version: "7"}},
		"done":             {"{conditions: [{type: Completed, status: 'True', reason: ActionDone}]}", views.Outcome{Version: "7", Done: true}},
		"failed":           {"{conditions: [{type: Completed, status: 'False', reason: UpdateResourceFailed, message: conflict}]}", views.Outcome{Version: "7", Failure: "conflict"}},
		"without messages": {"{conditions: [{type: Completed, status: 'False', reason: ActionTypeInvalid}]}", views.Outcome{Version: "7", Failure: "ActionTypeInvalid"}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, tt.want, views.OutcomeOf(parse(t, spec+"status: "+tt.status)))
		})
	}
}

func TestManyViewsAreReadLessOften(t *testing.T) {
	for count, want := range map[int]time.Duration{0: 10 * time.Second, 100: 10 * time.Second, 600: 30 * time.Second, 1500: 75 * time.Second, 100000: 5 * time.Minute} {
		require.Equal(t, want, views.Interval(count), count)
	}
}
