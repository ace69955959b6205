package sweeper

import (
	"cmp"
	"context"
	"slices"
	"time"

	workflowpb "go.temporal.io/api/workflow/v1"
	"golang.org/x/sync/errgroup"
	"golang.org/x/time/rate"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/scheduler"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// Look-ups of owners in Temporal, for each cluster. They limit what forged marks cost.
const (
	lookUpsAtOnce    = 1000
	lookUpsPerSecond = 100
	// lookUpsPerResult limits the owners of one result, because each may have a kilobyte.
	lookUpsPerResult = 100
	// From manyOpen owners on, a list of the running maintenances says which are open. It may be wrong, so each is looked up at least every lookUpOpenAfter.
	manyOpen        = 50
	lookUpOpenAfter = 10 * time.Minute
)

// owners caches the states of the owners of marks.
type owners struct {
	// server is nil if another worker must look them up: lookUp are those.
	server temporal.Executions
	lookUp []string
	// budget of look-ups.
	budget *rate.Limiter
	known  map[string]answer
	// lister lists the running maintenances of the cluster, last at listedAt; nil: they are not listed.
	lister   activitykit.Lister
	cluster  string
	listedAt time.Time
}

// OwnerAnswer is the state of the workflow of an owner.
type OwnerAnswer struct {
	Owner string              `json:"owner"`
	State temporal.ChainState `json:"state"`
	Ended string              `json:"ended,omitempty"`
	// At is when it was looked up.
	At time.Time `json:"at"`
}

// LookUpOwnersInput names the cluster whose marks have the owners.
type LookUpOwnersInput struct {
	Cluster string   `json:"cluster"`
	Owners  []string `json:"owners,omitempty"`
}

// LookUpOwners reads whether the workflows of owners are open, and starts the scheduler of the cluster if it was terminated, for a worker that has no access to
// Temporal. It looks up only workflows of that cluster: such a worker is told nothing about others.
func (s *Activities) LookUpOwners(ctx context.Context, in LookUpOwnersInput) ([]OwnerAnswer, error) {
	lookUp := newOwners(ctx, s.Temporal, s.budget(in.Cluster), nil)
	at := temporal.Now(ctx)
	var own []string
	for _, owner := range in.Owners[:min(len(in.Owners), lookUpsPerResult)] {
		if clusterOf(owner) == in.Cluster {
			own = append(own, owner)
			continue
		}
		lookUp.known[owner] = answer{chain: temporal.Chain{State: temporal.ChainUnknown}}
	}
	if err := lookUp.ask(ctx, own); err != nil {
		return nil, err
	}
	answers := []OwnerAnswer{}
	for owner, known := range lookUp.known {
		answers = append(answers, OwnerAnswer{Owner: owner, State: known.chain.State, Ended: known.chain.Ended, At: at})
	}
	slices.SortFunc(answers, func(a, b OwnerAnswer) int { return cmp.Compare(a.Owner, b.Owner) })
	return answers, scheduler.ReviveScheduler(ctx, s.Temporal, in.Cluster)
}

// clusterOf returns the cluster on which the workflow of an owner works.
func clusterOf(owner string) string {
	workflow, _ := kube.OwnerWorkflow(owner)
	if cluster, _, _, ok := temporal.ParseNodeMaintenanceID(workflow); ok {
		return cluster
	}
	_, _, cluster, _ := temporal.ParseClusterUpgradeID(workflow)
	return cluster
}

// executions returns the client for look-ups; nil: another worker looks up.
func (s *Activities) executions() temporal.Executions {
	if s.Temporal == nil {
		return nil
	}
	return s.Temporal
}

type answer struct {
	chain temporal.Chain
	// at is when the workflow was looked up or first listed, and listed when it was last in a list of running workflows.
	at, listed time.Time
}

// due reports whether the state of the workflow must be read again.
func (a answer) due() bool {
	if a.chain.State == temporal.ChainUnknown {
		return time.Since(a.at) >= askUnknownAfter
	}
	// Closed is valid no longer than open, because a reset opens a workflow again.
	return time.Since(a.at) >= askOpenAfter && (time.Since(a.listed) >= askOpenAfter || time.Since(a.at) >= lookUpOpenAfter)
}

// ownersOf returns the owners of the marks in a cluster. Only the maintenances of a cluster are listed, not the rollouts of the hub.
func (s *Activities) ownersOf(ctx context.Context, in AwaitOrphansInput) *owners {
	o := newOwners(ctx, s.executions(), s.budget(in.Cluster), in.Answers)
	if s.Temporal != nil && in.Cluster != "" {
		o.lister, o.cluster = s.Temporal, in.Cluster
	}
	return o
}

func newOwners(ctx context.Context, server temporal.Executions, budget *rate.Limiter, answers []OwnerAnswer) *owners {
	o := &owners{server: server, budget: budget, known: map[string]answer{}}
	for _, a := range answers {
		o.known[a.Owner] = answer{chain: temporal.Chain{State: a.State, Ended: a.Ended}, at: *activitykit.WorkerTime(ctx, &a.At)}
	}
	return o
}

// states returns the states of the owners of marks. Of those that the budget leaves for later, it returns the last known state, or none.
func (o *owners) states(ctx context.Context, marks []Mark) (map[string]temporal.Chain, error) {
	trusted := trustedOwners(marks)
	for owner := range o.known {
		if _, marked := trusted[owner]; !marked {
			delete(o.known, owner)
		}
	}
	o.list(ctx, trusted)
	var due []string
	for owner := range trusted {
		if known, ok := o.known[owner]; !ok || known.due() {
			due = append(due, owner)
		}
	}
	slices.SortFunc(due, func(a, b string) int {
		return cmp.Or(compareTrust(trusted, a, b), o.known[a].listed.Compare(o.known[b].listed), o.known[a].at.Compare(o.known[b].at), cmp.Compare(a, b))
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

// list notes which of many owners are in the list of running workflows, at most every askOpenAfter. The others are looked up: they are closed, are a later
// run of their chain, or the list does not have them yet.
func (o *owners) list(ctx context.Context, marked map[string]bool) {
	if o.lister == nil || len(marked) < manyOpen || time.Since(o.listedAt) < askOpenAfter {
		return
	}
	byRun, due := map[string]string{}, false
	for owner := range marked {
		known, looked := o.known[owner]
		if looked && known.chain.State != temporal.ChainOpen {
			continue
		}
		workflowID, firstRunID := kube.OwnerWorkflow(owner)
		byRun[workflowID+"/"+firstRunID] = owner
		due = due || !looked || known.due()
	}
	if !due || len(byRun) < manyOpen {
		return
	}
	o.listedAt = time.Now()
	query := "ExecutionStatus = 'Running' AND " + temporal.MaintenancesOf(o.cluster)
	err := activitykit.EachWorkflow(ctx, o.lister, query, func(execution *workflowpb.WorkflowExecutionInfo) {
		owner, found := byRun[execution.GetExecution().GetWorkflowId()+"/"+execution.GetExecution().GetRunId()]
		if !found {
			return
		}
		known, looked := o.known[owner]
		if !looked {
			known = answer{chain: temporal.Chain{State: temporal.ChainOpen}, at: o.listedAt}
		}
		known.listed = o.listedAt
		o.known[owner] = known
	})
	if err != nil && ctx.Err() == nil {
		activitykit.Logger(ctx, "cluster", o.cluster).Warn("Cannot list the running maintenances: each is looked up", "error", err)
	}
}

// ask reads whether the workflows of owners are open, in their order, until the budget is spent.
func (o *owners) ask(ctx context.Context, due []string) error {
	if o.server == nil {
		o.lookUp = due[:min(len(due), lookUpsPerResult)]
		return nil
	}
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
