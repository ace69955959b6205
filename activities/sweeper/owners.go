package sweeper

import (
	"context"
	"slices"
	"time"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// owners caches the states of the owners of marks.
type owners struct {
	server temporal.Executions
	known  map[string]answer
}

type answer struct {
	chain temporal.Chain
	at    time.Time
}

func newOwners(server temporal.Executions) *owners {
	return &owners{server: server, known: map[string]answer{}}
}

// forget drops the owners that have no mark.
func (o *owners) forget(marks []Mark) {
	for owner := range o.known {
		if !slices.ContainsFunc(marks, func(m Mark) bool { return m.Owner == owner }) {
			delete(o.known, owner)
		}
	}
}

// ask reads whether the workflow of an owner is open.
func (o *owners) ask(ctx context.Context, owner string) (temporal.Chain, error) {
	if known, ok := o.known[owner]; ok && time.Since(known.at) < believed(known.chain.State) {
		return known.chain, nil
	}
	workflowID, firstRunID := kube.OwnerWorkflow(owner)
	chain, err := temporal.DescribeChain(ctx, o.server, workflowID, firstRunID)
	if err == nil {
		o.known[owner] = answer{chain, time.Now()}
	}
	return chain, err
}

// believed is how long an answer is valid. Closed is valid no longer than open, because a reset opens a workflow again.
func believed(state temporal.ChainState) time.Duration {
	if state == temporal.ChainUnknown {
		return askUnknownAfter
	}
	return askOpenAfter
}
