package windows

import (
	"context"
	"errors"
	"fmt"

	"go.temporal.io/api/serviceerror"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
)

// UndefinedWindows returns those of the windows, as namespace/name, that are not defined. A window that workflows wait for runs before it is defined.
func (w *Activities) UndefinedWindows(ctx context.Context, names []string) ([]string, error) {
	undefined := []string{}
	for _, name := range names {
		var status windows.Status
		answer, err := w.Workflows.QueryWorkflow(ctx, temporal.MaintenanceWindowPrefix+name, "", temporal.QueryStatus)
		if _, unknown := errors.AsType[*serviceerror.NotFound](err); unknown {
			undefined = append(undefined, name)
			continue
		}
		if err == nil {
			err = answer.Get(&status)
		}
		if err != nil {
			return nil, fmt.Errorf("ask window %s whether it is defined: %w", name, err)
		}
		if status.Phase == windows.PhaseUndefined {
			undefined = append(undefined, name)
		}
	}
	return undefined, nil
}
