package slots

import (
	"strconv"

	"go.temporal.io/sdk/workflow"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/workflows/kit"
)

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
	// Queue lists the granted slots, then the waiting requests in order of rank.
	Queue     []scheduling.QueueEntry `json:"queue"`
	StartedAt metav1.Time             `json:"startedAt"`
}

func (s *maintenanceScheduler) status(ctx workflow.Context) SchedulerStatus {
	now := workflow.Now(ctx)
	free, outages := s.decided.Remaining()
	return SchedulerStatus{
		Cluster: s.in.Cluster, Watching: s.stopWatching != nil, Wait: s.slots.Standstill(s.blocked()),
		AvailableSlots: free, CanBecomeUnavailable: outages,
		Queue: s.slots.Queue(now, s.blocked()), StartedAt: metav1.NewTime(s.startedAt),
	}
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
		d.Line(strconv.Itoa(i+1), w.Node, w.Requestor, string(w.Reason)+": "+w.Message)
	}
	workflow.SetCurrentDetails(ctx, d.Text())
}
