package windows

import (
	"context"
	"errors"
	"fmt"
	"time"

	"go.temporal.io/api/serviceerror"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// ReadWindows returns the statuses of the windows, given as namespace/name, in their order and without their events. A window that workflows wait for runs
// before it is defined.
func (w *Activities) ReadWindows(ctx context.Context, names []string) ([]windows.Status, error) {
	statuses := make([]windows.Status, len(names))
	for i, name := range names {
		answer, err := w.Workflows.QueryWorkflow(ctx, temporal.MaintenanceWindowPrefix+name, "", temporal.QueryStatus)
		if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
			statuses[i] = windows.Status{Window: name, Phase: windows.PhaseUndefined}
			continue
		}
		if err == nil {
			err = answer.Get(&statuses[i])
		}
		if err != nil {
			return nil, fmt.Errorf("ask window %s for its status: %w", name, err)
		}
		statuses[i] = statuses[i].At(time.Now())
		statuses[i].Events, statuses[i].Subscribers = nil, nil
	}
	return statuses, nil
}
