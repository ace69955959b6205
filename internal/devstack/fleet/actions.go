package fleet

import (
	"encoding/json"
	"net/http"
	"strings"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	policyv1 "k8s.io/api/policy/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/harbor"
	"drydock.dev/drydock/internal/kube"
)

// Actions are read from the audit log of an API server, never from the status of Drydock.

// Action is one write to a cluster that the API server accepted.
type Action struct {
	// What is the kind of action: one of the constants below.
	What string
	// Object as namespace/name, or name.
	Object string
	// Node of the action, if the request has one; for an eviction, the node of the pod.
	Node string
	// UID is the precondition of an eviction; empty: any pod with that name.
	UID types.UID
	// Owner is the ownership mark that the request set; empty: it set none.
	Owner string
	// NotScheduled: no pod of the created Job was scheduled.
	NotScheduled bool
	// By is the user.
	By string
	// Received is when the API server got the request, and At when it answered.
	Received, At time.Time
}

// The kinds of actions of a rollout.
const (
	ActionCordon              = "cordon"
	ActionUncordon            = "uncordon"
	ActionMark                = "mark"   // of a node whose cordon is not touched
	ActionUnmark              = "unmark" // of such a node
	ActionNodeGone            = "node deleted"
	ActionEviction            = "eviction"
	ActionRequestCluster      = "request cluster maintenance"
	ActionWithdrawCluster     = "withdraw cluster maintenance"
	ActionRequestNode         = "request node maintenance"
	ActionWithdrawNode        = "withdraw node maintenance"
	ActionClusterLockInactive = "cluster lock inactive"
	ActionClusterLockActive   = "cluster lock active"
	ActionClusterLock         = "cluster lock created"
	ActionClusterLockGone     = "cluster lock deleted"
	ActionLock                = "lock created"
	ActionLockGone            = "lock deleted"
	ActionLockInactive        = "lock inactive"
	ActionLockActive          = "lock active"
	ActionClusterLockFailed   = "cluster lock failed"
	ActionLockFailed          = "lock failed"
	ActionJob                 = "job"
	ActionPreparation         = "preparation" // a Job that precaches or backs up
	// ActionForeign is a write of Drydock to a foreign object. Object names the write.
	ActionForeign = "foreign"
)

// drydockAccounts is the prefix of the ServiceAccounts of Drydock.
const drydockAccounts = "system:serviceaccount:" + accountNamespace + ":"

// ByDrydock reports whether the worker of Drydock sent the request.
func (d Action) ByDrydock() bool { return strings.HasPrefix(d.By, drydockAccounts) }

// ByLockController reports whether the worker of Drydock sent the request as a lock controller.
func (d Action) ByLockController() bool { return d.By == drydockAccounts+lockControllerAccount }

// Actions returns the actions on a cluster so far, in the order of their answers.
func Actions(cluster *devstack.Cluster) ([]Action, error) {
	events, err := cluster.AuditEvents()
	if err != nil {
		return nil, err
	}
	return ActionsOf(events), nil
}

// ActionsOf reads the actions from an audit log.
func ActionsOf(events []auditv1.Event) []Action {
	var actions []Action
	scheduled := map[types.UID]string{}
	jobs := map[string]int{} // the last action that created the Job of that name
	for _, event := range events {
		if !succeeded(event) {
			continue
		}
		r := request{event}
		if r.is("pods/binding create") {
			var binding corev1.Binding
			r.read(&binding)
			scheduled[binding.UID] = binding.Target.Name
			if i, ok := jobs[jobOfPod(objectOf(event))]; ok {
				actions[i].NotScheduled = false
			}
		}
		action := Action{Object: objectOf(event), By: event.User.Username, Received: event.RequestReceivedTimestamp.Time, At: event.StageTimestamp.Time}
		r.describe(&action)
		if action.What == ActionEviction {
			action.Node = scheduled[action.UID]
		}
		if action.What == ActionJob {
			action.NotScheduled, jobs[action.Object] = true, len(actions)
		}
		if action.What != "" {
			actions = append(actions, action)
		}
	}
	return actions
}

// succeeded reports whether a request had an effect. A withdrawal whose client disconnected counts, although the API server logs a timeout: no client
// repeats a completed withdrawal.
func succeeded(event auditv1.Event) bool {
	if event.ObjectRef == nil || event.Stage != auditv1.StageResponseComplete || event.ResponseStatus == nil || strings.Contains(event.RequestURI, "dryRun=") {
		return false
	}
	code := event.ResponseStatus.Code
	return code < http.StatusBadRequest || code == http.StatusGatewayTimeout && request{event}.withdraws()
}

// request is the request of an audit event.
type request struct{ auditv1.Event }

// is compares with "resource/subresource verb".
func (r request) is(what string) bool {
	return r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource+" "+r.Verb == what || r.ObjectRef.Subresource == "" && r.ObjectRef.Resource+" "+r.Verb == what
}

// withdraws reports whether it deletes a maintenance request.
func (r request) withdraws() bool {
	return r.is("clustermaintenancerequests delete") || r.is("nodemaintenancerequests delete")
}

// read decodes the body. It does not change value if there is no JSON body.
func (r request) read(value any) {
	if r.RequestObject != nil {
		_ = json.Unmarshal(r.RequestObject.Raw, value)
	}
}

// describe sets the fields of the action; action.What stays empty if the request is not relevant.
func (r request) describe(action *Action) {
	switch {
	case r.is("pods/eviction create"):
		action.What, action.UID = ActionEviction, r.evicted()
	case r.is("nodes patch"), r.is("nodes update"):
		action.What, action.Owner = r.nodeChange()
		action.Node = action.Object
	case r.is("nodes delete"):
		action.What, action.Node = ActionNodeGone, action.Object
	case r.is("jobs create"):
		var job batchv1.Job
		r.read(&job)
		action.What, action.Node, action.Owner = ActionJob, pinnedTo(&job), kube.Owner(&job)
		switch {
		case r.prepares():
			action.What = ActionPreparation
		case job.Labels[harbor.LabelCluster] != "":
			action.What = "" // the Job creates the bucket of a Harbor
		}
	case r.is("clustermaintenancerequests create"):
		action.What = ActionRequestCluster
	case r.is("clustermaintenancerequests delete"):
		action.What = ActionWithdrawCluster
	case r.is("nodemaintenancerequests create"):
		var object lcmv1.NodeMaintenanceRequest
		r.read(&object)
		action.What, action.Node, action.Owner = ActionRequestNode, object.Spec.NodeName, kube.Owner(&object)
	case r.is("nodemaintenancerequests delete"):
		action.What = ActionWithdrawNode
	case r.is("nodeworkloadlocks create"):
		var lock lcmv1.NodeWorkloadLock
		r.read(&lock)
		action.What, action.Node = ActionLock, lock.Spec.NodeName
	case r.is("nodeworkloadlocks delete"):
		action.What = ActionLockGone
	case r.is("clusterworkloadlocks create"):
		action.What = ActionClusterLock
	case r.is("clusterworkloadlocks delete"):
		action.What = ActionClusterLockGone
	case r.is("nodeworkloadlocks/status patch"), r.is("nodeworkloadlocks/status update"):
		action.What = map[lcmv1.LockState]string{lcmv1.LockInactive: ActionLockInactive, lcmv1.LockActive: ActionLockActive, lcmv1.LockFailed: ActionLockFailed}[r.lockState()]
	case r.is("clusterworkloadlocks/status patch"), r.is("clusterworkloadlocks/status update"):
		action.What = map[lcmv1.LockState]string{
			lcmv1.LockInactive: ActionClusterLockInactive, lcmv1.LockActive: ActionClusterLockActive, lcmv1.LockFailed: ActionClusterLockFailed,
		}[r.lockState()]
	}
	if foreign := r.foreign(); action.ByDrydock() && foreign != "" {
		action.What, action.Object = ActionForeign, foreign+" of "+action.Object
	}
}

func (r request) evicted() types.UID {
	var eviction policyv1.Eviction
	r.read(&eviction)
	if eviction.DeleteOptions == nil || eviction.DeleteOptions.Preconditions == nil || eviction.DeleteOptions.Preconditions.UID == nil {
		return ""
	}
	return *eviction.DeleteOptions.Preconditions.UID
}

// nodePatch are the relevant fields of a patch of a node. A null is a key without a value.
type nodePatch struct {
	Metadata struct {
		Annotations map[string]*string `json:"annotations"`
		Labels      map[string]*string `json:"labels"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// nodeChange distinguishes a patch that cordons from one that uncordons (by false or null) and from one that only sets or removes marks.
func (r request) nodeChange() (what, owner string) {
	var patch nodePatch
	r.read(&patch)
	mark, marks := patch.Metadata.Annotations[kube.AnnotationOwner]
	if mark != nil {
		owner = *mark
	}
	switch value, named := patch.Spec["unschedulable"]; {
	case value == true:
		return ActionCordon, owner
	case named:
		return ActionUncordon, owner
	case owner != "":
		return ActionMark, owner
	case marks:
		return ActionUnmark, ""
	}
	return "", ""
}

func (r request) lockState() lcmv1.LockState {
	var patch struct {
		Status lcmv1.WorkloadLockStatus `json:"status"`
	}
	r.read(&patch)
	return patch.Status.State
}

// prepares reports whether a request concerns the Jobs that precache or back up clusters, or their inputs.
func (r request) prepares() bool { return strings.HasPrefix(r.ObjectRef.Namespace, "openshift-talo-") }

// pinnedTo is the node on which the pods of a Job must run.
func pinnedTo(job *batchv1.Job) string {
	affinity := job.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range term.MatchFields {
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}

// jobOfPod is the name of the Job of a pod.
func jobOfPod(pod string) string { return pod[:max(0, strings.LastIndex(pod, "-"))] }

func objectOf(event auditv1.Event) string {
	name := event.ObjectRef.Name
	if name == "" {
		name = nameOfNew(event)
	}
	if event.ObjectRef.Namespace != "" {
		name = event.ObjectRef.Namespace + "/" + name
	}
	return name
}

// nameOfNew reads the name of a created object from the body.
func nameOfNew(event auditv1.Event) string {
	var object metav1.PartialObjectMetadata
	request{event}.read(&object)
	return object.Name
}
