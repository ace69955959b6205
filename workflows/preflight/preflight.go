// Package preflight holds the workflow that checks a request before it is started: the people who start it have no credentials of the hub or the clusters.
package preflight

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/activities/drain"
	"drydock.dev/drydock/activities/node"
	"drydock.dev/drydock/activities/rollouts"
	windowsactivities "drydock.dev/drydock/activities/windows"
	drydockv1 "drydock.dev/drydock/internal/apis/drydock/v1alpha1"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/rollout"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/windows"
	"drydock.dev/drydock/workflows/gates"
	"drydock.dev/drydock/workflows/kit"
)

// Input is the request to check: a rollout, or the maintenance of a node of a cluster, or only the cluster.
type Input struct {
	Rollout *ranv1.ClusterGroupUpgrade `json:"rollout,omitempty"`
	// PlanOnly: only the plan of the rollout matters.
	PlanOnly    bool                           `json:"planOnly,omitempty"`
	Cluster     string                         `json:"cluster,omitempty"`
	Maintenance *maintenancev1.NodeMaintenance `json:"maintenance,omitempty"`
	// Wait is how long to check again until there is no problem. A person waits for the answer, so it is minutes.
	Wait time.Duration `json:"wait,omitempty"`
}

// Result is what a check found.
type Result struct {
	// Problems are why the request would fail, each with its field.
	Problems []string `json:"problems"`
	// Plan is the plan of a rollout.
	Plan *rollout.Plan `json:"plan,omitempty"`
	// Closed are the named windows in which no work may start now: the request waits for them.
	Closed []windows.Status `json:"closed,omitempty"`
	// Drains are previews of the drains of the first clusters. Unforeseen says by cluster why there are none; NotForeseen counts the clusters after them.
	Drains      []drain.Forecast `json:"drains,omitempty"`
	Unforeseen  []string         `json:"unforeseen,omitempty"`
	NotForeseen int              `json:"notForeseen,omitempty"`
}

// foreseenClusters is the number of clusters whose drains are previewed. The others start later, when the pods on their nodes may be others.
const foreseenClusters = 20

// The pause before a problem is checked again.
const (
	firstPause = time.Second
	maxPause   = 10 * time.Second
)

// Preflight checks that what a request refers to exists, and previews its drains. It changes nothing.
func Preflight(ctx workflow.Context, in Input) (Result, error) {
	deadline := workflow.Now(ctx).Add(in.Wait)
	for pause := firstPause; ; pause = min(2*pause, maxPause) {
		check := &check{in: in, result: Result{Problems: []string{}}}
		if in.Rollout != nil {
			check.rollout(ctx)
		} else {
			check.cluster(ctx)
		}
		if len(check.result.Problems) == 0 || workflow.Now(ctx).Add(pause).After(deadline) {
			return check.result, ctx.Err()
		}
		workflow.SetCurrentDetails(ctx, details(check.result.Problems))
		if err := workflow.NewTimerWithOptions(ctx, pause, workflow.TimerOptions{Summary: "before the request is checked again"}).Get(ctx, nil); err != nil {
			return check.result, err
		}
	}
}

// details lists the problems for the Web UI.
func details(problems []string) string {
	var d kit.Details
	d.Head("The request cannot start yet")
	for _, problem := range problems {
		d.Line(problem)
	}
	return d.Text()
}

// check is one check of a request.
type check struct {
	in     Input
	result Result
}

// problem records an error as a problem of a field.
func (c *check) problem(field string, err error) {
	message := temporal.ErrorMessage(err)
	if field != "" {
		message = field + ": " + message
	}
	c.result.Problems = append(c.result.Problems, message)
}

// rollout plans the rollout as its workflow does.
func (c *check) rollout(ctx workflow.Context) {
	var plan rollouts.Plan
	if err := kit.HubRetrier(nil).Once().Run(ctx, "plan the rollout", (&rollouts.Activities{}).PlanRollout, rollouts.PlanInput{Object: *c.in.Rollout}, &plan); err != nil {
		c.problem("", err)
		return
	}
	for _, problem := range plan.Problems() {
		if unselected, ok := strings.CutPrefix(problem, rollout.UnableToSelect); ok && !strings.Contains(unselected, "spec.") {
			problem = "spec.clusters: " + unselected
		}
		c.result.Problems = append(c.result.Problems, problem)
	}
	c.result.Plan = &plan.Plan
	if c.in.PlanOnly {
		return
	}
	spec := c.in.Rollout.Spec
	if plan.Spec != nil {
		spec = *plan.Spec
	}
	c.windows(ctx, c.in.Rollout.Namespace, spec.MaintenanceWindows)
	if len(c.result.Problems) > 0 || rollout.RemediationOf(c.in.Rollout) != rollout.NodeMaintenance || spec.NodeMaintenance.DrainSpec == nil {
		return
	}
	clusters := slices.Concat(plan.RemediationPlan...)
	first := clusters[:min(len(clusters), foreseenClusters)]
	c.result.NotForeseen = len(clusters) - len(first)
	forecasts, errs, previews := make([][]drain.Forecast, len(first)), make([]error, len(first)), workflow.NewWaitGroup(ctx)
	for i, cluster := range first {
		queue := temporal.TaskQueue
		if own := plan.TaskQueues[cluster]; own != "" {
			queue = own
		}
		previews.Add(1)
		workflow.GoNamed(ctx, "preview "+cluster, func(ctx workflow.Context) {
			defer previews.Done()
			forecasts[i], errs[i] = c.foresee(ctx, queue, node.ForeseeDrainsInput{
				Cluster: cluster, Remediation: *spec.NodeMaintenance,
				Preflight: drain.Preflight{Drain: spec.NodeMaintenance.DrainSpec, Completion: spec.NodeMaintenance.WaitForPodCompletion},
			})
		})
	}
	previews.Wait(ctx)
	c.result.Drains = slices.Concat(forecasts...)
	for i, err := range errs {
		if err != nil {
			c.result.Unforeseen = append(c.result.Unforeseen, first[i]+": "+temporal.ErrorMessage(err))
		}
	}
}

// cluster checks the cluster, and the node and the windows of its maintenance.
func (c *check) cluster(ctx workflow.Context) {
	var queue string
	if err := kit.Locate(ctx, kit.HubRetrier(nil).Once(), c.in.Cluster, &queue); err != nil {
		c.problem("", err)
	}
	maintenance := c.in.Maintenance
	if maintenance == nil {
		return
	}
	c.windows(ctx, maintenance.Namespace, maintenance.Spec.MaintenanceWindows)
	if len(c.result.Problems) > 0 {
		return
	}
	forecasts, err := c.foresee(ctx, queue, node.ForeseeDrainsInput{
		Cluster: c.in.Cluster, Node: maintenance.Spec.NodeName,
		Preflight: drain.Preflight{Drain: maintenance.Spec.DrainSpec, Completion: maintenance.Spec.WaitForPodCompletion},
	})
	c.result.Drains = forecasts
	switch temporal.ErrorType(err) {
	case temporal.ErrNodeGone:
		c.problem("spec.nodeName", err)
	case temporal.ErrInvalidSpec:
		c.problem("", err)
	default:
		if err != nil {
			c.result.Unforeseen = append(c.result.Unforeseen, c.in.Cluster+": "+temporal.ErrorMessage(err))
		}
	}
}

// foresee previews the drains in a cluster.
func (c *check) foresee(ctx workflow.Context, queue string, in node.ForeseeDrainsInput) (forecasts []drain.Forecast, err error) {
	retrier := kit.ClusterRetrier(in.Cluster, &queue, nil).Once()
	retrier.Attempts = 2 // an unreachable cluster must not delay the answer
	err = retrier.Run(ctx, "preview the drains in "+in.Cluster, (&node.Activities{}).ForeseeDrains, in, &forecasts)
	return forecasts, err
}

// windows checks that the windows are defined, and finds those in which no work may start now.
func (c *check) windows(ctx workflow.Context, namespace string, given []drydockv1.WindowName) {
	names := gates.QualifiedNames(namespace, given)
	if len(names) == 0 {
		return
	}
	var found []windows.Status
	if err := kit.HubRetrier(nil).Once().Run(ctx, "read the windows", (&windowsactivities.Activities{}).ReadWindows, names, &found); err != nil {
		c.problem("spec.maintenanceWindows", err)
		return
	}
	for _, window := range found {
		switch window.Phase {
		case windows.PhaseUndefined:
			c.result.Problems = append(c.result.Problems, fmt.Sprintf("spec.maintenanceWindows: window %s is not defined: `drydock window create -f FILE` defines it", window.Window))
		case windows.PhaseOpen, windows.PhaseOverridden:
		default:
			c.result.Closed = append(c.result.Closed, window)
		}
	}
}
