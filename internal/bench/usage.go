package bench

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// Usage is the memory and CPU time that a process has used.
type Usage struct {
	// PeakMemoryBytes is the peak resident memory (VmHWM).
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	// CPUSeconds is the CPU time in user and system mode.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// clockTick is the unit of CPU time in /proc, the same on every Linux that Go supports.
const clockTick = 0.01

// usageOf reads the usage of a process since its start.
func usageOf(pid int) (Usage, error) {
	dir := filepath.Join("/proc", strconv.Itoa(pid))
	status, err := os.ReadFile(filepath.Join(dir, "status"))
	if err != nil {
		return Usage{}, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	stat, err := os.ReadFile(filepath.Join(dir, "stat"))
	if err != nil {
		return Usage{}, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(field(string(status), "VmHWM"), " kB"), 10, 64)
	if err != nil {
		return Usage{}, fmt.Errorf("read the peak memory of process %d: %w", pid, err)
	}
	// The second field, the program name in parentheses, may contain spaces. utime and stime come 11 fields after it.
	_, fields, _ := strings.Cut(string(stat[strings.LastIndexByte(string(stat), ')'):]), " ")
	var ticks int64
	for _, text := range strings.Fields(fields)[11:13] {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return Usage{}, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
		}
		ticks += number
	}
	return Usage{PeakMemoryBytes: kilobytes << 10, CPUSeconds: float64(ticks) * clockTick}, nil
}

// ownCPU returns the CPU time of this process since its start.
func ownCPU() time.Duration {
	var used syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &used); err != nil {
		panic(err) // only invalid arguments fail
	}
	return time.Duration(used.Utime.Nano() + used.Stime.Nano())
}

// since returns the CPU time since before, and the overall peak of memory.
func (u Usage) since(before Usage) Usage {
	u.CPUSeconds -= before.CPUSeconds
	return u
}

// Machine is the machine of the measurement.
type Machine struct {
	Processor   string `json:"processor"`
	Processors  int    `json:"processors"`
	MemoryBytes int64  `json:"memoryBytes"`
	Platform    string `json:"platform"`
	Go          string `json:"go"`
}

// thisMachine describes the machine.
func thisMachine() Machine {
	m := Machine{Processor: "unknown processor", Processors: runtime.NumCPU(), Platform: runtime.GOOS + "/" + runtime.GOARCH, Go: runtime.Version()}
	if info, err := os.ReadFile("/proc/cpuinfo"); err == nil {
		if name := field(string(info), "model name"); name != "" {
			m.Processor = name
		}
	}
	if info, err := os.ReadFile("/proc/meminfo"); err == nil {
		kilobytes, _ := strconv.ParseInt(strings.TrimSuffix(field(string(info), "MemTotal"), " kB"), 10, 64)
		m.MemoryBytes = kilobytes << 10
	}
	return m
}

// field returns the first value of a "name: value" line.
func field(lines, name string) string {
	for line := range strings.Lines(lines) {
		if key, value, found := strings.Cut(line, ":"); found && strings.TrimSpace(key) == name {
			return strings.TrimSpace(value)
		}
	}
	return ""
}
