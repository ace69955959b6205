package app

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/stretchr/testify/require"
	"go.temporal.io/api/serviceerror"
	sdklog "go.temporal.io/sdk/log"
	sdktemporal "go.temporal.io/sdk/temporal"
)

func TestTheEndOfAWaitIsNotLoggedAsAnError(t *testing.T) {
	closed := serviceerror.NewNotFound("workflow execution already completed")
	for _, tt := range []struct {
		message string
		err     error
		shown   bool
	}{
		{"Activity error.", fmt.Errorf("watch nodes: %w", context.Canceled), false},
		{"Activity error.", sdktemporal.NewCanceledError(), false},
		{"Activity error.", errors.New("the API server does not answer"), true},
		{"Activity error.", context.DeadlineExceeded, true},
		{"RecordActivityHeartbeat with error", closed, false},
		{"RecordActivityHeartbeat with error", serviceerror.NewNotFound("activity already timed out"), true},
		{"Workflow panic", context.Canceled, true},
	} {
		for level, shown := range map[string]bool{"info": tt.shown, "debug": true} {
			o := NewOptions("unknown")
			o.logLevel = level
			var out bytes.Buffer
			log, err := o.Logger(&out)
			require.NoError(t, err)
			sdklog.With(sdklog.NewStructuredLogger(log), "WorkerID", "w1").Error(tt.message, "Error", tt.err)
			require.Equal(t, shown, out.Len() > 0, "%s %v at %s: %s", tt.message, tt.err, level, out.String())
			if !tt.shown && shown {
				require.Contains(t, out.String(), "level=DEBUG")
			}
		}
	}
}
