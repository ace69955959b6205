package activities

import (
	"context"
	"time"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
)

// Jobs runs Jobs on nodes.
type Jobs struct{}

// RunJobInput says which Job to run on which node.
type RunJobInput struct {
	NodeRef
	// Maintenance is the name of the NodeMaintenance; the Job is named after it.
	Maintenance string                  `json:"maintenance"`
	Job         maintenancev1.JobAction `json:"job"`
	Deadline    *time.Time              `json:"deadline,omitempty"`
}

// RunJob creates the Job if it does not exist yet and waits until it is complete.
// Errors: JobFailed, NodeGone, InvalidSpec (the API server refuses the template).
func (j *Jobs) RunJob(ctx context.Context, in RunJobInput) error { return errNotBuilt }

// RemoveJob deletes the Job and its pods, if it is ours. A Job that failed is kept for a day, so that its logs can be read.
func (j *Jobs) RemoveJob(ctx context.Context, in RunJobInput) error { return errNotBuilt }
