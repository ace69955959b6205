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

// What was done to a cluster, as its API server has seen it: Drydock's own word does not count here.

// Deed is one write to a cluster that the API server let through.
type Deed struct {
	// What was done: one of the constants below.
	What string
	// Object as namespace/name, or name.
	Object string
	// Node that the deed is about, where the request says it; of an eviction, where the scheduler had put the pod.
	Node string
	// UID of the pod that an eviction insisted on; empty: it took whatever had the name.
	UID types.UID
	// Owner is the ownership mark that the request set; empty: none, or it removed one.
	Owner string
	// InVain: no pod of the Job that was made has got to a node.
	InVain bool
	// By is the user.
	By string
	// Received is when the API server got the request, and At when it had answered. What a request caused was received after it.
	Received, At time.Time
}

// The deeds that matter in a rollout.
const (
	DeedCordon              = "cordon"
	DeedUncordon            = "uncordon"
	DeedMark                = "mark"   // of a node whose cordon is not touched
	DeedUnmark              = "unmark" // likewise
	DeedNodeGone            = "node deleted"
	DeedEviction            = "eviction"
	DeedRequestCluster      = "request cluster maintenance"
	DeedWithdrawCluster     = "withdraw cluster maintenance"
	DeedRequestNode         = "request node maintenance"
	DeedWithdrawNode        = "withdraw node maintenance"
	DeedClusterLockInactive = "cluster lock inactive"
	DeedClusterLockActive   = "cluster lock active"
	DeedClusterLock         = "cluster lock created"
	DeedClusterLockGone     = "cluster lock deleted"
	DeedLock                = "lock created"
	DeedLockGone            = "lock deleted"
	DeedLockInactive        = "lock inactive"
	DeedLockActive          = "lock active"
	DeedClusterLockFailed   = "cluster lock failed"
	DeedLockFailed          = "lock failed"
	DeedJob                 = "job"
	DeedPreparation         = "preparation" // a Job that precaches or backs up
	// DeedForeign is a write of Drydock to what it has no business with. Its object names the write.
	DeedForeign = "foreign"
)

// drydockAccounts is how the names of Drydock's users begin.
const drydockAccounts = "system:serviceaccount:" + accountNamespace + ":"

// ByDrydock reports whether Drydock's worker has done it.
func (d Deed) ByDrydock() bool { return strings.HasPrefix(d.By, drydockAccounts) }

// ByLockController reports whether Drydock's worker has done it for an application whose locks it keeps.
func (d Deed) ByLockController() bool { return d.By == drydockAccounts+lockControllerAccount }

// Deeds returns what was done to a cluster so far, in the order it was answered.
func Deeds(cluster *devstack.Cluster) ([]Deed, error) {
	events, err := cluster.AuditEvents()
	if err != nil {
		return nil, err
	}
	return DeedsOf(events), nil
}

// DeedsOf reads the deeds from an audit log.
func DeedsOf(events []auditv1.Event) []Deed {
	var deeds []Deed
	scheduled := map[types.UID]string{}
	jobs := map[string]int{} // the deed that made the Job of that name last
	for _, event := range events {
		if !took(event) {
			continue
		}
		r := request{event}
		if r.is("pods/binding create") {
			var binding corev1.Binding
			r.read(&binding)
			scheduled[binding.UID] = binding.Target.Name
			if made, ok := jobs[jobOfPod(objectOf(event))]; ok {
				deeds[made].InVain = false
			}
		}
		deed := Deed{Object: objectOf(event), By: event.User.Username, Received: event.RequestReceivedTimestamp.Time, At: event.StageTimestamp.Time}
		r.tell(&deed)
		if deed.What == DeedEviction {
			deed.Node = scheduled[deed.UID]
		}
		if deed.What == DeedJob {
			deed.InVain, jobs[deed.Object] = true, len(deeds)
		}
		if deed.What != "" {
			deeds = append(deeds, deed)
		}
	}
	return deeds
}

// took reports whether a request had an effect. A withdrawal during which whoever asked was cut off may have had one: the API server says that it timed
// out, and nobody repeats one that was carried out.
func took(event auditv1.Event) bool {
	if event.ObjectRef == nil || event.Stage != auditv1.StageResponseComplete || event.ResponseStatus == nil || strings.Contains(event.RequestURI, "dryRun=") {
		return false
	}
	code := event.ResponseStatus.Code
	return code < http.StatusBadRequest || code == http.StatusGatewayTimeout && request{event}.withdraws()
}

// request is an event of the audit log as the request that it tells of.
type request struct{ auditv1.Event }

// is compares with "resource/subresource verb".
func (r request) is(what string) bool {
	return r.ObjectRef.Resource+"/"+r.ObjectRef.Subresource+" "+r.Verb == what || r.ObjectRef.Subresource == "" && r.ObjectRef.Resource+" "+r.Verb == what
}

// withdraws reports whether it deletes a request to the holders of locks.
func (r request) withdraws() bool {
	return r.is("clustermaintenancerequests delete") || r.is("nodemaintenancerequests delete")
}

// read decodes the body; one that is not there, or no JSON object, leaves value as it is.
func (r request) read(value any) {
	if r.RequestObject != nil {
		_ = json.Unmarshal(r.RequestObject.Raw, value)
	}
}

// tell says what the request did; nothing for one that did nothing that matters.
func (r request) tell(deed *Deed) {
	switch {
	case r.is("pods/eviction create"):
		deed.What, deed.UID = DeedEviction, r.evicted()
	case r.is("nodes patch"), r.is("nodes update"):
		deed.What, deed.Owner = r.nodeChange()
		deed.Node = deed.Object
	case r.is("nodes delete"):
		deed.What, deed.Node = DeedNodeGone, deed.Object
	case r.is("jobs create"):
		var job batchv1.Job
		r.read(&job)
		deed.What, deed.Node, deed.Owner = DeedJob, pinnedTo(&job), kube.Owner(&job)
		switch {
		case r.prepares():
			deed.What = DeedPreparation
		case job.Labels[harbor.LabelCluster] != "":
			deed.What = "" // it makes the bucket of a Harbor, and is no work on a node
		}
	case r.is("clustermaintenancerequests create"):
		deed.What = DeedRequestCluster
	case r.is("clustermaintenancerequests delete"):
		deed.What = DeedWithdrawCluster
	case r.is("nodemaintenancerequests create"):
		var object lcmv1.NodeMaintenanceRequest
		r.read(&object)
		deed.What, deed.Node, deed.Owner = DeedRequestNode, object.Spec.NodeName, kube.Owner(&object)
	case r.is("nodemaintenancerequests delete"):
		deed.What = DeedWithdrawNode
	case r.is("nodeworkloadlocks create"):
		var lock lcmv1.NodeWorkloadLock
		r.read(&lock)
		deed.What, deed.Node = DeedLock, lock.Spec.NodeName
	case r.is("nodeworkloadlocks delete"):
		deed.What = DeedLockGone
	case r.is("clusterworkloadlocks create"):
		deed.What = DeedClusterLock
	case r.is("clusterworkloadlocks delete"):
		deed.What = DeedClusterLockGone
	case r.is("nodeworkloadlocks/status patch"), r.is("nodeworkloadlocks/status update"):
		deed.What = map[lcmv1.LockState]string{lcmv1.LockInactive: DeedLockInactive, lcmv1.LockActive: DeedLockActive, lcmv1.LockFailed: DeedLockFailed}[r.lockState()]
	case r.is("clusterworkloadlocks/status patch"), r.is("clusterworkloadlocks/status update"):
		deed.What = map[lcmv1.LockState]string{
			lcmv1.LockInactive: DeedClusterLockInactive, lcmv1.LockActive: DeedClusterLockActive, lcmv1.LockFailed: DeedClusterLockFailed,
		}[r.lockState()]
	}
	if foreign := r.foreign(); deed.ByDrydock() && foreign != "" {
		deed.What, deed.Object = DeedForeign, foreign+" of "+deed.Object
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

// nodePatch is what matters of a patch of a node. A null is a key without value.
type nodePatch struct {
	Metadata struct {
		Annotations map[string]*string `json:"annotations"`
		Labels      map[string]*string `json:"labels"`
	} `json:"metadata"`
	Spec map[string]any `json:"spec"`
}

// nodeChange tells a patch that cordons from one that takes a cordon back, by a false or a null, and from one that only marks.
func (r request) nodeChange() (what, owner string) {
	var patch nodePatch
	r.read(&patch)
	mark, marks := patch.Metadata.Annotations[kube.AnnotationOwner]
	if mark != nil {
		owner = *mark
	}
	switch value, named := patch.Spec["unschedulable"]; {
	case value == true:
		return DeedCordon, owner
	case named:
		return DeedUncordon, owner
	case owner != "":
		return DeedMark, owner
	case marks:
		return DeedUnmark, ""
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

// prepares reports whether a request is about the Jobs that precache clusters and back them up, or what those read.
func (r request) prepares() bool { return strings.HasPrefix(r.ObjectRef.Namespace, "openshift-talo-") }

// pinnedTo is the node that a Job's pods must run on.
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

// jobOfPod is the name of the Job that has made a pod of that name.
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

// nameOfNew is the name of an object that is created, which its path does not say.
func nameOfNew(event auditv1.Event) string {
	var object metav1.PartialObjectMetadata
	request{event}.read(&object)
	return object.Name
}
