package activitykit

import (
	"k8s.io/apimachinery/pkg/util/validation/field"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// ActionPath is the path of an action within the spec of a maintenance, and of a rollout's nodeMaintenance.
func ActionPath() *field.Path { return field.NewPath("action") }

// CheckAction returns whether the clusters file of this worker allows the Job of an action; at is the path of the action, which may be nil. Errors:
// InvalidSpec, with every field.
func CheckAction(clusters *kube.Clusters, at *field.Path, action *maintenancev1.Action) error {
	if action == nil || action.Type != maintenancev1.ActionJob || action.Job == nil {
		return nil
	}
	return CheckJob(clusters, at, action.Job)
}

// CheckHealthChecks returns whether the clusters file of this worker allows the addresses of health checks; at is their path. Errors: InvalidSpec, with
// every field.
func CheckHealthChecks(clusters *kube.Clusters, at *field.Path, checks []drydockv1.HealthCheck) error {
	if refused := clusters.Allowed().CheckHealthChecks(at, checks); len(refused) > 0 {
		return temporal.Error(temporal.ErrInvalidSpec, refused.ToAggregate().Error(), nil)
	}
	return nil
}

// CheckReceivers returns whether the clusters file of this worker allows the receivers of notifications; at is their path. Errors: InvalidSpec, with every
// field.
func CheckReceivers(clusters *kube.Clusters, at *field.Path, receivers []drydockv1.Notification) error {
	if refused := clusters.Allowed().CheckReceivers(at, receivers); len(refused) > 0 {
		return temporal.Error(temporal.ErrInvalidSpec, refused.ToAggregate().Error(), nil)
	}
	return nil
}

// CheckJob is CheckAction for the Job itself; nil: there is none.
func CheckJob(clusters *kube.Clusters, at *field.Path, job *maintenancev1.JobAction) error {
	if job == nil {
		return nil
	}
	if refused := clusters.Allowed().CheckJob(at.Child("job"), *job); len(refused) > 0 {
		return temporal.Error(temporal.ErrInvalidSpec, refused.ToAggregate().Error(), nil)
	}
	return nil
}
