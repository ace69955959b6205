package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
)

// memoryLimitInterval is how often the limit is read again: that of a running container may change.
const memoryLimitInterval = time.Minute

// limitMemory makes Go collect garbage more often when the program comes near the memory limit of its container, which would end it. GOMEMLIMIT in the environment
// takes precedence.
func limitMemory(ctx context.Context, log *slog.Logger) {
	limit, err := memlimit.Set(memlimit.WithRefreshInterval(ctx, memoryLimitInterval))
	switch {
	case err != nil && os.Getenv("AUTOMEMLIMIT") != "":
		log.Warn("AUTOMEMLIMIT is ignored", "error", err)
	case err != nil:
		log.Debug("the memory limit is not known", "error", err)
	case limit < math.MaxInt64:
		log.Info("memory limit of Go", "bytes", limit)
	}
}
