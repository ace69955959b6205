package health

import (
	"fmt"
	"slices"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

func workloadKind(kind drydockv1.WorkloadKind) schema.GroupVersionKind {
	return appsv1.SchemeGroupVersion.WithKind(string(kind))
}

// workloadKinds are the kinds of the check, or all.
func workloadKinds(check drydockv1.WorkloadCheck) ([]drydockv1.WorkloadKind, error) {
	all := []drydockv1.WorkloadKind{drydockv1.Deployment, drydockv1.StatefulSet, drydockv1.DaemonSet}
	if len(check.Kinds) == 0 {
		return all, nil
	}
	for _, kind := range check.Kinds {
		if !slices.Contains(all, kind) {
			return nil, fmt.Errorf("%w: workload.kinds: %q is not one of Deployment, StatefulSet and DaemonSet", ErrInvalid, kind)
		}
	}
	return check.Kinds, nil
}

// evaluateWorkload requires every selected workload to be rolled out and available. No workload is unhealthy: a misspelt namespace or selector is
// more likely than a check that should pass.
func evaluateWorkload(check drydockv1.WorkloadCheck, objects Objects) (Result, error) {
	kinds, err := workloadKinds(check)
	if err != nil {
		return Result{}, err
	}
	found := 0
	var blockers []drydockv1.Blocker
	for _, kind := range kinds {
		listed, err := objects.List(workloadKind(kind), check.Namespace)
		if err != nil {
			return Result{}, err
		}
		selected, err := selected(listed, check.Selector)
		if err != nil {
			return Result{}, fmt.Errorf("workload: %w", err)
		}
		unavailable, err := judgeWorkloads(kind, selected)
		if err != nil {
			return Result{}, err
		}
		found += len(selected)
		blockers = append(blockers, unavailable...)
	}
	if found == 0 {
		return Result{Reason: ReasonNothingFound, Message: "found no workload in namespace " + check.Namespace + withLabels(check.Selector)}, nil
	}
	return judged(fmt.Sprintf("%d workloads in namespace %s are available", found, check.Namespace), blockers), nil
}

func withLabels(selector *metav1.LabelSelector) string {
	if selector == nil {
		return ""
	}
	return " with labels " + metav1.FormatLabelSelector(selector)
}

// unavailable is why a workload is not available.
type unavailable struct{ reason, message string }

// judgeWorkloads returns those that are not available.
func judgeWorkloads(kind drydockv1.WorkloadKind, workloads []Object) ([]drydockv1.Blocker, error) {
	var blockers []drydockv1.Blocker
	for _, workload := range workloads {
		why, err := judgeWorkload(kind, workload)
		if err != nil {
			return nil, err
		}
		if why != nil {
			blockers = append(blockers, blocker(string(kind), workload, why.reason, why.message, metav1.Time{}))
		}
	}
	return blockers, nil
}

func judgeWorkload(kind drydockv1.WorkloadKind, workload Object) (*unavailable, error) {
	switch kind {
	case drydockv1.StatefulSet:
		return judge(workload, statefulSet)
	case drydockv1.DaemonSet:
		return judge(workload, daemonSet)
	}
	return judge(workload, deployment)
}

func judge[T any](workload Object, rule func(*T) *unavailable) (*unavailable, error) {
	object, err := typed[T](workload)
	if err != nil {
		return nil, err
	}
	return rule(object), nil
}

// The rules are those of kubectl rollout status, except that it accepts missing replicas that were available before; here none may be missing.

func deployment(d *appsv1.Deployment) *unavailable {
	want := replicas(d.Spec.Replicas)
	switch status := d.Status; {
	case status.ObservedGeneration < d.Generation:
		return notObserved(d.Generation, status.ObservedGeneration)
	case progressDeadlinePassed(d):
		return &unavailable{ReasonProgressDeadlinePassed, fmt.Sprintf("its rollout exceeded the progress deadline; %d of %d replicas are available", status.AvailableReplicas, want)}
	case status.UpdatedReplicas < want:
		return notAvailable("%d of %d replicas are updated", status.UpdatedReplicas, want)
	case status.Replicas > status.UpdatedReplicas:
		return notAvailable("%d old replicas are pending termination", status.Replicas-status.UpdatedReplicas)
	case status.AvailableReplicas < want || status.UnavailableReplicas > 0:
		return notAvailable("%d of %d replicas are available", status.AvailableReplicas, want)
	}
	return nil
}

func progressDeadlinePassed(d *appsv1.Deployment) bool {
	for _, c := range d.Status.Conditions {
		if c.Type == appsv1.DeploymentProgressing {
			return c.Status == corev1.ConditionFalse && c.Reason == "ProgressDeadlineExceeded"
		}
	}
	return false
}

func statefulSet(s *appsv1.StatefulSet) *unavailable {
	want := replicas(s.Spec.Replicas)
	updated := want - partition(s)
	switch status := s.Status; {
	case status.ObservedGeneration < s.Generation:
		return notObserved(s.Generation, status.ObservedGeneration)
	case status.AvailableReplicas < want || status.ReadyReplicas < want:
		return notAvailable("%d of %d replicas are available", min(status.AvailableReplicas, status.ReadyReplicas), want)
	case s.Spec.UpdateStrategy.Type == appsv1.OnDeleteStatefulSetStrategyType:
		// Old replicas stay until they are deleted: that is the strategy OnDelete.
		return nil
	case status.UpdatedReplicas < updated:
		return notAvailable("%d of %d replicas are updated", status.UpdatedReplicas, updated)
	}
	return nil
}

// partition is how many replicas a rolling update leaves unchanged.
func partition(s *appsv1.StatefulSet) int32 {
	if rolling := s.Spec.UpdateStrategy.RollingUpdate; rolling != nil && rolling.Partition != nil {
		return *rolling.Partition
	}
	return 0
}

func daemonSet(d *appsv1.DaemonSet) *unavailable {
	want := d.Status.DesiredNumberScheduled
	switch status := d.Status; {
	case status.ObservedGeneration < d.Generation:
		return notObserved(d.Generation, status.ObservedGeneration)
	case d.Spec.UpdateStrategy.Type != appsv1.OnDeleteDaemonSetStrategyType && status.UpdatedNumberScheduled < want:
		return notAvailable("%d of %d pods are updated", status.UpdatedNumberScheduled, want)
	case status.NumberAvailable < want || status.NumberUnavailable > 0:
		return notAvailable("%d of %d pods are available", status.NumberAvailable, want)
	}
	return nil
}

// replicas is the desired number; the API server's default is 1.
func replicas(n *int32) int32 {
	if n == nil {
		return 1
	}
	return *n
}

func notAvailable(format string, numbers ...any) *unavailable {
	return &unavailable{ReasonWorkloadNotAvailable, fmt.Sprintf(format, numbers...)}
}

func notObserved(generation, observed int64) *unavailable {
	return &unavailable{ReasonGenerationNotObserved, fmt.Sprintf("generation %d is not observed yet: its status is about generation %d", generation, observed)}
}
