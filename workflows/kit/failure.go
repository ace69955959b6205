package kit

import (
	"errors"

	sdktemporal "go.temporal.io/sdk/temporal"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// FailureOf returns the failure that a status shows for an error.
func FailureOf(err error) *maintenancev1.Failure {
	return &maintenancev1.Failure{Reason: ReasonOf(err), Message: temporal.ErrorMessage(err), Blockers: temporal.Blockers(err)}
}

// DetailsOf decodes the first detail of the application or cancellation error in err into value, and reports whether there is one.
func DetailsOf(err error, value any) bool {
	if application, ok := errors.AsType[*sdktemporal.ApplicationError](err); ok {
		return application.HasDetails() && application.Details(value) == nil
	}
	if cancelled, ok := errors.AsType[*sdktemporal.CanceledError](err); ok {
		return cancelled.HasDetails() && cancelled.Details(value) == nil
	}
	return false
}

// InvalidSpec returns the problem of a request as an InvalidSpec error; nil without a problem.
func InvalidSpec(problem error) error {
	if problem == nil {
		return nil
	}
	return temporal.Error(temporal.ErrInvalidSpec, problem.Error(), nil)
}
