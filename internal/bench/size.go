package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// Size is the number of nodes and pods of a measurement.
type Size struct {
	Nodes int `json:"nodes"`
	// Pods is how many pods each node has to drain.
	Pods int `json:"pods"`
	// AtOnce is how many nodes may be under maintenance at once.
	AtOnce int `json:"atOnce"`
	// Rounds is how often all nodes are maintained, one round after the other.
	Rounds int `json:"rounds"`
	// DrainOnly: the nodes are drained and returned; no Job runs on them.
	DrainOnly bool `json:"drainOnly,omitempty"`
	// Alone: the loop and kubectl are not measured for comparison, which would take as long again.
	Alone bool `json:"alone,omitempty"`
}

// ParseSize reads NODESxPODS@ATONCE, such as "20x10@5", *ROUNDS after it if there is more than one, "/drain" if no Jobs are run, and "/alone" if only
// Drydock does it.
func ParseSize(text string) (Size, error) {
	rest, alone := strings.CutSuffix(text, aloneSuffix)
	rest, drainOnly := strings.CutSuffix(rest, drainSuffix)
	rest, rounds, several := strings.Cut(rest, "*")
	rest, atOnce, _ := strings.Cut(rest, "@")
	nodes, pods, _ := strings.Cut(rest, "x")
	if !several {
		rounds = "1"
	}
	size := Size{DrainOnly: drainOnly, Alone: alone}
	for _, part := range []struct {
		number *int
		text   string
		least  int
	}{{&size.Nodes, nodes, 1}, {&size.Pods, pods, 0}, {&size.AtOnce, atOnce, 1}, {&size.Rounds, rounds, 1}} {
		number, err := strconv.Atoi(part.text)
		if err != nil || number < part.least {
			return Size{}, fmt.Errorf("size %q is not NODESxPODS@ATONCE or NODESxPODS@ATONCE*ROUNDS, followed by /drain, /alone, /drain/alone or nothing, e.g. 20x10@5", text)
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
	if s.DrainOnly {
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
	// aloneSuffix follows a size that is measured without comparison.
	aloneSuffix = "/alone"
)

// title is the size in words, on two lines.
func (s Size) title() string {
	second := fmt.Sprintf("%d at once", s.AtOnce)
	if s.Rounds > 1 {
		second += fmt.Sprintf(", %d rounds", s.Rounds)
	}
	if s.DrainOnly {
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
