package slots

import (
	"fmt"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/kit"
)

const (
	// maxSignals limits the signals in progress: the server blocks a run with too many outgoing signals.
	maxSignals = 100
	// retryResponseAfter is the pause before a lost response is sent again. Sooner it would likely fail again.
	retryResponseAfter = checkOwnersEvery
	// reportPace is the minimum time between two deliveries of reports.
	reportPace = time.Second
)

// respond sends a response with news. If that fails, it checks the workflow of the owner; if that is still running, it sends the response again later.
func (s *maintenanceScheduler) respond(ctx workflow.Context, response scheduling.SlotResponse) {
	response.Scheduler = s.startedAt
	s.sending++
	sent := workflow.SignalExternalWorkflow(ctx, response.Owner.WorkflowID, "", temporal.SignalSlotResponse, response)
	workflow.GoNamed(ctx, "signal "+response.Owner.WorkflowID, func(ctx workflow.Context) {
		if sent.Get(ctx, nil) != nil {
			s.undelivered(ctx, response)
		}
		s.sending--
	})
}

func (s *maintenanceScheduler) undelivered(ctx workflow.Context, response scheduling.SlotResponse) {
	s.slots.Undelivered(response, workflow.Now(ctx).Add(retryResponseAfter))
	s.unreachable, s.changed = true, true
}

// report tells owners why their requests wait, if that is due, and returns when it is due next; zero: not without a change. One activity delivers the reports of
// many owners: a signal to each would fill the history.
func (s *maintenanceScheduler) report(ctx workflow.Context) (next time.Time) {
	now := workflow.Now(ctx)
	switch {
	case s.reporting, s.historyLong(ctx): // the end of the delivery wakes the loop; the next run reports
		return time.Time{}
	case s.reportAt.After(now):
		return s.reportAt
	}
	reports, next := s.slots.Reports(now)
	s.reportAt = now.Add(s.pace())
	if len(reports) == 0 {
		return next
	}
	for i := range reports {
		reports[i].Scheduler = s.startedAt
	}
	s.reporting, s.reportAt = true, now.Add(reportPace)
	workflow.GoNamed(ctx, "report", func(ctx workflow.Context) {
		var lost []scheduling.SlotOwner
		summary := fmt.Sprintf("tell %d slot owners why they wait", len(reports))
		err := kit.HubRetrier(nil).Once().Run(ctx, summary, s.scheduler.SendResponses, reports, &lost)
		isLost := map[scheduling.SlotOwner]bool{}
		for _, owner := range lost {
			isLost[owner] = true
		}
		for _, report := range reports {
			if err != nil || isLost[report.Owner] {
				s.undelivered(ctx, report)
			}
		}
		s.reporting, s.requested = false, true
	})
	return time.Time{}
}
