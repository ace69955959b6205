package bench

import (
	"time"

	historypb "go.temporal.io/api/history/v1"
)

// Cost is the size of the histories of rollouts per node or cluster.
type Cost struct {
	// Events are by workflow and type; EventsEach is their sum.
	Events     map[string]float64 `json:"events"`
	EventsEach float64            `json:"eventsEach"`
	// Activities are by name, WorkflowTasks by type of workflow; ActivitiesEach is the sum of Activities.
	Activities     map[string]Step `json:"activities"`
	ActivitiesEach float64         `json:"activitiesEach"`
	WorkflowTasks  map[string]Step `json:"workflowTasks"`
	// LocalEach are the local activities, which ran within the workflow tasks.
	LocalEach float64 `json:"localEach"`
}

// localActivity is the name of the marker of a local activity.
const localActivity = "LocalActivity"

// costOf returns the size of the histories per node or cluster.
func costOf(histories []history, count int) Cost {
	cost := Cost{Events: map[string]float64{}}
	cost.Activities, cost.WorkflowTasks = stepsOf(histories, count)
	for _, step := range cost.Activities {
		cost.ActivitiesEach += step.Each
	}
	for _, h := range histories {
		for _, event := range h.events {
			cost.EventsEach += 1 / float64(count)
			cost.Events[h.kind()+" "+eventName(event)] += 1 / float64(count)
			if event.GetMarkerRecordedEventAttributes().GetMarkerName() == localActivity {
				cost.LocalEach += 1 / float64(count)
			}
		}
	}
	return cost
}

// Step is the cost of an activity or of the tasks of a workflow.
type Step struct {
	// Each is how often it ran per node or cluster.
	Each float64 `json:"each"`
	// Queued is how long it waited for the worker, and Ran how long it ran. Only completed runs count.
	Queued Latency `json:"queued"`
	Ran    Latency `json:"ran"`
}

// stepTimes are the runs of one step.
type stepTimes struct {
	count       int
	queued, ran []time.Duration
}

// stepsOf returns the activities of the histories by name, and the tasks of the workflows by their types.
func stepsOf(histories []history, count int) (activities, tasks map[string]Step) {
	byActivity, byWorkflow := map[string]*stepTimes{}, map[string]*stepTimes{}
	for _, h := range histories {
		h.addSteps(byActivity, byWorkflow)
	}
	return summarized(byActivity, count), summarized(byWorkflow, count)
}

// addSteps adds the runs of a history. A completion event has the IDs of its scheduled and started events.
func (h history) addSteps(byActivity, byWorkflow map[string]*stepTimes) {
	for _, event := range h.events {
		if name := activityOf(event); name != "" {
			times(byActivity, name).count++
		}
		if event.GetWorkflowTaskScheduledEventAttributes() != nil {
			times(byWorkflow, h.kind()).count++
		}
		if done := event.GetActivityTaskCompletedEventAttributes(); done != nil {
			scheduled := h.event(done.ScheduledEventId)
			times(byActivity, activityOf(scheduled)).add(scheduled, h.event(done.StartedEventId), event)
		}
		if done := event.GetWorkflowTaskCompletedEventAttributes(); done != nil {
			times(byWorkflow, h.kind()).add(h.event(done.ScheduledEventId), h.event(done.StartedEventId), event)
		}
	}
}

// event returns an event by its ID. IDs count from 1.
func (h history) event(id int64) *historypb.HistoryEvent { return h.events[id-1] }

func times(byName map[string]*stepTimes, name string) *stepTimes {
	if byName[name] == nil {
		byName[name] = &stepTimes{}
	}
	return byName[name]
}

func (t *stepTimes) add(scheduled, started, completed *historypb.HistoryEvent) {
	t.queued = append(t.queued, started.EventTime.AsTime().Sub(scheduled.EventTime.AsTime()))
	t.ran = append(t.ran, completed.EventTime.AsTime().Sub(started.EventTime.AsTime()))
}

func summarized(byName map[string]*stepTimes, count int) map[string]Step {
	steps := map[string]Step{}
	for name, times := range byName {
		steps[name] = Step{Each: float64(times.count) / float64(count), Queued: latency(times.queued), Ran: latency(times.ran)}
	}
	return steps
}
