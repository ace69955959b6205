package app

import (
	"fmt"
	"log/slog"
	"math"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestAWorkerKeepsAsManyWorkflowsAsFitInItsMemory(t *testing.T) {
	for limit, workflows := range map[int64]int{1: 100, 900 << 20: 900, 64 << 30: 3_000, math.MaxInt64: 3_000} {
		require.Equal(t, workflows, workflowsInMemory(limit), "limit of %d bytes", limit)
	}
}

// TestTheMemoryLimitOfTheContainerIsThatOfGo runs this test again in a group of processes with a limit, as container runtimes do.
func TestTheMemoryLimitOfTheContainerIsThatOfGo(t *testing.T) {
	if os.Getenv("IN_CONTAINER") != "" {
		limitMemory(t.Context(), slog.New(slog.NewTextHandler(os.Stdout, nil)))
		fmt.Printf("garbage=%d\n", debug.SetGCPercent(-1))
		return
	}
	parent, file := "/sys/fs/cgroup", "memory.max"
	if _, err := os.Stat(filepath.Join(parent, "memory")); err == nil { // version 1
		parent, file = filepath.Join(parent, "memory"), "memory.limit_in_bytes"
	}
	group, err := os.MkdirTemp(parent, "drydock-memory-")
	if err != nil {
		t.Skipf("needs a group of processes: %v", err)
	}
	t.Cleanup(func() {
		require.Eventually(t, func() bool { return os.Remove(group) == nil }, time.Minute, 10*time.Millisecond)
	})
	limit := filepath.Join(group, file)
	if _, err := os.Stat(limit); err != nil {
		t.Skipf("needs the memory controller in groups of processes: %v", err)
	}
	require.NoError(t, os.WriteFile(limit, []byte("1073741824"), 0))
	for setting, lines := range map[string][]string{
		"GOGC=":            {"bytes=966367641\n", "garbage=300\n"}, // 90 % of the limit
		"GOGC=50":          {"bytes=966367641\n", "garbage=50\n"},
		"AUTOMEMLIMIT=off": {"garbage=100\n"},
	} {
		inGroup := exec.CommandContext(t.Context(), "sh", "-c", `echo $$ > "$0/cgroup.procs" && exec "$@"`, group, os.Args[0], "-test.run=^"+t.Name()+"$")
		inGroup.Env = append(slices.DeleteFunc(os.Environ(), func(variable string) bool {
			return strings.Contains(variable, "MEMLIMIT=") || strings.HasPrefix(variable, "GOGC=")
		}), "IN_CONTAINER=1", setting)
		output, err := inGroup.CombinedOutput()
		require.NoError(t, err, "%s", output)
		for _, line := range lines {
			require.Contains(t, string(output), line, setting)
		}
	}
}
