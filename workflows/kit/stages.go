package kit

import (
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// Stages records the stages of a status with their times. A stage that has succeeded is never changed.
type Stages struct {
	Records *[]drydockv1.StageRecord
	// Show publishes a change.
	Show func()
}

// Begin records the start of a stage, or its restart after a failure.
func (k Stages) Begin(ctx workflow.Context, stage drydockv1.Stage) {
	if s := k.Stage(stage); s == nil {
		*k.Records = append(*k.Records, drydockv1.StageRecord{Stage: stage, StartedAt: metav1.NewTime(workflow.Now(ctx))})
	} else if !s.Succeeded {
		s.FinishedAt = nil
	}
}

// End records the end of a stage with a message; the message of an error takes precedence.
func (k Stages) End(ctx workflow.Context, stage drydockv1.Stage, err error, message string) {
	s := k.Stage(stage)
	if s == nil || s.Succeeded {
		return
	}
	now := metav1.NewTime(workflow.Now(ctx))
	s.FinishedAt, s.Succeeded, s.Message = &now, err == nil, message
	if err != nil {
		s.Message = temporal.ErrorMessage(err)
	}
	k.Show()
}

// Drop removes stages that will start again.
func (k Stages) Drop(stages ...drydockv1.Stage) {
	*k.Records = slices.DeleteFunc(*k.Records, func(s drydockv1.StageRecord) bool { return slices.Contains(stages, s.Stage) })
	k.Show()
}

// Stage returns the record of a stage; nil: the stage has not started.
func (k Stages) Stage(stage drydockv1.Stage) *drydockv1.StageRecord {
	i := slices.IndexFunc(*k.Records, func(s drydockv1.StageRecord) bool { return s.Stage == stage })
	if i < 0 {
		return nil
	}
	return &(*k.Records)[i]
}
