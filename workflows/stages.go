package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// stageKeeper records the stages of a status with their times. A stage that has succeeded is never changed.
type stageKeeper struct {
	stages *[]drydockv1.StageRecord
	// show makes a change visible.
	show func()
}

// begin records the start of a stage, or its restart after a failure.
func (k stageKeeper) begin(ctx workflow.Context, stage drydockv1.Stage) {
	if s := k.stage(stage); s == nil {
		*k.stages = append(*k.stages, drydockv1.StageRecord{Stage: stage, StartedAt: metav1.NewTime(workflow.Now(ctx))})
	} else if !s.Succeeded {
		s.FinishedAt = nil
	}
}

// end records the end of a stage with a message; the message of an error takes precedence.
func (k stageKeeper) end(ctx workflow.Context, stage drydockv1.Stage, err error, message string) {
	s := k.stage(stage)
	if s == nil || s.Succeeded {
		return
	}
	now := metav1.NewTime(workflow.Now(ctx))
	s.FinishedAt, s.Succeeded, s.Message = &now, err == nil, message
	if err != nil {
		s.Message = temporal.ErrorMessage(err)
	}
	k.show()
}

// forget drops stages that start over.
func (k stageKeeper) forget(stages ...drydockv1.Stage) {
	*k.stages = slices.DeleteFunc(*k.stages, func(s drydockv1.StageRecord) bool { return slices.Contains(stages, s.Stage) })
	k.show()
}

func (k stageKeeper) stage(stage drydockv1.Stage) *drydockv1.StageRecord {
	i := slices.IndexFunc(*k.stages, func(s drydockv1.StageRecord) bool { return s.Stage == stage })
	if i < 0 {
		return nil
	}
	return &(*k.stages)[i]
}
