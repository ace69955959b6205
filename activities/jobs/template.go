package jobs

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/safename"
	"drydock.dev/drydock/internal/temporal"
)

// Finalizer keeps a Job from vanishing before its maintenance has seen the end of it.
const Finalizer = "drydock.dev/job"

// failedJobTTL is how long a finished Job is kept, in seconds, unless its template says otherwise. One that completed is removed sooner.
const failedJobTTL = 24 * 60 * 60

// NameOfJob is the same for every attempt of a maintenance and differs between its runs, because a failed Job of an earlier run is kept.
func NameOfJob(in RunJobInput) string {
	owner := sha256.Sum256([]byte(in.Owner))
	return safename.Join("-", in.Maintenance, hex.EncodeToString(owner[:4]))
}

// JobFor makes the Job of the template: named, marked as ours, held by the finalizer and pinned to the node. Errors: InvalidSpec.
func JobFor(in RunJobInput) (*batchv1.Job, error) {
	template := in.Job.Template.DeepCopy()
	job := &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{
			Namespace:   in.Job.Namespace,
			Name:        NameOfJob(in),
			Labels:      template.Labels,
			Annotations: template.Annotations,
			Finalizers:  []string{Finalizer},
		},
		Spec: template.Spec,
	}
	metav1.SetMetaDataAnnotation(&job.ObjectMeta, kube.AnnotationOwner, in.Owner)
	if job.Spec.TTLSecondsAfterFinished == nil {
		job.Spec.TTLSecondsAfterFinished = new(int32(failedJobTTL))
	}
	pod := &job.Spec.Template.Spec
	if pod.NodeName != "" {
		return nil, temporal.Error(temporal.ErrInvalidSpec,
			"action.job.template.spec.template.spec.nodeName: must not be set: the job runs on the node under maintenance", nil)
	}
	if pod.RestartPolicy == "" {
		// The API's own default, Always, is refused in a Job. Never leaves the failed pod to look at.
		pod.RestartPolicy = corev1.RestartPolicyNever
	}
	pinTo(pod, in.NodeRef)
	return job, nil
}

// pinTo lets the scheduler place the pod on the node and nowhere else, as the DaemonSet controller does. Setting nodeName would pass the
// scheduler by: a node that is short of something would reject the pod, and the Job would fail where it could have waited; and volumes
// that are bound on first use never would be. The scheduler observes taints, so the pod tolerates them all: the work is for this node, although
// it is cordoned, may be dedicated to others, and may be NotReady during the work.
//
// The scheduler also makes sure that the work is done during the maintenance only: the request that creates the Job may arrive late, when
// another worker has finished the maintenance and returned the node. The pod then waits for a label that never comes back.
func pinTo(pod *corev1.PodSpec, ref activitykit.NodeRef) {
	onNode := corev1.NodeSelectorRequirement{Key: metav1.ObjectNameField, Operator: corev1.NodeSelectorOpIn, Values: []string{ref.Node}}
	maintained := corev1.NodeSelectorRequirement{
		Key: kube.LabelMaintenance, Operator: corev1.NodeSelectorOpIn, Values: []string{kube.MaintenanceLabel(ref.Owner)},
	}
	if pod.Affinity == nil {
		pod.Affinity = &corev1.Affinity{}
	}
	if pod.Affinity.NodeAffinity == nil {
		pod.Affinity.NodeAffinity = &corev1.NodeAffinity{}
	}
	affinity := pod.Affinity.NodeAffinity
	if affinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		affinity.RequiredDuringSchedulingIgnoredDuringExecution = &corev1.NodeSelector{NodeSelectorTerms: make([]corev1.NodeSelectorTerm, 1)}
	}
	terms := affinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms
	for i := range terms { // terms are ORed, so each gets the node
		terms[i].MatchFields = append(terms[i].MatchFields, onNode)
		terms[i].MatchExpressions = append(terms[i].MatchExpressions, maintained)
	}
	pod.Tolerations = append(pod.Tolerations, corev1.Toleration{Operator: corev1.TolerationOpExists})
}

// nodeOfJob returns the node that a Job is pinned to, or "".
func nodeOfJob(job *batchv1.Job) string {
	affinity := job.Spec.Template.Spec.Affinity
	if affinity == nil || affinity.NodeAffinity == nil || affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution == nil {
		return ""
	}
	for _, term := range affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution.NodeSelectorTerms {
		for _, field := range slices.Backward(term.MatchFields) { // ours was added last
			if field.Key == metav1.ObjectNameField && len(field.Values) == 1 {
				return field.Values[0]
			}
		}
	}
	return ""
}
