package sweeper

import (
	"cmp"
	"context"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Look-ups of owners in Temporal, for each cluster. They limit what forged marks cost.
const (
	lookUpsAtOnce    = 1000
	lookUpsPerSecond = 100
)

// owners caches the states of the owners of marks.
type owners struct {
	server temporal.Executions
	// budget of look-ups.
	budget *rate.Limiter
	known  map[string]answer
}

type answer struct {
	chain temporal.Chain
	at    time.Time
}

func newOwners(server temporal.Executions, budget *rate.Limiter) *owners {
	return &owners{server: server, budget: budget, known: map[string]answer{}}
}

// states returns the states of the owners of marks. Of those that the budget leaves for later, it returns the last known state, or none.
func (o *owners) states(ctx context.Context, marks []Mark) (map[string]temporal.Chain, error) {
	trusted := trustedOwners(marks)
	for owner := range o.known {
		if _, marked := trusted[owner]; !marked {
			delete(o.known, owner)
		}
	}
	var due []string
	for owner := range trusted {
		if known, ok := o.known[owner]; !ok || time.Since(known.at) >= believed(known.chain.State) {
			due = append(due, owner)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(compareTrust(trusted, a, b), o.known[a].at.Compare(o.known[b].at), cmp.Compare(a, b))
	})
	if err := o.ask(ctx, due); err != nil {
		return nil, err
	}
	states := map[string]temporal.Chain{}
	for owner, known := range o.known {
		states[owner] = known.chain
	}
	return states, nil
}

// ask reads whether the workflows of owners are open, in their order, until the budget is spent.
func (o *owners) ask(ctx context.Context, due []string) error {
	answers := make([]answer, len(due))
	var requests errgroup.Group
	requests.SetLimit(activitykit.MaxParallelRequests)
	for i, owner := range due {
		if !o.budget.Allow() {
			break
		}
		requests.Go(func() (err error) {
			workflowID, firstRunID := kube.OwnerWorkflow(owner)
			answers[i].chain, err = temporal.DescribeChain(ctx, o.server, workflowID, firstRunID)
			answers[i].at = time.Now()
			return err
		})
	}
	err := requests.Wait()
	for i, owner := range due {
		if answers[i].chain.State != "" {
			o.known[owner] = answers[i]
		}
	}
	return err
}

// trustedOwners are the owners of marks. Those with a mark on a node or a lock request are true: such marks are harder to forge than Jobs.
func trustedOwners(marks []Mark) map[string]bool {
	trusted := map[string]bool{}
	for _, mark := range marks {
		trusted[mark.Owner] = trusted[mark.Owner] || mark.Kind != MarkJob
	}
	return trusted
}

// compareTrust sorts owners: the trusted ones first.
func compareTrust(trusted map[string]bool, a, b string) int {
	switch {
	case trusted[a] == trusted[b]:
		return 0
	case trusted[a]:
		return -1
	}
	return 1
}

// believed is how long an answer is valid. Closed is valid no longer than open, because a reset opens a workflow again.
func believed(state temporal.ChainState) time.Duration {
	if state == temporal.ChainUnknown {
		return askUnknownAfter
	}
	return askOpenAfter
}
