package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
)

// Usage is the memory and CPU time that a process has used.
type Usage struct {
	// PeakMemoryBytes is the peak resident memory (VmHWM).
	PeakMemoryBytes int64 `json:"peakMemoryBytes"`
	// CPUSeconds is the CPU time in user and system mode.
	CPUSeconds float64 `json:"cpuSeconds"`
}

// Usages is what Drydock and Temporal have used.
type Usages struct {
	// Worker is the usage of all workers: the CPU time of all, and the peak memory of the largest. Temporal is that of all its services.
	Worker   Usage `json:"worker"`
	Temporal Usage `json:"temporal"`
	// Database is the usage of PostgreSQL, and Transactions the number of its transactions. The dev server has no database of its own.
	Database     Usage `json:"database,omitzero"`
	Transactions int64 `json:"transactions,omitempty"`
}

// usagesOf reads what the programs of a fleet have used, and more workers beside its own.
func usagesOf(ctx context.Context, f *fleet.Fleet, moreWorkers ...*devstack.Process) (u Usages, err error) {
	for _, worker := range append([]*devstack.Process{f.Worker}, moreWorkers...) {
		err = errors.Join(err, u.Worker.add(worker))
	}
	services, database := f.Temporal.Servers()
	for _, service := range services {
		err = errors.Join(err, u.Temporal.add(service))
	}
	if database == nil || err != nil {
		return u, err
	}
	if err := u.Database.add(database); err != nil {
		return u, err
	}
	u.Transactions, err = f.Temporal.Transactions(ctx)
	return u, err
}

// storedBy is what PostgreSQL stores for Temporal. The dev server has no database of its own.
func storedBy(ctx context.Context, f *fleet.Fleet) (devstack.Stored, error) {
	if _, database := f.Temporal.Servers(); database == nil {
		return devstack.Stored{}, nil
	}
	return f.Temporal.Stored(ctx)
}

func (u *Usage) add(process *devstack.Process) error {
	used, err := usageOf(process.PID())
	*u = u.plus(used)
	return err
}

// plus returns the sum of the CPU times, and the higher peak of memory.
func (u Usage) plus(more Usage) Usage {
	return Usage{PeakMemoryBytes: max(u.PeakMemoryBytes, more.PeakMemoryBytes), CPUSeconds: u.CPUSeconds + more.CPUSeconds}
}

// since returns the CPU times and transactions since before, and the overall peaks of memory.
func (u Usages) since(before Usages) Usages {
	return Usages{
		Worker: u.Worker.since(before.Worker), Temporal: u.Temporal.since(before.Temporal),
		Database: u.Database.since(before.Database), Transactions: u.Transactions - before.Transactions,
	}
}

// plus returns the sum of the CPU times and transactions, and the overall peaks of memory.
func (u Usages) plus(more Usages) Usages {
	return Usages{
		Worker: u.Worker.plus(more.Worker), Temporal: u.Temporal.plus(more.Temporal),
		Database: u.Database.plus(more.Database), Transactions: u.Transactions + more.Transactions,
	}
}

// memoryOf reads the resident memory of a process.
func memoryOf(pid int) (int64, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return 0, fmt.Errorf("read the memory of process %d: %w", pid, err)
	}
	return kilobytesOf(string(status), "VmRSS")
}

// kilobytesOf returns the bytes of a line such as "VmRSS: 12 kB".
func kilobytesOf(status, name string) (int64, error) {
	kilobytes, err := strconv.ParseInt(strings.TrimSuffix(field(status, name), " kB"), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("read %s: %w", name, err)
	}
	return kilobytes << 10, nil
}

// clockTick is the unit of CPU time in /proc, the same on every Linux that Go supports.
const clockTick = 0.01

// usageOf reads the usage of a process since its start, and the CPU time of its children.
func usageOf(pid int) (Usage, error) {
	status, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "status"))
	if err != nil {
		return Usage{}, fmt.Errorf("read the usage of process %d: %w", pid, err)
	}
	peak, err := kilobytesOf(string(status), "VmHWM")
	if err != nil {
		return Usage{}, fmt.Errorf("process %d: %w", pid, err)
	}
	_, ticks, err := ticksOf(pid)
	if err != nil {
		return Usage{}, fmt.Errorf("read the CPU time of process %d: %w", pid, err)
	}
	processes, err := filepath.Glob("/proc/[0-9]*")
	if err != nil {
		return Usage{}, err
	}
	for _, process := range processes {
		child, _ := strconv.Atoi(filepath.Base(process))
		if parent, used, err := ticksOf(child); err == nil && parent == pid { // an error: it has ended
			ticks += used
		}
	}
	return Usage{PeakMemoryBytes: peak, CPUSeconds: float64(ticks) * clockTick}, nil
}

// ticksOf reads the parent of a process, and the CPU time of the process and of its children that have ended.
func ticksOf(pid int) (parent int, ticks int64, err error) {
	stat, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "stat"))
	if err != nil {
		return 0, 0, err
	}
	// The second field, the program name in parentheses, may contain spaces. The parent comes 2 fields after it; utime, stime, cutime and cstime 12 to 15.
	fields := strings.Fields(string(stat[bytes.LastIndexByte(stat, ')')+1:]))
	if parent, err = strconv.Atoi(fields[1]); err != nil {
		return 0, 0, err
	}
	for _, text := range fields[11:15] {
		number, err := strconv.ParseInt(text, 10, 64)
		if err != nil {
			return 0, 0, err
		}
		ticks += number
	}
	return parent, ticks, nil
}

// ownCPU returns the CPU time of this process since its start, in user and system mode.
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
