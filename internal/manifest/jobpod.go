package manifest

import (
	"slices"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// validateJob finds problems that a cluster would report only after the node is drained, and Jobs that would not work on the node: one that never
// runs, runs elsewhere, or is complete before it has run. Paths are those within the template.
func validateJob(template batchv1.JobTemplateSpec) field.ErrorList {
	spec := field.NewPath("spec")
	return slices.Concat(
		validateJobMetadata(template.ObjectMeta),
		validateJobSpec(template.Spec, spec),
		validatePod(template.Spec.Template.Spec, spec.Child("template", "spec")),
	)
}

func validateJobMetadata(metadata metav1.ObjectMeta) field.ErrorList {
	path := field.NewPath("metadata")
	var invalid field.ErrorList
	if metadata.Name != "" || metadata.GenerateName != "" {
		invalid = append(invalid, field.Forbidden(path.Child("name"), "the Job is named after its maintenance"))
	}
	if metadata.Namespace != "" {
		invalid = append(invalid, field.Forbidden(path.Child("namespace"), "action.job.namespace says where the Job runs"))
	}
	return invalid
}

func validateJobSpec(job batchv1.JobSpec, path *field.Path) field.ErrorList {
	var invalid field.ErrorList
	if job.Suspend != nil && *job.Suspend {
		invalid = append(invalid, field.Invalid(path.Child("suspend"), true, "the Job would never run"))
	}
	if job.Selector != nil {
		invalid = append(invalid, field.Forbidden(path.Child("selector"), "the cluster picks the Job's pods"))
	}
	for _, number := range []struct {
		name   string
		value  *int32
		least  int32
		reason string
	}{
		{"parallelism", job.Parallelism, 1, "must be at least 1: the Job would never run"},
		{"completions", job.Completions, 1, "must be at least 1: the Job would be complete before it has run"},
		{"backoffLimit", job.BackoffLimit, 0, "must be at least 0"},
		{"ttlSecondsAfterFinished", job.TTLSecondsAfterFinished, 0, "must be at least 0"},
	} {
		if number.value != nil && *number.value < number.least {
			invalid = append(invalid, field.Invalid(path.Child(number.name), *number.value, number.reason))
		}
	}
	if limit := job.ActiveDeadlineSeconds; limit != nil && *limit < 1 {
		invalid = append(invalid, field.Invalid(path.Child("activeDeadlineSeconds"), *limit, "must be at least 1: the Job would fail at once"))
	}
	return invalid
}

func validatePod(pod corev1.PodSpec, path *field.Path) field.ErrorList {
	invalid := validateContainers(pod, path)
	for _, forbidden := range []struct {
		is   bool
		path *field.Path
		why  string
	}{
		{pod.NodeName != "", path.Child("nodeName"), "the Job runs on the node under maintenance"},
		{len(pod.NodeSelector) > 0, path.Child("nodeSelector"), "the Job always runs on the node under maintenance"},
		{
			pod.Affinity != nil && pod.Affinity.NodeAffinity != nil && pod.Affinity.NodeAffinity.RequiredDuringSchedulingIgnoredDuringExecution != nil,
			path.Child("affinity", "nodeAffinity", "requiredDuringSchedulingIgnoredDuringExecution"),
			"the Job always runs on the node under maintenance",
		},
		{len(pod.SchedulingGates) > 0, path.Child("schedulingGates"), "no controller removes them, so the Job would never run"},
	} {
		if forbidden.is {
			invalid = append(invalid, field.Forbidden(forbidden.path, forbidden.why))
		}
	}
	switch pod.RestartPolicy {
	case "", corev1.RestartPolicyNever, corev1.RestartPolicyOnFailure:
	default:
		invalid = append(invalid, field.Invalid(path.Child("restartPolicy"), string(pod.RestartPolicy), "must be Never, which is the default, or OnFailure"))
	}
	return invalid
}

func validateContainers(pod corev1.PodSpec, path *field.Path) field.ErrorList {
	var invalid field.ErrorList
	if len(pod.Containers) == 0 {
		invalid = append(invalid, field.Required(path.Child("containers"), "a Job needs a container"))
	}
	volumes, names := sets.New[string](), sets.New[string]()
	for _, volume := range pod.Volumes {
		volumes.Insert(volume.Name)
	}
	judge := func(container corev1.Container, path *field.Path) {
		switch problems := validation.IsDNS1123Label(container.Name); {
		case container.Name == "":
			invalid = append(invalid, field.Required(path.Child("name"), ""))
		case names.Has(container.Name):
			invalid = append(invalid, field.Duplicate(path.Child("name"), container.Name))
		case len(problems) > 0:
			invalid = append(invalid, field.Invalid(path.Child("name"), container.Name, strings.Join(problems, "; ")))
		}
		names.Insert(container.Name)
		if strings.TrimSpace(container.Image) == "" {
			invalid = append(invalid, field.Required(path.Child("image"), ""))
		}
		for i, mount := range container.VolumeMounts {
			if !volumes.Has(mount.Name) {
				invalid = append(invalid, field.NotFound(path.Child("volumeMounts").Index(i).Child("name"), mount.Name))
			}
		}
	}
	for i, container := range pod.InitContainers {
		judge(container, path.Child("initContainers").Index(i))
	}
	for i, container := range pod.Containers {
		judge(container, path.Child("containers").Index(i))
	}
	return invalid
}
