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

// Finalizer keeps a Job until its maintenance has observed the end of it.
const Finalizer = "drydock.dev/job"

// failedJobTTL is the default TTL of a finished Job in seconds. A completed Job is removed sooner.
const failedJobTTL = 24 * 60 * 60

// NameOfJob is the same for every attempt of a maintenance and differs between its runs, because a failed Job of an earlier run is kept.
func NameOfJob(in RunJobInput) string {
	owner := sha256.Sum256([]byte(in.Owner))
	return safename.Join("-", in.Maintenance, hex.EncodeToString(owner[:4]))
}

// JobFor builds the Job from the template: with its name, Drydock's mark and finalizer, and pinned to the node. Errors: InvalidSpec.
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
		// The API's default, Always, is invalid in a Job. Never keeps the failed pod for inspection.
		pod.RestartPolicy = corev1.RestartPolicyNever
	}
	if pod.AutomountServiceAccountToken == nil {
		pod.AutomountServiceAccountToken = new(false)
	}
	pinTo(pod, in.NodeRef)
	return job, nil
}

// pinTo makes the scheduler place the pod only on the node, like the DaemonSet controller. nodeName would bypass the scheduler: a node without
// resources would reject the pod, and the Job would fail instead of waiting; and volumes that are bound on first use would stay unbound. The pod
// tolerates all taints, because the node is cordoned, may be dedicated to other pods, and may be NotReady during the work.
//
// The scheduler also prevents work after the maintenance: the create request may arrive late, after another worker has returned the node. The pod
// then waits for a label that the node no longer gets.
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
