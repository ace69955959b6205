package bench

import (
	"context"
	"fmt"
	"io"
	"time"
)

// method is a way to maintain all nodes.
type method interface {
	// String names the method.
	String() string
	// maintain maintains all nodes once, and returns how long that took. Rounds count from 0.
	maintain(ctx context.Context, round int) (time.Duration, error)
	// record reads what the rounds of the method took.
	record(ctx context.Context, rounds []round, result *Result) error
}

// round is a time in which one method has maintained all nodes, and in which the cluster became clean again.
type round struct {
	from, to time.Time
	// took is the wall time of the method, without that cleanup.
	took time.Duration
	// usages is what Drydock and Temporal have used.
	usages Usages
}

func (r round) has(at time.Time) bool { return !at.Before(r.from) && !at.After(r.to) }

// runMethods runs each method once in each round: what changes the speed of the machine then changes it for all of them. Each round begins with another
// method.
func (s *measurement) runMethods(ctx context.Context, methods []method, result *Result, progress io.Writer) error {
	rounds := make([][]round, len(methods))
	for number := range s.size.Rounds {
		for turn := range methods {
			i := (number + turn) % len(methods)
			method := methods[i]
			fmt.Fprintf(progress, "%s: round %d: %s\n", s.size, number+1, method)
			measured, err := s.run(ctx, method, number)
			if err != nil {
				return fmt.Errorf("%s, round %d: %w", method, number+1, err)
			}
			rounds[i] = append(rounds[i], measured)
		}
	}
	for i, method := range methods {
		if err := method.record(ctx, rounds[i], result); err != nil {
			return fmt.Errorf("%s: %w", method, err)
		}
	}
	if !s.size.Alone {
		result.Wall.compare(rounds[0], rounds[1])
	}
	return nil
}

// run runs one round of a method, and waits until the cluster is clean.
func (s *measurement) run(ctx context.Context, method method, number int) (r round, err error) {
	before, err := usagesOf(ctx, s.fleet, s.moreWorkers...)
	if err != nil {
		return round{}, err
	}
	r.from = time.Now()
	if r.took, err = method.maintain(ctx, number); err != nil {
		return round{}, err
	}
	if err := s.settle(ctx); err != nil {
		return round{}, err
	}
	r.to = time.Now()
	after, err := usagesOf(ctx, s.fleet, s.moreWorkers...)
	r.usages = after.since(before)
	return r, err
}

// compare compares the same rounds of both.
func (w *Walls) compare(drydock, loop []round) {
	for i := range drydock {
		w.Ratios = append(w.Ratios, drydock[i].took.Seconds()/loop[i].took.Seconds())
	}
	w.ToLoop = middle(w.Ratios)
}

// wallTime returns the median.
func wallTime(rounds []round) float64 {
	var took []time.Duration
	for _, round := range rounds {
		took = append(took, round.took)
	}
	return median(took)
}

// usagesIn returns the sum of all rounds, and the overall peaks of memory.
func usagesIn(rounds []round) (sum Usages) {
	for _, round := range rounds {
		sum = sum.plus(round.usages)
	}
	return sum
}
