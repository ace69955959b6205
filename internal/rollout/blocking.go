package rollout

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/types"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
)

// Blocking is the result of a check of the rollouts that must succeed before a rollout starts.
type Blocking struct {
	// Missing do not exist. Incomplete exist, but have not succeeded. Both are in the order of the spec.
	Missing    []types.NamespacedName
	Incomplete []types.NamespacedName
	// Cycle is a cycle of blockers, from the rollout back to itself; nil: there is none.
	Cycle []types.NamespacedName
	// OtherCycle is a cycle of blockers that does not include the rollout; nil: there is none.
	OtherCycle []types.NamespacedName
}

// Blockers are the rollouts that must have succeeded before a rollout starts.
func Blockers(cgu *ranv1.ClusterGroupUpgrade) []types.NamespacedName {
	var names []types.NamespacedName
	for _, blocker := range cgu.Spec.BlockingCRs {
		names = append(names, types.NamespacedName{Namespace: blocker.Namespace, Name: blocker.Name})
	}
	return names
}

// GatherBlockers reads the blockers of a rollout and, recursively, their blockers. get returns nil for a rollout that does not exist.
func GatherBlockers(cgu *ranv1.ClusterGroupUpgrade, get func(types.NamespacedName) (*ranv1.ClusterGroupUpgrade, error)) (map[types.NamespacedName]*ranv1.ClusterGroupUpgrade, error) {
	known := map[types.NamespacedName]*ranv1.ClusterGroupUpgrade{}
	for queue := Blockers(cgu); len(queue) > 0; queue = queue[1:] {
		if _, visited := known[queue[0]]; visited {
			continue
		}
		found, err := get(queue[0])
		if err != nil {
			return nil, err
		}
		known[queue[0]] = found
		if found != nil && !Ended(found) {
			queue = slices.Concat(queue, Blockers(found))
		}
	}
	return known, nil
}

// withCycle adds a cycle of blockers to a verdict.
func (v verdict) withCycle(cgu *ranv1.ClusterGroupUpgrade, known map[types.NamespacedName]*ranv1.ClusterGroupUpgrade) verdict {
	blocking := Blocked(cgu, known)
	switch {
	case blocking.Cycle == nil:
	case v.good:
		v.good, v.reason, v.message = false, ranv1.ReasonUnresolvableDependency, blocking.CycleMessage()
	default:
		v.message += "; " + blocking.CycleMessage()
	}
	return v
}

// Blocked returns what blocks a rollout. known are the existing rollouts from GatherBlockers. A rollout that has ended waits for none.
func Blocked(cgu *ranv1.ClusterGroupUpgrade, known map[types.NamespacedName]*ranv1.ClusterGroupUpgrade) Blocking {
	var b Blocking
	unblocks := Succeeded
	if startsAfterAnyEnd(cgu) {
		unblocks = Ended
	}
	for _, name := range Blockers(cgu) {
		switch blocker := known[name]; {
		case slices.Contains(b.Missing, name), slices.Contains(b.Incomplete, name):
		case blocker == nil:
			b.Missing = append(b.Missing, name)
		case !unblocks(blocker):
			b.Incomplete = append(b.Incomplete, name)
		}
	}
	self := types.NamespacedName{Namespace: cgu.Namespace, Name: cgu.Name}
	b.Cycle = pathTo(self, Blockers(cgu), known, map[types.NamespacedName]bool{})
	if b.Cycle != nil {
		b.Cycle = append([]types.NamespacedName{self}, b.Cycle...)
		return b
	}
	b.OtherCycle = cycleAmong(Blockers(cgu), known)
	return b
}

// startsAfterAnyEnd reports whether the blockers of a rollout need only have ended.
func startsAfterAnyEnd(cgu *ranv1.ClusterGroupUpgrade) bool {
	return cgu.Annotations[ranv1.AnnotationBlockingMode] == ranv1.BlockingPartial
}

// Succeeded reports whether a rollout has ended, and all its clusters are complete.
func Succeeded(cgu *ranv1.ClusterGroupUpgrade) bool {
	return meta.IsStatusConditionTrue(cgu.Status.Conditions, ranv1.ConditionSucceeded)
}

// Ended reports whether a rollout has ended, with any result.
func Ended(cgu *ranv1.ClusterGroupUpgrade) bool {
	return meta.FindStatusCondition(cgu.Status.Conditions, ranv1.ConditionSucceeded) != nil
}

// pathTo finds a path from blockers to a rollout; nil: there is none.
func pathTo(end types.NamespacedName, from []types.NamespacedName, known map[types.NamespacedName]*ranv1.ClusterGroupUpgrade, seen map[types.NamespacedName]bool) []types.NamespacedName {
	for _, name := range from {
		if name == end {
			return []types.NamespacedName{name}
		}
		next := known[name]
		if seen[name] || next == nil || Ended(next) {
			continue
		}
		seen[name] = true
		if path := pathTo(end, Blockers(next), known, seen); path != nil {
			return append([]types.NamespacedName{name}, path...)
		}
	}
	return nil
}

// cycleAmong finds a cycle among the blockers and, recursively, their blockers; nil: there is none. A started rollout waits for no other.
func cycleAmong(waitedFor []types.NamespacedName, known map[types.NamespacedName]*ranv1.ClusterGroupUpgrade) []types.NamespacedName {
	seen := map[types.NamespacedName]bool{}
	for queue := waitedFor; len(queue) > 0; queue = queue[1:] {
		name := queue[0]
		next := known[name]
		if seen[name] || next == nil || Ended(next) {
			continue
		}
		seen[name] = true
		path := pathTo(name, Blockers(next), known, map[types.NamespacedName]bool{})
		if path != nil && !slices.ContainsFunc(path, func(n types.NamespacedName) bool { return known[n].Status.Status.StartedAt != nil }) {
			return append([]types.NamespacedName{name}, path...)
		}
		queue = slices.Concat(queue, Blockers(next))
	}
	return nil
}

// CycleMessage names the rollouts that wait for each other.
func (b Blocking) CycleMessage() string {
	return "spec.blockingCRs: " + describeCycle(b.Cycle) + "; take one out"
}

func describeCycle(cycle []types.NamespacedName) string {
	var names []string
	for _, name := range cycle {
		names = append(names, name.String())
	}
	return "these rollouts wait for each other: " + strings.Join(names, " -> ")
}

// Wait is the wait for blockers, in the words of TALM; nil: nothing blocks the rollout.
func (b Blocking) Wait() *drydockv1.Wait {
	wait, cycle := b.wait(), b.Cycle
	if cycle == nil {
		cycle = b.OtherCycle
	}
	if wait != nil && cycle != nil {
		wait.Message += "; that never ends: " + describeCycle(cycle) + "; take one out of the blockingCRs of another"
	}
	return wait
}

func (b Blocking) wait() *drydockv1.Wait {
	switch {
	case len(b.Missing) > 0:
		return &drydockv1.Wait{
			Reason: ranv1.ReasonMissingBlockingCR, Blockers: append(blockersOf(b.Missing, "Missing"), blockersOf(b.Incomplete, "Incomplete")...),
			Message: fmt.Sprintf("Missing blocking CRs: %s; waiting for %s", shortNames(b.Missing), fullNames(slices.Concat(b.Missing, b.Incomplete))),
		}
	case len(b.Incomplete) > 0:
		return &drydockv1.Wait{
			Reason: ranv1.ReasonIncompleteBlockingCR, Blockers: blockersOf(b.Incomplete, "Incomplete"),
			Message: fmt.Sprintf("Blocking CRs that are not completed: %s; waiting for %s", shortNames(b.Incomplete), fullNames(b.Incomplete)),
		}
	}
	return nil
}

func blockersOf(names []types.NamespacedName, reason string) []drydockv1.Blocker {
	var blockers []drydockv1.Blocker
	for _, name := range names {
		blockers = append(blockers, drydockv1.Blocker{Kind: "ClusterGroupUpgrade", Namespace: name.Namespace, Name: name.Name, Reason: reason})
	}
	return blockers
}

func shortNames(names []types.NamespacedName) []string {
	var short []string
	for _, name := range names {
		short = append(short, name.Name)
	}
	return short
}

func fullNames(names []types.NamespacedName) string {
	var full []string
	for _, name := range names {
		full = append(full, name.String())
	}
	return strings.Join(full, ", ")
}
