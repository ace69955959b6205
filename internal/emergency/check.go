package emergency

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
)

const (
	// maxHolds limits the scopes that are held at the same time: each change goes to every rollout.
	maxHolds = 200
	// maxText is the longest name or reason, in bytes.
	maxText = 1000
)

// CheckHold returns the problems of a request to hold, or nil. The error names every invalid field.
func (s State) CheckHold(r Request) error {
	problems := check(r)
	if after, _ := s.Hold(r, time.Time{}); len(problems) == 0 && len(after.Holds) > maxHolds {
		problems = append(problems, fmt.Errorf("clusters: %d would be held by name, more than %d: hold all instead", len(after.Holds), maxHolds))
	}
	return joined(problems)
}

// CheckRelease returns the problems of a request to release, or nil. Releasing a scope that is not held is an error.
func (s State) CheckRelease(r Request) error {
	problems := check(r)
	if len(problems) > 0 {
		return joined(problems)
	}
	if r.All && s.All() == nil {
		problems = append(problems, errors.New("all: not every cluster is held; "+s.instead()))
	}
	for i, cluster := range r.Clusters {
		if s.find(drydockv1.HoldCluster(cluster)) == nil {
			problems = append(problems, fmt.Errorf("clusters[%d]: %s is not held by its name; %s", i, cluster, s.instead()))
		}
	}
	return joined(problems)
}

// instead lists the scopes that could be released.
func (s State) instead() string {
	if len(s.Holds) == 0 {
		return "nothing is held"
	}
	var commands []string
	for i, hold := range s.Holds {
		if i == 3 {
			commands = append(commands, fmt.Sprintf("%d more", len(s.Holds)-i))
			break
		}
		commands = append(commands, fmt.Sprintf("%s (`%s`)", hold.Scope, ReleaseCommand(hold.Scope)))
	}
	return "held is " + strings.Join(commands, ", ")
}

// Check returns the problems of a request, regardless of the holds, or nil.
func (r Request) Check() error { return joined(check(r)) }

// check returns the problems of a request, regardless of the holds.
func check(r Request) []error {
	var problems []error
	switch {
	case len(r.Clusters) == 0 && !r.All:
		problems = append(problems, errors.New("clusters: name at least one, or set all"))
	case len(r.Clusters) > 0 && r.All:
		problems = append(problems, errors.New("all: clusters are named as well; set one of the two"))
	}
	for i, cluster := range r.Clusters {
		switch {
		case cluster == "" || strings.TrimSpace(cluster) != cluster || len(cluster) > maxText:
			problems = append(problems, fmt.Errorf("clusters[%d]: %q is not a name of a cluster", i, cluster))
		case slices.Contains(r.Clusters[:i], cluster):
			problems = append(problems, fmt.Errorf("clusters[%d]: %s is named twice", i, cluster))
		}
	}
	if len(r.Reason) > maxText {
		problems = append(problems, fmt.Errorf("reason: has %d bytes, more than %d", len(r.Reason), maxText))
	}
	return problems
}

// joined joins errors into one line; nil without problems.
func joined(problems []error) error {
	if len(problems) == 0 {
		return nil
	}
	var texts []string
	for _, problem := range problems {
		texts = append(texts, problem.Error())
	}
	return errors.New(strings.Join(texts, "; "))
}
