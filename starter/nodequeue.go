package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"golang.org/x/sync/errgroup"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/emergency"
	"drydock.dev/drydock/internal/observe"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
)

// queuesTimeout limits the queries of all schedulers together.
const queuesTimeout = 2 * observe.AnswerTimeout

// clusterQueue is the slot queue of a cluster as its scheduler reports it.
type clusterQueue struct {
	slots.SchedulerStatus
	// Trouble is why the queue is unknown.
	Trouble string `json:"trouble,omitempty"`
}

// schedulerOf names the scheduler of a cluster.
func schedulerOf(cluster string) subject {
	return subject{
		noun: "scheduler", name: "of cluster " + cluster, workflowID: temporal.MaintenanceSchedulerID(cluster),
		list: "drydock node list --cluster " + cluster,
	}
}

// queues queries the running schedulers: that of one cluster, or all if cluster is empty.
func (s *server) queues(ctx context.Context, cluster string, request temporal.StatusRequest) ([]clusterQueue, error) {
	query := observe.WorkflowsOf(temporal.MaintenanceScheduler, true)
	if cluster != "" {
		query += fmt.Sprintf(" AND WorkflowId = '%s'", quoted(temporal.MaintenanceSchedulerID(cluster)))
	}
	rows, err := s.list(ctx, query)
	if err != nil {
		return nil, err
	}
	queues := make([]clusterQueue, len(rows))
	ctx, cancel := context.WithTimeout(ctx, queuesTimeout)
	defer cancel()
	var group errgroup.Group
	group.SetLimit(parallelQueries)
	for i, row := range rows {
		group.Go(func() error {
			queues[i] = s.queue(ctx, strings.TrimPrefix(row.WorkflowID, temporal.MaintenanceSchedulerID("")), request)
			return nil
		})
	}
	_ = group.Wait() // errors are in Trouble
	return queues, nil
}

// queue gets the queue of a cluster; without a limit all of it, in several queries if it is long.
func (s *server) queue(ctx context.Context, cluster string, request temporal.StatusRequest) clusterQueue {
	q := clusterQueue{SchedulerStatus: slots.SchedulerStatus{Queue: []scheduling.QueueEntry{}}}
	for all := request.Limit == 0; ; {
		var part slots.SchedulerStatus
		if err := s.query(ctx, schedulerOf(cluster), "", &part, request); err != nil {
			q = clusterQueue{SchedulerStatus: slots.SchedulerStatus{Queue: []scheduling.QueueEntry{}}, Trouble: err.Error()}
			break
		}
		part.Queue = withoutRepeats(append(q.Queue, part.Queue...)) // the scheduler may have decided between two queries
		q.SchedulerStatus = part
		if request.Cursor = part.NextCursor; request.Cursor == "" || !all {
			break
		}
	}
	q.Cluster = cluster
	return q
}

// queuesText shows for each cluster the slots in use and the waiting requests in order of rank.
// withoutRepeats returns the first entry of each request: one that got a slot is listed before those that wait.
func withoutRepeats(entries []scheduling.QueueEntry) []scheduling.QueueEntry {
	type request struct {
		scheduling.Request
		owner scheduling.SlotOwner
	}
	seen := map[request]bool{}
	return slices.DeleteFunc(entries, func(entry scheduling.QueueEntry) bool {
		of := request{entry.Request, entry.Owner}
		repeated := seen[of]
		seen[of] = true
		return repeated
	})
}

func queuesText(queues []clusterQueue, now time.Time, style frameStyle) string {
	var w strings.Builder
	t := style.newTable("CLUSTER", "RANK", "NODE", "REQUEST", "REQUESTOR", "SINCE", "WAITS FOR")
	for _, q := range queues {
		switch {
		case q.Trouble != "":
			fmt.Fprintf(&w, "the slot queue of cluster %s is unknown: %s\n", q.Cluster, q.Trouble)
		case q.Wait != nil && len(q.Queue) > 0:
			fmt.Fprintf(&w, "nothing is granted in cluster %s: %s\n", q.Cluster, reasonFor(q.Wait.Reason, q.Wait.Message, nil, now))
		}
		for _, place := range q.Queue {
			rank, reason := "slot", ""
			if place.Rank > 0 {
				rank, reason = fmt.Sprint(place.Rank), reasonFor(string(place.Reason), place.Message, nil, now)
			}
			t.AppendRow(table.Row{
				q.Cluster, rank, place.Node, place.Namespace + "/" + place.Name, place.Requestor, age(now, place.Since) + " ago", reason,
			})
		}
	}
	if t.Length() > 0 {
		fmt.Fprintln(&w, t.Render())
	}
	return w.String()
}

// queuePosition is the position of a maintenance among the requests that wait for a slot.
type queuePosition struct {
	// Rank counts from 1; Of is the number of waiting requests.
	Rank int `json:"rank"`
	Of   int `json:"of"`
	// Wait is why it has no slot now. The maintenance itself learns only of a new reason, not of each new message.
	drydockv1.Wait
}

// queuePosition gets the position of a maintenance from its cluster's scheduler; nil if it does not wait for a slot there, or if the
// scheduler does not answer.
func (s *server) queuePosition(ctx context.Context, of maintenanceRef) *queuePosition {
	return s.queue(ctx, of.Cluster, temporal.StatusRequest{Filter: of.WorkflowID}).positionOf(of)
}

func (q clusterQueue) positionOf(of maintenanceRef) *queuePosition {
	i := slices.IndexFunc(q.Queue, func(place scheduling.QueueEntry) bool {
		return place.Rank > 0 && place.Owner.WorkflowID == of.WorkflowID && place.Name == of.Name && place.Namespace == of.Namespace
	})
	if i < 0 {
		return nil
	}
	return new(q.positionAt(i))
}

// positionAt is the position of the i-th entry of the queue, which waits.
func (q clusterQueue) positionAt(i int) queuePosition {
	place := q.Queue[i]
	return queuePosition{Rank: place.Rank, Of: q.Waiting, Wait: drydockv1.Wait{
		Reason: string(place.Reason), Message: place.Message, Since: metav1.NewTime(place.Since),
	}}
}

// queuedMaintenance is a maintenance that waits for a slot before its workflow starts, because a rollout requests the slot for it.
type queuedMaintenance struct {
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
	Requestor string `json:"requestor"`
	// WorkflowID is that of the rollout's workflow that requests the slot.
	WorkflowID string `json:"workflowID"`
	queuePosition
}

func (q queuedMaintenance) text(now time.Time) string {
	return fmt.Sprintf("maintenance %s/%s for %s waits: %s", q.Namespace, q.Name, q.Requestor, q.queuePosition.text(now))
}

// queuedFor returns the maintenances of a node that wait in the queue and have no workflow yet: none of known.
func (q clusterQueue) queuedFor(node string, known ...workflowRef) []queuedMaintenance {
	var queued []queuedMaintenance
	for i, place := range q.Queue {
		has := slices.ContainsFunc(known, func(of workflowRef) bool { return of.WorkflowID == place.Owner.WorkflowID })
		if place.Node == node && place.Rank > 0 && !has {
			queued = append(queued, queuedMaintenance{place.Namespace, place.Name, place.Requestor, place.Owner.WorkflowID, q.positionAt(i)})
		}
	}
	return queued
}

// with uses the maintenance's own message if it adds how to share the node.
func (p *queuePosition) with(own *drydockv1.Wait) *queuePosition {
	if p != nil && own != nil && strings.HasPrefix(own.Message, p.Message) {
		p.Message = own.Message
	}
	return p
}

// text is e.g. "NoSlot for 2m: maxParallelOperations allows 1 of 30 nodes under maintenance at once (n1); rank 3 of 7".
func (p queuePosition) text(now time.Time) string {
	return fmt.Sprintf("%s; rank %d of %d", reasonFor(p.Reason, p.Message, &p.Since, now), p.Rank, p.Of)
}

// examineSchedulers checks for each cluster whether maintenances can get slots.
func (s *server) examineSchedulers(ctx context.Context) []finding {
	const check = "schedulers"
	queues, err := s.queues(ctx, "", temporal.StatusRequest{Limit: 1})
	switch {
	case err != nil:
		return []finding{ill(check, "see the message", err)}
	case len(queues) == 0:
		return []finding{well(check, "none is running; the first maintenance of a cluster starts one")}
	}
	findings := make([]finding, 0, len(queues))
	for _, q := range queues {
		findings = append(findings, schedulerFinding(q))
	}
	return findings
}

// schedulerFinding is not OK if requests cannot get slots until a person acts. A hold is deliberate, so it is OK.
func schedulerFinding(q clusterQueue) finding {
	check := "scheduler " + q.Cluster
	if q.Trouble != "" {
		return ill(check, "start drydock-worker, or see the message", errors.New(q.Trouble))
	}
	said := fmt.Sprintf("%s under maintenance, %d waiting", plural(q.Slots, "node"), q.Waiting)
	if q.Wait == nil || q.Slots+q.Waiting == 0 || q.Wait.Reason == emergency.ReasonHeld {
		return well(check, said)
	}
	return finding{Check: check, Detail: fmt.Sprintf("%s; nothing is granted: %s: %s", said, q.Wait.Reason, q.Wait.Message), Fix: "see the message"}
}
