package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is the number of nodes and pods of a measurement.
type Size struct {
	Nodes int `json:"nodes"`
	// Pods is how many pods each node has.
	Pods int `json:"pods"`
	// AtOnce is how many nodes may be in maintenance at the same time.
	AtOnce int `json:"atOnce"`
	// Rounds is how often all nodes are maintained.
	Rounds int `json:"rounds"`
	// DrainOnly: no Job runs on the nodes.
	DrainOnly bool `json:"drainOnly,omitempty"`
	// ByObject: a NodeMaintenance requests each node, instead of a rollout. ByWorkflow: a workflow does, as drydock node maintain starts it. No Job runs,
	// and there is one round.
	ByObject   bool `json:"byObject,omitempty"`
	ByWorkflow bool `json:"byWorkflow,omitempty"`
	// Alone: the loop and kubectl are not measured.
	Alone bool `json:"alone,omitempty"`
}

// ParseSize reads NODESxPODS@ATONCE, such as "20x10@5", then *ROUNDS if there are several, "/drain" for DrainOnly, "/objects" for ByObject or "/workflows"
// for ByWorkflow, and "/alone" for Alone.
func ParseSize(text string) (Size, error) {
	rest, alone := strings.CutSuffix(text, aloneSuffix)
	rest, byObject := strings.CutSuffix(rest, objectsSuffix)
	rest, byWorkflow := strings.CutSuffix(rest, workflowsSuffix)
	requested := byObject || byWorkflow
	rest, drainOnly := strings.CutSuffix(rest, drainSuffix)
	rest, rounds, several := strings.Cut(rest, "*")
	rest, atOnce, _ := strings.Cut(rest, "@")
	nodes, pods, _ := strings.Cut(rest, "x")
	if !several {
		rounds = "1"
	}
	size := Size{DrainOnly: drainOnly || requested, ByObject: byObject, ByWorkflow: byWorkflow, Alone: alone}
	for _, part := range []struct {
		number *int
		text   string
		min    int
	}{{&size.Nodes, nodes, 1}, {&size.Pods, pods, 0}, {&size.AtOnce, atOnce, 1}, {&size.Rounds, rounds, 1}} {
		number, err := strconv.Atoi(part.text)
		if err != nil || number < part.min || byObject && byWorkflow || requested && (several || drainOnly) {
			return Size{}, fmt.Errorf("size %q is not NODESxPODS@ATONCE/objects or NODESxPODS@ATONCE/workflows, or NODESxPODS@ATONCE or NODESxPODS@ATONCE*ROUNDS followed by /drain or nothing; "+
				"/alone may come last, e.g. 20x10@5", text)
		}
		*part.number = number
	}
	return size, nil
}

// String is what ParseSize reads.
func (s Size) String() string {
	text := fmt.Sprintf("%dx%d@%d", s.Nodes, s.Pods, s.AtOnce)
	if s.Rounds > 1 {
		text += fmt.Sprintf("*%d", s.Rounds)
	}
	switch {
	case s.ByObject:
		text += objectsSuffix
	case s.ByWorkflow:
		text += workflowsSuffix
	case s.DrainOnly:
		text += drainSuffix
	}
	if s.Alone {
		text += aloneSuffix
	}
	return text
}

const (
	// drainSuffix follows a size whose nodes are only drained.
	drainSuffix = "/drain"
	// objectsSuffix follows a size whose nodes are requested by objects.
	objectsSuffix = "/objects"
	// workflowsSuffix follows a size whose nodes are requested by workflows.
	workflowsSuffix = "/workflows"
	// aloneSuffix follows a size that is measured without comparison.
	aloneSuffix = "/alone"
)

// title is the size in a table header, on two lines.
func (s Size) title() string {
	second := fmt.Sprintf("%d at once", s.AtOnce)
	if s.Rounds > 1 {
		second += fmt.Sprintf(", %d rounds", s.Rounds)
	}
	switch {
	case s.ByObject:
		second += ", by objects"
	case s.ByWorkflow:
		second += ", by workflows"
	case s.DrainOnly:
		second += ", no jobs"
	}
	return counted(s.Nodes, "node") + " x " + counted(s.Pods, "pod") + "\n" + second
}

func counted(number int, noun string) string { return several(number, noun, noun+"s") }

func several(number int, one, more string) string {
	if number == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", number, more)
}

// maintenances is the number of node maintenances in all rounds.
func (s Size) maintenances() int { return s.Nodes * s.Rounds }
