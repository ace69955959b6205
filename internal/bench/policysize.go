package bench

import (
	"fmt"
	"strconv"
	"strings"
)

// PolicySize is the size of a policy rollout.
type PolicySize struct {
	Clusters int `json:"clusters"`
	// Policies are enforced on each cluster, one after the other.
	Policies int `json:"policies"`
	// AtOnce is how many clusters a batch has.
	AtOnce int `json:"atOnce"`
	// OnPostgreSQL: Temporal runs as in production, with PostgreSQL. The loop is not measured.
	OnPostgreSQL bool `json:"onPostgreSQL,omitempty"`
}

// policiesSuffix follows the size of a policy rollout.
const policiesSuffix = "/policies"

// Sizes are the sizes of all measurements.
type Sizes struct {
	Nodes    []Size
	Policies []PolicySize
	// Harbors are numbers of Harbor clusters.
	Harbors []int
	Windows []WindowSize
	// Finished are numbers of objects whose work is over.
	Finished []FinishedSize
	// Queues are queues of slot requests.
	Queues []QueueSize
	// Clusters are numbers of clusters that one worker serves.
	Clusters []ClustersSize
	// Pace: also measure how fast policy rollouts continue.
	Pace bool
}

// paceSize is the text of Sizes.Pace.
const paceSize = "pace"

// DefaultSizes are the sizes of `make bench`.
func DefaultSizes() Sizes {
	return Sizes{
		Nodes: []Size{
			{Nodes: 1, AtOnce: 1, Rounds: 20},
			{Nodes: 20, Pods: 10, AtOnce: 5, Rounds: 5},
			{Nodes: 100, Pods: 10, AtOnce: 10, Rounds: 1},
			{Nodes: 100, Pods: 10, AtOnce: 50, Rounds: 1},
			{Nodes: 100, Pods: 10, AtOnce: 10, Rounds: 1, DrainOnly: true},
			{Nodes: 100, Pods: 10, AtOnce: 50, Rounds: 1, DrainOnly: true},
			{Nodes: 100, Pods: 10, AtOnce: 10, Rounds: 1, DrainOnly: true, ByObject: true},
			{Nodes: 100, Pods: 10, AtOnce: 50, Rounds: 1, DrainOnly: true, ByObject: true},
			{Nodes: 100, Pods: 10, AtOnce: 10, Rounds: 1, DrainOnly: true, ByWorkflow: true},
			{Nodes: 100, Pods: 10, AtOnce: 50, Rounds: 1, DrainOnly: true, ByWorkflow: true},
		},
		Policies: []PolicySize{
			{Clusters: 100, Policies: 1, AtOnce: 10},
			{Clusters: 100, Policies: 3, AtOnce: 10},
			{Clusters: 1000, Policies: 1, AtOnce: 100},
		},
		Harbors:  []int{50},
		Windows:  []WindowSize{{Windows: 50, Maintenances: 10}, {Windows: 1000, Maintenances: 20}},
		Finished: []FinishedSize{{Maintenances: 5000, Rollouts: 2000}},
		Clusters: []ClustersSize{{Clusters: 200}},
		Pace:     true,
	}
}

// ParseSizes reads sizes as their String writes them.
func ParseSizes(texts []string) (Sizes, error) {
	var sizes Sizes
	bySuffix := map[string]func(string) error{
		policiesSuffix: reader(&sizes.Policies, ParsePolicySize),
		harborsSuffix:  reader(&sizes.Harbors, parseHarbors),
		windowsSuffix:  reader(&sizes.Windows, ParseWindowSize),
		finishedSuffix: reader(&sizes.Finished, ParseFinishedSize),
		queueSuffix:    reader(&sizes.Queues, ParseQueueSize),
		clustersSuffix: reader(&sizes.Clusters, ParseClustersSize),
	}
	for _, text := range texts {
		if text == paceSize {
			sizes.Pace = true
			continue
		}
		read, known := bySuffix[text[max(0, strings.LastIndexByte(text, '/')):]]
		if !known {
			read = reader(&sizes.Nodes, ParseSize)
		}
		if err := read(text); err != nil {
			return Sizes{}, err
		}
	}
	return sizes, nil
}

// reader returns a function that parses a size and adds it to the others of its kind.
func reader[S any](sizes *[]S, parse func(string) (S, error)) func(string) error {
	return func(text string) error {
		size, err := parse(text)
		*sizes = append(*sizes, size)
		return err
	}
}

// Strings are the sizes as ParseSizes reads them.
func (s Sizes) Strings() []string {
	var texts []string
	for _, size := range s.Nodes {
		texts = append(texts, size.String())
	}
	for _, size := range s.Policies {
		texts = append(texts, size.String())
	}
	for _, clusters := range s.Harbors {
		texts = append(texts, strconv.Itoa(clusters)+harborsSuffix)
	}
	for _, size := range s.Windows {
		texts = append(texts, size.String())
	}
	for _, size := range s.Finished {
		texts = append(texts, size.String())
	}
	for _, size := range s.Queues {
		texts = append(texts, size.String())
	}
	for _, size := range s.Clusters {
		texts = append(texts, size.String())
	}
	if s.Pace {
		texts = append(texts, paceSize)
	}
	return texts
}

// ParsePolicySize reads CLUSTERSxPOLICIES@ATONCE/policies or CLUSTERSxPOLICIES@ATONCE/postgresql/policies, such as "100x3@10/policies".
func ParsePolicySize(text string) (PolicySize, error) {
	rest, found := strings.CutSuffix(text, policiesSuffix)
	rest, onPostgreSQL := strings.CutSuffix(rest, "/"+optionPostgreSQL)
	rest, atOnce, _ := strings.Cut(rest, "@")
	clusters, policies, _ := strings.Cut(rest, "x")
	size := PolicySize{OnPostgreSQL: onPostgreSQL}
	for number, digits := range map[*int]string{&size.Clusters: clusters, &size.Policies: policies, &size.AtOnce: atOnce} {
		value, err := strconv.Atoi(digits)
		if err != nil || value < 1 || !found {
			return PolicySize{}, fmt.Errorf("size %q is not CLUSTERSxPOLICIES@ATONCE/policies, with /postgresql before /policies or not, e.g. 100x3@10/policies", text)
		}
		*number = value
	}
	return size, nil
}

// String is what ParsePolicySize reads.
func (s PolicySize) String() string {
	suffix := policiesSuffix
	if s.OnPostgreSQL {
		suffix = "/" + optionPostgreSQL + suffix
	}
	return fmt.Sprintf("%dx%d@%d%s", s.Clusters, s.Policies, s.AtOnce, suffix)
}

// title is the size in a table header, on two lines.
func (s PolicySize) title() string {
	title := counted(s.Clusters, "cluster") + " x " + several(s.Policies, "policy", "policies") + "\n" + fmt.Sprintf("%d at once", s.AtOnce)
	if s.OnPostgreSQL {
		title += "\nPostgreSQL"
	}
	return title
}
