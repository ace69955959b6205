package statuspage

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/temporal"
)

// Limits of what the view keeps: ended rollouts, ended maintenances, and clusters of a rollout, the most important first.
const (
	endedUpgrades = 20
	endedNodes    = 50
	shownClusters = 250
)

const (
	// maxQueries limits concurrent status queries.
	maxQueries = 8
	// listPause is the minimum time between two lists. relistDelay is the delay of a second list after a change, since visibility lags.
	listPause   = 500 * time.Millisecond
	relistDelay = 2 * time.Second
	// maxListInterval is the maximum time between two lists.
	maxListInterval = 30 * time.Second
	// retryPause is the first pause after a failure. The pause grows up to maxRetryPause, so that failing queries do not crowd out others.
	retryPause    = 2 * time.Second
	maxRetryPause = time.Minute
)

// Reader reads the view for all clients. It follows the portal and running workflows by long poll.
type Reader struct {
	temporal   client.Client
	portal     string
	log        *slog.Logger
	querySlots chan struct{}
	// newWork signals that there may be new workflows. recovered signals that Temporal answers again, so that any status may have changed.
	newWork, recovered chan struct{}
	// listed is closed after the first list.
	listed   chan struct{}
	once     sync.Once
	upgrades *kind[ranv1.ClusterGroupUpgradeStatus]
	nodes    *kind[maintenancev1.NodeMaintenanceStatus]

	// portalLock serialises reads of the portal, so that an older answer cannot replace a newer one.
	portalLock chan struct{}

	mu   sync.Mutex
	view *View
	// listTrouble is why the last list failed; nil if it succeeded.
	listTrouble error
	// changed is closed when view is replaced.
	changed chan struct{}
}

// NewReader returns a reader of a portal and, unless portalOnly is set, of all rollouts and maintenances in the Temporal namespace.
func NewReader(server client.Client, portalName string, portalOnly bool, log *slog.Logger) *Reader {
	r := &Reader{
		temporal: server, portal: portalName, log: log,
		querySlots: make(chan struct{}, maxQueries), newWork: make(chan struct{}, 1), recovered: make(chan struct{}, 1), listed: make(chan struct{}),
		portalLock: make(chan struct{}, 1),
		view:       &View{Number: 1, PortalOnly: portalOnly, Trouble: &Trouble{Message: "Nothing has been read yet", Since: time.Now()}},
		changed:    make(chan struct{}),
	}
	r.upgrades = &kind[ranv1.ClusterGroupUpgradeStatus]{
		reader: r, workflow: temporal.ClusterGroupUpgrade, keep: endedUpgrades, startsOthers: true, works: map[string]Upgrade{},
		request: []any{temporal.StatusRequest{Limit: shownClusters}},
		show: func(v *View, all []Upgrade, more int) {
			v.Upgrades, v.MoreUpgrades = all, more
			v.revisions.upgrades++
		},
	}
	r.nodes = &kind[maintenancev1.NodeMaintenanceStatus]{
		reader: r, workflow: temporal.NodeMaintenance, keep: endedNodes, works: map[string]Node{},
		show: func(v *View, all []Node, more int) {
			v.Nodes, v.MoreNodes = all, more
			v.revisions.nodes++
		},
	}
	return r
}

// View returns the current view, and a channel that is closed when there is a newer one.
func (r *Reader) View() (*View, <-chan struct{}) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.view, r.changed
}

// Run reads until ctx is done.
func (r *Reader) Run(ctx context.Context) {
	var all sync.WaitGroup
	parts := []func(context.Context){r.checkPeriodically, r.followPortal}
	if view, _ := r.View(); view.PortalOnly {
		close(r.listed) // there is nothing to wait for
	} else {
		parts = append(parts, r.followHolds, r.discover)
	}
	for _, part := range parts {
		all.Go(func() { part(ctx) })
	}
	all.Wait()
}

// publish replaces the view by a changed copy, unless change reports that nothing has changed.
func (r *Reader) publish(change func(*View) bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	next := *r.view
	if !change(&next) {
		return
	}
	next.Number++
	r.view = &next
	close(r.changed)
	r.changed = make(chan struct{})
}

// signal sends a signal without blocking; one pending signal is enough.
func signal(about chan<- struct{}) {
	select {
	case about <- struct{}{}:
	default:
	}
}

// followHolds follows the emergency stop, and shows its holds. Every new rollout and maintenance subscribes to it.
func (r *Reader) followHolds(ctx context.Context) {
	show := func(holds []drydockv1.Hold) {
		r.publish(func(v *View) bool {
			changed := !slices.EqualFunc(v.Holds, holds, drydockv1.Hold.Same)
			v.Holds = holds
			return changed
		})
	}
	present := func(open bool) {
		if !open {
			show(nil)
		}
	}
	r.keepFollowing(ctx, temporal.EmergencyStopID, present, func(ctx context.Context) error {
		signal(r.newWork)
		var state emergency.State
		err := observe.Status(ctx, r.temporal, temporal.EmergencyStopID, "", &state)
		if err == nil {
			show(state.Holds)
		}
		return err
	})
}

// keepFollowing follows an entity workflow across restarts, and reports whether it exists.
func (r *Reader) keepFollowing(ctx context.Context, id string, present func(bool), read func(context.Context) error) {
	for {
		if err := r.followEntity(ctx, id, present, read); err != nil && ctx.Err() == nil {
			r.log.Debug("cannot follow", "workflow", id, "error", err)
		}
		if observe.Pause(ctx, retryPause) != nil {
			return
		}
	}
}

func (r *Reader) followEntity(ctx context.Context, id string, present func(bool), read func(context.Context) error) error {
	open, err := temporal.Open(ctx, r.temporal, id)
	if err != nil {
		return err
	}
	if present(open); !open {
		return nil
	}
	execution, err := r.temporal.DescribeWorkflow(ctx, id, "")
	if err != nil {
		return err
	}
	follower := observe.Follower{Server: r.temporal, WorkflowID: id, Read: func(ctx context.Context, _ string) error { return read(ctx) }}
	return follower.Follow(ctx, execution.WorkflowExecution.RunID)
}

// discover lists workflows on a signal and at intervals, and follows new ones. After an outage it also reads the status of followed ones again.
func (r *Reader) discover(ctx context.Context) {
	defer r.nodes.wait()
	defer r.upgrades.wait()
	next := r.listAll(ctx)
	for observe.Pause(ctx, listPause) == nil {
		due := time.NewTimer(next)
		select {
		case <-ctx.Done():
			return
		case <-r.recovered:
			r.upgrades.refresh(ctx)
			r.nodes.refresh(ctx)
			next = r.listAll(ctx)
		case <-r.newWork:
			r.listAll(ctx)
			next = relistDelay
		case <-due.C:
			next = r.listAll(ctx)
		}
		due.Stop()
	}
}

// listAll lists all workflows, follows running ones, and returns when to list again.
func (r *Reader) listAll(ctx context.Context) time.Duration {
	err := errors.Join(r.upgrades.list(ctx), r.nodes.list(ctx))
	if ctx.Err() != nil {
		return maxListInterval
	}
	r.mu.Lock()
	before := r.listTrouble
	r.listTrouble = err
	r.mu.Unlock()
	r.once.Do(func() { close(r.listed) })
	if err == nil {
		return maxListInterval
	}
	if before == nil {
		r.log.Warn("cannot list workflows", "error", err)
	}
	return relistDelay
}
