package app

import (
	"context"
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"time"

	"github.com/KimMachineGun/automemlimit/memlimit"
	"go.temporal.io/sdk/worker"
)

const (
	// memoryLimitInterval is how often the limit is read again: that of a running container may change.
	memoryLimitInterval = time.Minute
	// memoryPerWorkflow is the share of the memory limit for each workflow that a worker keeps in memory between two tasks. A maintenance that waits takes
	// at most 0.3 MiB (docs/performance.md).
	memoryPerWorkflow = 1 << 20
	// fewestWorkflows and mostWorkflows limit how many a worker keeps, also without a memory limit. Those in progress are far fewer, and
	// to keep all that wait did not make 2,000 requests in a queue faster (docs/performance.md).
	fewestWorkflows, mostWorkflows = 100, 3_000
	// garbagePercent is how much garbage Go gathers with a memory limit, in percent of the memory in use: the container has that memory anyway. With Go's default of
	// 100, the collector took an eighth of the CPU time of the worker.
	garbagePercent = 300
)

// limitMemory makes Go collect garbage more often when the program comes near the memory limit of its container, which would end it, and less often before that.
// GOMEMLIMIT and GOGC in the environment take precedence. The workflows that wait do not fill that memory: those that do not fit are read from Temporal again for
// their next task. No worker may have started yet.
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
	limit = debug.SetMemoryLimit(-1)
	if limit < math.MaxInt64 && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(garbagePercent)
	}
	worker.SetStickyWorkflowCacheSize(workflowsInMemory(limit))
}

// workflowsInMemory is how many workflows a worker keeps in memory with a memory limit in bytes.
func workflowsInMemory(limit int64) int {
	return int(min(max(limit/memoryPerWorkflow, fewestWorkflows), mostWorkflows))
}
