package slots

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

// maxQueue limits the queue in a status: with all of a long one, the answer would be several megabytes.
const maxQueue = 1000

// SchedulerStatus is the status of a scheduler.
type SchedulerStatus struct {
	Cluster string `json:"cluster"`
	// Watching: the scheduler watches the nodes of the cluster. It does so while there are requests or slots.
	Watching bool `json:"watching"`
	// Wait is why the scheduler grants no slot; nil: it grants slots within the budgets.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// AvailableSlots is the number of further nodes that may be under maintenance. CanBecomeUnavailable is the number of further nodes that may become
	// unavailable; nil: no limit.
	AvailableSlots       int  `json:"availableSlots"`
	CanBecomeUnavailable *int `json:"canBecomeUnavailable"`
	// Slots and Waiting are the numbers of granted slots and of waiting requests.
	Slots   int `json:"slots"`
	Waiting int `json:"waiting"`
	// Queue lists the granted slots, then the waiting requests in order of rank.
	Queue []scheduling.QueueEntry `json:"queue"`
	// NextCursor, in a status that was requested in part, is where the next part begins.
	NextCursor string      `json:"nextCursor,omitempty"`
	StartedAt  metav1.Time `json:"startedAt"`
}

// status returns the status with a part of the queue. A filter keeps the requests for the node, or of the owner, of that name.
func (s *maintenanceScheduler) status(ctx workflow.Context, request temporal.StatusRequest) (SchedulerStatus, error) {
	free, outages := s.decided.Remaining()
	status := SchedulerStatus{
		Cluster: s.in.Cluster, Watching: s.stopWatching != nil, Wait: s.slots.Standstill(s.blocked()),
		AvailableSlots: free, CanBecomeUnavailable: outages, StartedAt: metav1.NewTime(s.startedAt),
	}
	queue := s.slots.Queue(workflow.Now(ctx), s.blocked())
	for _, entry := range queue {
		if entry.Rank == 0 {
			status.Slots++
		} else {
			status.Waiting++
		}
	}
	if request.Filter != "" {
		queue = slices.DeleteFunc(queue, func(entry scheduling.QueueEntry) bool {
			return entry.Node != request.Filter && entry.Owner.WorkflowID != request.Filter
		})
	}
	from := 0
	if request.Cursor != "" {
		var err error
		if from, err = strconv.Atoi(request.Cursor); err != nil || from < 0 {
			return SchedulerStatus{}, fmt.Errorf("cursor %q: use the nextCursor of the status before", request.Cursor)
		}
	}
	status.Queue = queue[min(from, len(queue)):]
	if limit := cmp.Or(max(0, request.Limit), maxQueue); len(status.Queue) > limit {
		status.Queue, status.NextCursor = status.Queue[:limit], strconv.Itoa(from+limit)
	}
	return status, nil
}

// show shows the queue in the Web UI.
func (s *maintenanceScheduler) show(ctx workflow.Context) {
	var d kit.Details
	d.Head("scheduler", s.in.Cluster)
	if !s.slots.Empty() {
		d.Wait(s.slots.Standstill(s.blocked()))
		free, _ := s.decided.Remaining()
		d.Row("free slots", strconv.Itoa(free))
		d.Row("waiting", strconv.Itoa(len(s.decided.Waiting)))
	} else {
		d.Row("maintenances", "none has a slot or waits for one")
	}
	d.WriteString("\n")
	if !s.slots.Empty() {
		d.Head("rank", "node", "requestor", "waits for")
	}
	for _, holder := range s.slots.Slots() {
		d.Line("has a slot", holder.Node, holder.Requestor, "")
	}
	for i, w := range s.decided.Waiting {
		if d.Full() {
			break
		}
		d.Line(strconv.Itoa(i+1), w.Node, w.Requestor, string(w.Reason)+": "+w.Message)
	}
	workflow.SetCurrentDetails(ctx, d.Text())
}
