package app

import (
	"context"
	"errors"
	"log/slog"

	"go.temporal.io/api/serviceerror"
	sdktemporal "go.temporal.io/sdk/temporal"
)

// calmHandler lowers to debug what the SDK logs as errors although it is normal: an activity is cancelled because its workflow no longer
// waits for it, or has closed.
type calmHandler struct{ slog.Handler }

func (h calmHandler) Handle(ctx context.Context, record slog.Record) error {
	if endsAWait(record) {
		record.Level = slog.LevelDebug
	}
	if !h.Enabled(ctx, record.Level) {
		return nil
	}
	return h.Handler.Handle(ctx, record)
}

func (h calmHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return calmHandler{h.Handler.WithAttrs(attrs)}
}

func (h calmHandler) WithGroup(name string) slog.Handler {
	return calmHandler{h.Handler.WithGroup(name)}
}

// endsAWait reports whether a record only reports that an activity was cancelled or that its workflow has closed.
func endsAWait(record slog.Record) bool {
	if record.Message != "Activity error." && record.Message != "RecordActivityHeartbeat with error" {
		return false
	}
	ends := false
	record.Attrs(func(attr slog.Attr) bool {
		err, is := attr.Value.Any().(error)
		if attr.Key != "Error" || !is {
			return true
		}
		var gone *serviceerror.NotFound
		ends = errors.Is(err, context.Canceled) || sdktemporal.IsCanceledError(err) ||
			errors.As(err, &gone) && gone.Message == "workflow execution already completed"
		return false
	})
	return ends
}
