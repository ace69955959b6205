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
	// ByObject: a NodeMaintenance requests each node, instead of a rollout. ByWorkflow: a workflow does, as drydock node maintain starts it. No Job runs.
	ByObject   bool `json:"byObject,omitempty"`
	ByWorkflow bool `json:"byWorkflow,omitempty"`
	// OnPostgreSQL: Temporal runs as in production, with PostgreSQL.
	OnPostgreSQL bool `json:"onPostgreSQL,omitempty"`
	// Workers is the number of Drydock's worker processes, if there are several.
	Workers int `json:"workers,omitempty"`
	// Alone: the loop and kubectl are not measured.
	Alone bool `json:"alone,omitempty"`
}

// Options that follow a size.
const (
	optionDrain      = "drain"
	optionObjects    = "objects"
	optionWorkflows  = "workflows"
	optionAlone      = "alone"
	optionPostgreSQL = "postgresql"
	// optionWorkers follows a number.
	optionWorkers = "workers"
)

// ParseSize reads NODESxPODS@ATONCE, such as "20x10@5", then *ROUNDS if there are several, and options: "/drain" for DrainOnly, "/objects" for ByObject or
// "/workflows" for ByWorkflow, "/postgresql" for OnPostgreSQL, "/4workers" for four Workers, and "/alone" for Alone.
func ParseSize(text string) (Size, error) {
	numbers, options, optional := strings.Cut(text, "/")
	size := Size{}
	if !size.readNumbers(numbers) || optional && !size.readOptions(strings.Split(options, "/")) {
		return Size{}, fmt.Errorf("size %q is not NODESxPODS@ATONCE or NODESxPODS@ATONCE*ROUNDS, followed by /drain, /objects or /workflows if wanted; "+
			"/postgresql, /2workers and /alone may come last, e.g. 20x10@5", text)
	}
	return size, nil
}

func (s *Size) readNumbers(text string) bool {
	rest, rounds, several := strings.Cut(text, "*")
	rest, atOnce, _ := strings.Cut(rest, "@")
	nodes, pods, _ := strings.Cut(rest, "x")
	if !several {
		rounds = "1"
	}
	return positive(nodes, &s.Nodes) && positive(atOnce, &s.AtOnce) && positive(rounds, &s.Rounds) && (pods == "0" || positive(pods, &s.Pods))
}

// readOptions reports whether the options are known, and fit to each other.
func (s *Size) readOptions(options []string) bool {
	for _, option := range options {
		switch option {
		case optionDrain:
			s.DrainOnly = true
		case optionObjects:
			s.ByObject = true
		case optionWorkflows:
			s.ByWorkflow = true
		case optionAlone:
			s.Alone = true
		case optionPostgreSQL:
			s.OnPostgreSQL = true
		default:
			if count, is := strings.CutSuffix(option, optionWorkers); !is || !positive(count, &s.Workers) || s.Workers == 1 {
				return false
			}
		}
	}
	requested := s.ByObject || s.ByWorkflow
	if s.ByObject && s.ByWorkflow || requested && s.DrainOnly {
		return false
	}
	s.DrainOnly = s.DrainOnly || requested
	return true
}

// positive reads a number over 0.
func positive(text string, number *int) bool {
	var err error
	*number, err = strconv.Atoi(text)
	return err == nil && *number > 0
}

// String is what ParseSize reads.
func (s Size) String() string {
	text := fmt.Sprintf("%dx%d@%d", s.Nodes, s.Pods, s.AtOnce)
	if s.Rounds > 1 {
		text += fmt.Sprintf("*%d", s.Rounds)
	}
	for _, option := range s.options() {
		text += "/" + option
	}
	return text
}

func (s Size) options() (options []string) {
	switch {
	case s.ByObject:
		options = append(options, optionObjects)
	case s.ByWorkflow:
		options = append(options, optionWorkflows)
	case s.DrainOnly:
		options = append(options, optionDrain)
	}
	if s.OnPostgreSQL {
		options = append(options, optionPostgreSQL)
	}
	if s.Workers > 1 {
		options = append(options, strconv.Itoa(s.Workers)+optionWorkers)
	}
	if s.Alone {
		options = append(options, optionAlone)
	}
	return options
}

// title is the size in a table header, on two lines or more.
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
	if s.OnPostgreSQL {
		second += "\nPostgreSQL"
	}
	if s.Workers > 1 {
		second += fmt.Sprintf("\n%d workers", s.Workers)
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
