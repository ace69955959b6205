package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"math"
	"os"
	"slices"
)

const (
	// guardRuns is how often the guard measures each size. The least of all runs counts: a slow machine only adds to a cost.
	guardRuns = 3
	// guardTolerance is how much a count may exceed its baseline, and guardCPUTolerance the same for the CPU time, which also depends on the machine.
	guardTolerance, guardCPUTolerance = 0.05, 0.25
)

// guardSizes are what the guard measures. Every node finds a free slot, and leaves each step before it reports to its workflow, so that the counts do not
// depend on the speed of the machine.
func guardSizes() []Size {
	size := Size{Nodes: 5, Pods: 3, AtOnce: 5, Rounds: 1, DrainOnly: true}
	objects, workflows := size, size
	objects.ByObject, workflows.ByWorkflow = true, true
	return []Size{size, objects, workflows}
}

// GuardedCost is what a node costs. The baseline has one for each size.
type GuardedCost struct {
	Events     float64 `json:"events"`
	Activities float64 `json:"activities"`
	Requests   float64 `json:"requests"`
	// CPU is the CPU time of the worker and of Temporal, divided by that of the loop for the same nodes: machines differ less in it than in seconds.
	CPU float64 `json:"cpu"`
}

func guardedCostOf(r Result) GuardedCost {
	return GuardedCost{
		Events: hundredths(r.EventsEach), Activities: hundredths(r.ActivitiesEach), Requests: hundredths(r.Requests.Total),
		CPU: hundredths((r.Worker.CPUSeconds + r.Temporal.CPUSeconds) / r.LoopCPUSeconds),
	}
}

func hundredths(number float64) float64 { return math.Round(number*100) / 100 }

// least returns the lower costs of both.
func (c GuardedCost) least(other GuardedCost) GuardedCost {
	return GuardedCost{
		Events: min(c.Events, other.Events), Activities: min(c.Activities, other.Activities), Requests: min(c.Requests, other.Requests), CPU: min(c.CPU, other.CPU),
	}
}

// exceeds lists the costs that exceed the baseline.
func (c GuardedCost) exceeds(size string, baseline GuardedCost) (problems []string) {
	for _, cost := range []struct {
		name                 string
		now, before, exceeds float64
	}{
		{"events per node", c.Events, baseline.Events, guardTolerance},
		{"activities per node", c.Activities, baseline.Activities, guardTolerance},
		{"API requests per node", c.Requests, baseline.Requests, guardTolerance},
		{"CPU, as a multiple of the loop's", c.CPU, baseline.CPU, guardCPUTolerance},
	} {
		if cost.now > cost.before*(1+cost.exceeds) {
			problems = append(problems, fmt.Sprintf("%s: %s: %.2f, the baseline is %.2f", size, cost.name, cost.now, cost.before))
		}
	}
	return problems
}

// Guard measures what a node costs, and returns an error if that exceeds the baseline in a file. With write it replaces the baseline.
func Guard(ctx context.Context, file string, write bool, progress io.Writer) error {
	baseline := map[string]GuardedCost{}
	if !write {
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		if err := json.Unmarshal(content, &baseline); err != nil {
			return fmt.Errorf("read %s: %w", file, err)
		}
	}
	measured := map[string]GuardedCost{}
	for _, size := range guardSizes() {
		for run := range guardRuns {
			result, err := runOnFleet(ctx, size, progress)
			if err != nil {
				return fmt.Errorf("measure %s: %w", size, err)
			}
			cost := guardedCostOf(result)
			fmt.Fprintf(progress, "%s, run %d: %+v\n", size, run+1, cost)
			if run > 0 {
				cost = cost.least(measured[size.String()])
			}
			measured[size.String()] = cost
		}
	}
	if write {
		content, err := json.MarshalIndent(measured, "", "  ")
		if err != nil {
			return err
		}
		return os.WriteFile(file, append(content, '\n'), 0o644)
	}
	return compare(measured, baseline)
}

// compare returns an error that lists all costs beyond their baselines.
func compare(measured, baseline map[string]GuardedCost) error {
	var problems []string
	for _, size := range slices.Sorted(maps.Keys(measured)) {
		before, known := baseline[size]
		if !known {
			problems = append(problems, size+": the baseline does not have it")
			continue
		}
		problems = append(problems, measured[size].exceeds(size, before)...)
	}
	if len(problems) > 0 {
		return TooExpensive(problems)
	}
	return nil
}

// TooExpensive are the costs that exceed their baselines.
type TooExpensive []string

// Error implements error.
func (e TooExpensive) Error() string {
	text := "a node costs more than the baseline allows; if that is meant, write the baseline (make bench-guard WRITE=1) and say why in the commit:"
	for _, problem := range e {
		text += "\n  " + problem
	}
	return text
}
