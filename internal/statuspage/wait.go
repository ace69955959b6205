package statuspage

import (
	"strings"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
)

// waitModel explains a wait.
type waitModel struct {
	Reason, Message string
	Since           time.Time
	Until           *time.Time
	Blockers        []drydockv1.Blocker
}

func newWait(wait *drydockv1.Wait) *waitModel {
	if wait == nil {
		return nil
	}
	model := &waitModel{Reason: wait.Reason, Message: wait.Message, Since: wait.Since.Time}
	for _, b := range wait.Blockers {
		if b.Message == "" || !strings.Contains(wait.Message, b.Message) { // no text is repeated
			model.Blockers = append(model.Blockers, b)
		}
	}
	if wait.Until != nil {
		model.Until = &wait.Until.Time
	}
	return model
}

// heldBeside describes a hold, unless the wait does.
func heldBeside(hold *drydockv1.Hold, wait *drydockv1.Wait) string {
	if hold != nil && wait != nil && wait.Reason == emergency.Reason(*hold) {
		return ""
	}
	return heldText(hold)
}
