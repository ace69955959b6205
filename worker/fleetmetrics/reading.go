package fleetmetrics

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/api/serviceerror"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/slots"
	"drydock.dev/drydock/workflows/sweeper"
)

// The metrics. Labels have no names of nodes or pods, and those of clusters only while they have work, so that their number stays small.
var (
	rolloutsByState     = described("drydock_rollouts", "Rollouts by state: those that run, and those that have ended within the last hour.", "state")
	maintenancesByState = described("drydock_maintenances", "Maintenances of nodes by state: those that run, and those that have ended within the last hour.", "state")
	waits               = described("drydock_waits", "Rollouts (with the gravest reason of their clusters) and maintenances that wait. blocked: a person or another program must act.", "kind", "reason", "blocked")
	oldestWait          = described("drydock_wait_oldest_timestamp_seconds", "When the oldest of these waits began.", "kind", "reason", "blocked")
	batchStart          = described("drydock_rollout_batch_start_timestamp_seconds", "When the current batch of a rollout started.", "rollout")
	rolloutDeadline     = described("drydock_rollout_deadline_timestamp_seconds", "When a rollout times out. Absent while it is paused or held.", "rollout")
	slotsByState        = described("drydock_slots", "Nodes under maintenance (used), further ones that the budgets allow (free), and requests in the queue (waiting), of clusters with work.", "cluster", "state")
	mayBecomeUnready    = described("drydock_nodes_can_become_unavailable", "Further nodes that may become unavailable. Absent without such a limit.", "cluster")
	windowEnd           = described("drydock_window_end_timestamp_seconds", "When an open maintenance window closes. Absent while it is closed.", "window")
	findings            = described("drydock_sweeper_findings", "What sweepers have found and not settled, by state. The cluster of the hub's own sweeper is empty.", "cluster", "state")
	unanswered          = described("drydock_workflows_unanswered", "Workflows that have not answered the last query.")
	readable            = described("drydock_fleet_readable", "Whether Temporal has answered the last reading of the fleet. The other metrics of the fleet are absent otherwise.")

	descriptions = []*prometheus.Desc{
		rolloutsByState, maintenancesByState, waits, oldestWait, batchStart, rolloutDeadline, slotsByState, mayBecomeUnready, windowEnd, findings, unanswered, readable,
	}
)

func described(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

func gauge(description *prometheus.Desc, value float64, labels ...string) prometheus.Metric {
	return prometheus.MustNewConstMetric(description, prometheus.GaugeValue, value, labels...)
}

const (
	// listed limits the workflows of a type.
	listed = 2000
	// atOnce limits concurrent queries.
	atOnce = 8
	// endedFor is how long an ended piece of work counts.
	endedFor = time.Hour
)

// waiting is a wait of one run of a maintenance.
type waiting struct{ run, reason string }

// wait is a group of waits.
type wait struct {
	kind, reason string
	blocked      bool
}

// reading reads the fleet once.
type reading struct {
	server Server
	now    time.Time
	// since has the known starts of waits, and waiting those that last.
	since, waiting map[waiting]time.Time

	mu         sync.Mutex
	metrics    []prometheus.Metric
	count      map[wait]int
	oldest     map[wait]time.Time
	unanswered int
	// queries are made after all lists, which they would hold up.
	queries []func(context.Context) error
}

// all reads everything: first lists, and then queries, each within a limit. It fails if Temporal cannot list workflows. Workflows that are not queried in time
// are left out.
func (r *reading) all(ctx context.Context, limit time.Duration) error {
	r.waiting, r.count, r.oldest = map[waiting]time.Time{}, map[wait]int{}, map[wait]time.Time{}
	listing, listed := context.WithTimeout(ctx, limit)
	defer listed()
	clusters := map[string]bool{}
	err := errors.Join(r.rollouts(listing), r.maintenances(listing, clusters), r.clusters(listing, clusters), r.windows(listing), r.sweepers(listing))
	if err != nil {
		return err
	}
	for cluster := range clusters {
		r.scheduler(cluster)
	}
	querying, queried := context.WithTimeout(ctx, limit)
	defer queried()
	var group errgroup.Group
	group.SetLimit(atOnce)
	for _, query := range r.queries {
		group.Go(func() error { return query(querying) })
	}
	_ = group.Wait() // queries count their failures
	for of, count := range r.count {
		labels := []string{of.kind, of.reason, fmt.Sprint(of.blocked)}
		r.add(waits, float64(count), labels...)
		r.addTime(oldestWait, r.oldest[of], labels...)
	}
	r.add(unanswered, float64(r.unanswered))
	return nil
}

func (r *reading) rollouts(ctx context.Context) error {
	rows, err := r.work(ctx, temporal.ClusterGroupUpgrade)
	r.states(rolloutsByState, rows)
	for _, row := range running(rows) {
		query(r, row.WorkflowID, func(status ranv1.ClusterGroupUpgradeStatus) {
			name := row.Namespace + "/" + row.Name
			r.addTime(batchStart, timeOf(status.Status.CurrentBatchStartedAt), name)
			r.addTime(rolloutDeadline, timeOf(status.Status.Deadline), name)
			if deepest := rollout.DeepestWait(&status); deepest != nil {
				r.waits("rollout", deepest)
			}
		}, temporal.StatusRequest{Limit: 250})
	}
	return err
}

func (r *reading) maintenances(ctx context.Context, clusters map[string]bool) error {
	rows, err := r.work(ctx, temporal.NodeMaintenance)
	r.states(maintenancesByState, rows)
	for _, row := range running(rows) {
		clusters[row.Cluster] = true
		key := waiting{row.RunID, row.Reason}
		if since, known := r.since[key]; known {
			r.waitsSince(key, since)
		} else if row.Reason != "" {
			query(r, row.WorkflowID, func(status maintenancev1.NodeMaintenanceStatus) {
				if status.Wait != nil {
					r.waitsSince(waiting{row.RunID, status.Wait.Reason}, status.Wait.Since.Time)
				}
			})
		}
	}
	return err
}

// waitsSince counts the wait of a maintenance, and remembers when it began.
func (r *reading) waitsSince(of waiting, since time.Time) {
	r.mu.Lock()
	r.waiting[of] = since
	r.mu.Unlock()
	w := drydockv1.Wait{Reason: of.reason}
	w.Since.Time = since
	r.waits("maintenance", &w)
}

func (r *reading) waits(kind string, w *drydockv1.Wait) {
	reason, _, _ := strings.Cut(w.Reason, "/") // the reason of a budget has its name
	of := wait{kind, reason, rollout.Blocks(w, r.now)}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.count[of]++
	if oldest := r.oldest[of]; oldest.IsZero() || w.Since.Time.Before(oldest) {
		r.oldest[of] = w.Since.Time
	}
}

// clusters adds the clusters of running rollouts.
func (r *reading) clusters(ctx context.Context, clusters map[string]bool) error {
	rows, err := r.rows(ctx, observe.WorkflowsOf(temporal.ClusterUpgrade, true))
	for _, row := range rows {
		clusters[row.Cluster] = true
	}
	return err
}

func (r *reading) scheduler(cluster string) {
	query(r, temporal.MaintenanceSchedulerID(cluster), func(status slots.SchedulerStatus) {
		r.add(slotsByState, float64(status.Slots), cluster, "used")
		r.add(slotsByState, float64(status.Waiting), cluster, "waiting")
		if status.Watching && status.Wait == nil { // otherwise the budgets are not known
			r.add(slotsByState, float64(status.AvailableSlots), cluster, "free")
			if status.CanBecomeUnavailable != nil {
				r.add(mayBecomeUnready, float64(*status.CanBecomeUnavailable), cluster)
			}
		}
	}, temporal.StatusRequest{Limit: 1})
}

func (r *reading) windows(ctx context.Context) error {
	rows, err := r.rows(ctx, observe.WorkflowsOf(temporal.MaintenanceWindow, true))
	for _, row := range rows {
		query(r, row.WorkflowID, func(status windows.Status) {
			if opening := status.At(r.now).Opening; opening != nil {
				r.addTime(windowEnd, opening.End, row.Namespace+"/"+row.Name)
			}
		})
	}
	return err
}

// sweepers reads the sweepers of clusters that have marks.
func (r *reading) sweepers(ctx context.Context) error {
	rows, err := r.rows(ctx, observe.WorkflowsOf(temporal.Sweeper, true))
	for _, row := range rows {
		if row.Phase == string(sweeper.Resting) {
			continue
		}
		query(r, row.WorkflowID, func(status sweeper.Status) {
			count := map[sweeper.FindingState]int{sweeper.FindingInProgress: 0, sweeper.FindingFailed: 0, sweeper.FindingUnknownOwner: status.MoreUnknownOwners}
			for _, finding := range status.Findings {
				if !finding.State.Settled() {
					count[finding.State]++
				}
			}
			for state, number := range count {
				r.add(findings, float64(number), status.Cluster, string(state))
			}
		})
	}
	return err
}

// work returns the newest run of each workflow that runs, or has ended a short time ago.
func (r *reading) work(ctx context.Context, workflow string) ([]observe.Row, error) {
	rows, err := r.rows(ctx, observe.WorkflowsOf(workflow, true))
	if err != nil {
		return nil, err
	}
	ended, err := r.rows(ctx, fmt.Sprintf("%s AND CloseTime > '%s' AND ExecutionStatus != 'ContinuedAsNew'",
		observe.WorkflowsOf(workflow, false), r.now.Add(-endedFor).UTC().Format(time.RFC3339)))
	seen := map[string]bool{}
	for _, row := range rows {
		seen[row.WorkflowID] = true
	}
	for _, row := range ended {
		if !seen[row.WorkflowID] {
			seen[row.WorkflowID] = true
			rows = append(rows, row)
		}
	}
	return rows, err
}

// rows returns the newest run that a query finds of each workflow. Visibility may list a run as running beside the one that it continued as.
func (r *reading) rows(ctx context.Context, query string) ([]observe.Row, error) {
	executions, err := observe.Executions(ctx, r.server, query, listed)
	rows, seen := make([]observe.Row, 0, len(executions)), map[string]bool{}
	for _, execution := range executions {
		if row := observe.NewRow(execution); !seen[row.WorkflowID] {
			seen[row.WorkflowID] = true
			rows = append(rows, row)
		}
	}
	return rows, err
}

func running(rows []observe.Row) (found []observe.Row) {
	for _, row := range rows {
		if row.CompletedAt == nil {
			found = append(found, row)
		}
	}
	return found
}

// states counts work by state. That of terminated work is not the one it has recorded.
func (r *reading) states(description *prometheus.Desc, rows []observe.Row) {
	count := map[string]int{}
	for _, row := range rows {
		state := row.Phase
		if observe.Cut(row.Execution) {
			state = row.Execution
		}
		count[state]++
	}
	for state, number := range count {
		r.add(description, float64(number), state)
	}
}

// query queries the status of a workflow after the lists, at the same time as others.
func query[S any](r *reading, workflowID string, answered func(S), args ...any) {
	r.queries = append(r.queries, func(ctx context.Context) error {
		var status S
		err := observe.Status(ctx, r.server, workflowID, "", &status, args...)
		if _, gone := errors.AsType[*serviceerror.NotFound](err); gone {
			return nil
		}
		if ctx.Err() != nil {
			return nil // the limit has passed
		}
		if err != nil {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.unanswered++
			return nil
		}
		answered(status)
		return nil
	})
}

func (r *reading) add(description *prometheus.Desc, value float64, labels ...string) {
	metric := gauge(description, value, labels...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.metrics = append(r.metrics, metric)
}

// addTime adds a time, unless it is zero.
func (r *reading) addTime(description *prometheus.Desc, at time.Time, labels ...string) {
	if !at.IsZero() {
		r.add(description, float64(at.UnixMilli())/1000, labels...)
	}
}

// timeOf is a time of a status; zero: it has none.
func timeOf(at *metav1.Time) time.Time {
	if at == nil {
		return time.Time{}
	}
	return at.Time
}
