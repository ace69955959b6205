package bench

import (
	"time"

	historypb "go.temporal.io/api/history/v1"
)

// Cost is the size of the histories of rollouts, for each node or cluster.
type Cost struct {
	// Events by workflow and type; EventsEach is their sum.
	Events     map[string]float64 `json:"events"`
	EventsEach float64            `json:"eventsEach"`
	// Activities by name, WorkflowTasks by type of workflow; ActivitiesEach is the sum of the former.
	Activities     map[string]Step `json:"activities"`
	ActivitiesEach float64         `json:"activitiesEach"`
	WorkflowTasks  map[string]Step `json:"workflowTasks"`
}

// costOf divides the size of the histories by count.
func costOf(histories []history, among int) Cost {
	cost := Cost{Events: map[string]float64{}}
	cost.Activities, cost.WorkflowTasks = stepsOf(histories, among)
	for _, step := range cost.Activities {
		cost.ActivitiesEach += step.Each
	}
	for _, h := range histories {
		for _, event := range h.events {
			cost.EventsEach += 1 / float64(among)
			cost.Events[h.kind()+" "+eventName(event)] += 1 / float64(among)
		}
	}
	return cost
}

// Step is what an activity, or the tasks of a workflow, cost.
type Step struct {
	// Each is how often it ran for one node or cluster.
	Each float64 `json:"each"`
	// Queued is how long it waited for the worker, Ran how long it took then. Only runs that completed count.
	Queued Latency `json:"queued"`
	Ran    Latency `json:"ran"`
}

// stepTimes gathers the runs of one step.
type stepTimes struct {
	count       int
	queued, ran []time.Duration
}

// stepsOf returns the activities of the histories by name, and the tasks of the workflows by their types.
func stepsOf(histories []history, among int) (activities, tasks map[string]Step) {
	byActivity, byWorkflow := map[string]*stepTimes{}, map[string]*stepTimes{}
	for _, h := range histories {
		h.addSteps(byActivity, byWorkflow)
	}
	return summarized(byActivity, among), summarized(byWorkflow, among)
}

// addSteps finds the completed runs: an event that completes names those that scheduled and started it.
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

// event returns an event by its id: ids count from 1.
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

func summarized(byName map[string]*stepTimes, among int) map[string]Step {
	steps := map[string]Step{}
	for name, times := range byName {
		steps[name] = Step{Each: float64(times.count) / float64(among), Queued: latency(times.queued), Ran: latency(times.ran)}
	}
	return steps
}
