package sweeper

import (
	"cmp"
	"context"
	"regexp"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/jobs"
	"drydock.dev/drydock/internal/allow"
	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
)

// MarkKind is the kind of an object with an ownership mark.
type MarkKind string

// The kinds of objects that maintenances mark, in the order of a cleanup. Workload locks are not among them: a lock is the veto of an
// application, which stays when its controller is gone.
const (
	MarkJob            MarkKind = "Job"
	MarkNode           MarkKind = "Node"
	MarkNodeRequest    MarkKind = "NodeMaintenanceRequest"
	MarkClusterRequest MarkKind = "ClusterMaintenanceRequest"
)

// The kinds of objects on the hub that rollouts mark, and that would take effect on a cluster later.
const (
	MarkAction MarkKind = "ManagedClusterAction"
	MarkView   MarkKind = "ManagedClusterView"
)

// Mark is an object with the mark of an owner, who changed or created it. A node with the marks of two owners (one has it, another waits for
// it) is two Marks.
type Mark struct {
	Kind      MarkKind `json:"kind"`
	Namespace string   `json:"namespace,omitempty"`
	Name      string   `json:"name"`
	// Node that the object names, if any.
	Node  string `json:"node,omitempty"`
	Owner string `json:"owner"`
}

// String names the object: "Node worker-1", "Job shop/firmware".
func (m Mark) String() string {
	if m.Namespace != "" {
		return string(m.Kind) + " " + m.Namespace + "/" + m.Name
	}
	return string(m.Kind) + " " + m.Name
}

// Workflow is the id of the owner's workflow.
func (m Mark) Workflow() string {
	id, _ := kube.OwnerWorkflow(m.Owner)
	return id
}

// CompareMarks sorts by owner, and the marks of one owner in the order of a cleanup.
func CompareMarks(a, b Mark) int {
	cleanUpOrder := []MarkKind{MarkAction, MarkView, MarkJob, MarkNode, MarkNodeRequest, MarkClusterRequest}
	return cmp.Or(
		cmp.Compare(a.Owner, b.Owner),
		cmp.Compare(slices.Index(cleanUpOrder, a.Kind), slices.Index(cleanUpOrder, b.Kind)),
		cmp.Compare(a.Namespace, b.Namespace),
		cmp.Compare(a.Name, b.Name),
	)
}

// markedKinds are the kinds to watch for marks.
func markedKinds() []client.Object {
	job := &metav1.PartialObjectMetadata{}
	job.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("Job"))
	return []client.Object{&corev1.Node{}, job, kube.IfServed(&lcmv1.NodeMaintenanceRequest{}), kube.IfServed(&lcmv1.ClusterMaintenanceRequest{})}
}

// findMarks returns all marks in a cluster, sorted, and how many it ignores because Drydock writes no such marks. It does not change objects. Of Jobs it reads
// only the metadata, because a cluster may have many.
func findMarks(ctx context.Context, reader client.Reader, allowed allow.List) (marks []Mark, ignored int, err error) {
	var nodes corev1.NodeList
	if err := reader.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, err
	}
	jobs := &metav1.PartialObjectMetadataList{}
	jobs.SetGroupVersionKind(batchv1.SchemeGroupVersion.WithKind("JobList"))
	if err := reader.List(ctx, jobs, client.UnsafeDisableDeepCopy); err != nil {
		return nil, 0, err
	}
	var nodeRequests lcmv1.NodeMaintenanceRequestList
	var clusterRequests lcmv1.ClusterMaintenanceRequestList
	for _, list := range []client.ObjectList{&nodeRequests, &clusterRequests} {
		if err := activitykit.ListIfServed(ctx, reader, list); err != nil {
			return nil, 0, err
		}
	}
	for i := range nodes.Items {
		marks = append(marks, nodeMarks(&nodes.Items[i])...)
	}
	for i := range jobs.Items {
		marks = append(marks, jobMarks(&jobs.Items[i])...)
	}
	for i := range nodeRequests.Items {
		marks = append(marks, requestMarks(MarkNodeRequest, &nodeRequests.Items[i], nodeRequests.Items[i].Spec.NodeName)...)
	}
	for i := range clusterRequests.Items {
		marks = append(marks, requestMarks(MarkClusterRequest, &clusterRequests.Items[i], "")...)
	}
	marks, ignored = onlyPlausible(marks, allowed)
	return marks, ignored, nil
}

// onlyPlausible returns the plausible marks, sorted, and how many others there are.
func onlyPlausible(marks []Mark, allowed allow.List) (plausible []Mark, ignored int) {
	plausible = slices.DeleteFunc(slices.Clone(marks), func(m Mark) bool { return !m.plausible(allowed) })
	slices.SortFunc(plausible, CompareMarks)
	return plausible, len(marks) - len(plausible)
}

// maxOwner is longer than any owner that Drydock writes: a cluster and two names of 253 characters, a namespace of 63, and the run.
const maxOwner = 1000

// runID is how Temporal writes the id of a run.
var runID = regexp.MustCompile(`^[A-Za-z0-9-]{1,64}$`)

// plausible reports whether Drydock could have written the mark: its owner is a workflow that marks objects of this kind, and a Job has the name that
// follows from its owner, and a namespace in which such Jobs may run. Users who can create Jobs elsewhere can also write marks, and Drydock may not be able to
// delete their Jobs: the node of a closed maintenance would wait for that.
func (m Mark) plausible(allowed allow.List) bool {
	workflow, run := kube.OwnerWorkflow(m.Owner)
	if len(m.Owner) > maxOwner || !runID.MatchString(run) {
		return false
	}
	if m.onHub() {
		_, _, isRollout := temporal.ParseClusterGroupUpgradeID(workflow)
		return isRollout
	}
	_, _, name, isNode := temporal.ParseNodeMaintenanceID(workflow)
	_, _, _, isUpgrade := temporal.ParseClusterUpgradeID(workflow)
	if m.Kind == MarkJob {
		return isNode && allowed.JobsIn(m.Namespace) && m.Name == jobs.NameOfJob(jobs.RunJobInput{NodeRef: activitykit.NodeRef{Owner: m.Owner}, Maintenance: name})
	}
	return isNode || isUpgrade
}

// nodeMarks: the annotation, and the conditions, which outlive it and come before it.
func nodeMarks(node *corev1.Node) []Mark {
	var owners []string
	if owner := kube.Owner(node); owner != "" {
		owners = append(owners, owner)
	}
	for _, condition := range node.Status.Conditions {
		for _, owner := range kube.ConditionOwners(condition) {
			if !slices.Contains(owners, owner) {
				owners = append(owners, owner)
			}
		}
	}
	var marks []Mark
	for _, owner := range owners {
		marks = append(marks, Mark{Kind: MarkNode, Name: node.Name, Node: node.Name, Owner: owner})
	}
	return marks
}

// jobMarks: a Job without our finalizer was released, and exists only for its logs.
func jobMarks(job metav1.Object) []Mark {
	owner := kube.Owner(job)
	if owner == "" || !slices.Contains(job.GetFinalizers(), jobs.Finalizer) {
		return nil
	}
	return []Mark{{Kind: MarkJob, Namespace: job.GetNamespace(), Name: job.GetName(), Owner: owner}}
}

// requestMarks: a request that is being deleted counts as withdrawn, even if a finalizer keeps it.
func requestMarks(kind MarkKind, request metav1.Object, node string) []Mark {
	owner := kube.Owner(request)
	if owner == "" || request.GetDeletionTimestamp() != nil {
		return nil
	}
	return []Mark{{Kind: kind, Name: request.GetName(), Node: node, Owner: owner}}
}

// stillMarked reads from the API server whether the object still has the mark, because the cache may be outdated.
func stillMarked(ctx context.Context, api client.Reader, mark Mark) (bool, error) {
	var object client.Object
	var marks func() []Mark
	switch mark.Kind {
	case MarkNode:
		node := &corev1.Node{}
		object, marks = node, func() []Mark { return nodeMarks(node) }
	case MarkJob:
		job := &batchv1.Job{}
		object, marks = job, func() []Mark { return jobMarks(job) }
	case MarkAction, MarkView:
		found := newHubObject(mark.Kind)
		object, marks = found, func() []Mark { return hubMarks(mark.Kind, found) }
	case MarkNodeRequest:
		request := &lcmv1.NodeMaintenanceRequest{}
		object, marks = request, func() []Mark { return requestMarks(mark.Kind, request, request.Spec.NodeName) }
	default:
		request := &lcmv1.ClusterMaintenanceRequest{}
		object, marks = request, func() []Mark { return requestMarks(mark.Kind, request, "") }
	}
	err := api.Get(ctx, client.ObjectKey{Namespace: mark.Namespace, Name: mark.Name}, object)
	if apierrors.IsNotFound(err) || meta.IsNoMatchError(err) {
		return false, nil
	}
	return err == nil && slices.Contains(marks(), mark), err
}

// nodeOfRollout returns the mark of a node that the rollout of a ClusterMaintenanceRequest has out of service or requests; false: none. The locks of the
// cluster stay inactive until the last node is returned: the node maintenances of a terminated ClusterUpgrade are cancelled and clean up.
func nodeOfRollout(request Mark, marks []Mark) (Mark, bool) {
	namespace, name, cluster, isUpgrade := temporal.ParseClusterUpgradeID(request.Workflow())
	if request.Kind != MarkClusterRequest || !isUpgrade {
		return Mark{}, false
	}
	at := slices.IndexFunc(marks, func(m Mark) bool {
		return (m.Kind == MarkNode || m.Kind == MarkNodeRequest) && m.Workflow() == temporal.NodeMaintenanceID(cluster, namespace, rollout.NodeMaintenanceName(name, m.Node))
	})
	if at < 0 {
		return Mark{}, false
	}
	return marks[at], true
}
