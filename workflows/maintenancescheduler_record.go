package workflows

import (
	"strconv"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
)

// MaintenanceSchedulerStatus is how the slots of a cluster stand.
type MaintenanceSchedulerStatus struct {
	Cluster string `json:"cluster"`
	// Watching: the nodes of the cluster are watched. They are not while nobody asks for a slot.
	Watching bool `json:"watching"`
	// Wait is why nothing is granted at all; nil: what the budgets allow is granted.
	Wait *drydockv1.Wait `json:"wait,omitempty"`
	// AvailableSlots is how many more nodes may be under maintenance; CanBecomeUnavailable how many more may become unavailable, nil without limit.
	AvailableSlots       int  `json:"availableSlots"`
	CanBecomeUnavailable *int `json:"canBecomeUnavailable"`
	// Queue is who has a slot, and who waits for one in order of rank.
	Queue     []scheduling.Place `json:"queue"`
	StartedAt metav1.Time        `json:"startedAt"`
}

func (s *maintenanceScheduler) status(ctx workflow.Context) MaintenanceSchedulerStatus {
	now := workflow.Now(ctx)
	slots, outages := s.decided.Left()
	return MaintenanceSchedulerStatus{
		Cluster: s.in.Cluster, Watching: s.stopWatching != nil, Wait: s.book.Standstill(s.standstill()),
		AvailableSlots: slots, CanBecomeUnavailable: outages,
		Queue: s.book.Queue(now, s.standstill()), StartedAt: metav1.NewTime(s.startedAt),
	}
}

// show makes the queue visible to people in the Web UI.
func (s *maintenanceScheduler) show(ctx workflow.Context) {
	var d details
	d.head("scheduler", s.in.Cluster)
	if !s.book.Empty() {
		d.wait(s.book.Standstill(s.standstill()))
		slots, _ := s.decided.Left()
		d.row("free slots", strconv.Itoa(slots))
		d.row("waiting", strconv.Itoa(len(s.decided.Waiting)))
	}
	d.WriteString("\n")
	if !s.book.Empty() {
		d.head("rank", "node", "requestor", "waits for")
	}
	for _, holder := range s.book.Served() {
		d.line("has a slot", holder.Node, holder.Requestor, "")
	}
	for i, w := range s.decided.Waiting {
		d.line(strconv.Itoa(i+1), w.Node, w.Requestor, string(w.Reason)+": "+w.Message)
	}
	workflow.SetCurrentDetails(ctx, d.text())
}
