package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// Pace is how fast rollouts continue after a wait.
type Pace struct {
	// BlockerToStart is the time from the success of a rollout until the rollout that it blocked enforces its first policy.
	BlockerToStart Latency `json:"blockerToStart"`
	// TimeoutLateness is the time from the timeout of a batch until the first write that removes its policies.
	TimeoutLateness Latency `json:"timeoutLateness"`
}

const (
	// blockedStarts and timeouts are the numbers of measurements.
	blockedStarts, timeouts = 20, 5
	// neverPolicy is the name prefix of policies that no cluster ever complies with.
	neverPolicy = "never"
)

// selective clusters never comply with some policies, and immediately with all others.
func selective(_, policy string) time.Duration {
	if strings.Contains(policy, neverPolicy) {
		return -1
	}
	return 0
}

// runPace measures how fast rollouts continue, on its own hub.
func (r *Report) runPace(ctx context.Context, progress io.Writer) error {
	fmt.Fprintln(progress, "measuring how fast rollouts start and time out")
	return onHub(ctx, temporalServer(false), progress, selective, func(h *simulatedHub) (err error) {
		r.Pace, err = h.pace(ctx)
		return err
	})
}

func (h *simulatedHub) pace(ctx context.Context) (*Pace, error) {
	if err := h.register(ctx, 2); err != nil {
		return nil, err
	}
	var pace Pace
	var started []time.Duration
	for i := range blockedStarts {
		took, err := h.blockerToStart(ctx, fmt.Sprintf("blocker-%d", i+1), fmt.Sprintf("blocked-%d", i+1))
		if err != nil {
			return nil, err
		}
		started = append(started, took)
	}
	late := make([]time.Duration, timeouts)
	var group errgroup.Group
	for i := range timeouts {
		group.Go(func() (err error) {
			late[i], err = h.timeoutLateness(ctx, fmt.Sprintf("%s-%d", neverPolicy, i+1))
			return err
		})
	}
	err := group.Wait()
	pace.BlockerToStart, pace.TimeoutLateness = latency(started), latency(late)
	return &pace, err
}

// blockerToStart measures a rollout that waits for another one.
func (h *simulatedHub) blockerToStart(ctx context.Context, blocker, blocked string) (time.Duration, error) {
	if err := h.createPolicies(ctx, []string{blocker, blocked}, []string{clusterName(0), clusterName(1)}, 2); err != nil {
		return 0, err
	}
	first, second := policyRollout(blocker, blocker), policyRollout(blocked, blocked)
	first.Spec.Clusters, second.Spec.Clusters = []string{clusterName(0)}, []string{clusterName(1)}
	first.Spec.Enable = new(false)
	second.Spec.BlockingCRs = []ranv1.BlockingCR{{Namespace: rolloutNamespace, Name: blocker}}
	for _, rollout := range []*ranv1.ClusterGroupUpgrade{first, second} {
		if err := startRollout(ctx, h.fleet, rollout); err != nil {
			return 0, err
		}
	}
	if err := h.await(ctx, blocked, func(s ranv1.ClusterGroupUpgradeStatus) bool {
		return s.Wait != nil && s.Wait.Reason == ranv1.ReasonIncompleteBlockingCR
	}); err != nil {
		return 0, err
	}
	var output bytes.Buffer
	if err := h.fleet.Run(ctx, &output, "upgrade", "enable", blocker, "-n", rolloutNamespace); err != nil {
		return 0, fmt.Errorf("enable %s: %w: %s", blocker, err, output.String())
	}
	ended, err := awaitRollout(ctx, h.fleet, h.server, blocker)
	if err != nil {
		return 0, err
	}
	if _, err := awaitRollout(ctx, h.fleet, h.server, blocked); err != nil {
		return 0, err
	}
	success := ended[len(ended)-1].ended()
	return h.firstPlacement(blocked, func(p fleet.Placement) bool { return len(p.Clusters) > 0 }, success)
}

// timeoutLateness measures the timeout of a batch.
func (h *simulatedHub) timeoutLateness(ctx context.Context, name string) (time.Duration, error) {
	if err := h.createPolicies(ctx, []string{name}, []string{clusterName(0)}, 1); err != nil {
		return 0, err
	}
	rollout := policyRollout(name, name)
	rollout.Spec.Clusters, rollout.Spec.RemediationStrategy.Timeout = []string{clusterName(0)}, 1
	if err := startRollout(ctx, h.fleet, rollout); err != nil {
		return 0, err
	}
	id := temporal.ClusterGroupUpgradeID(rolloutNamespace, name)
	if err := h.server.GetWorkflow(ctx, id, "").Get(ctx, nil); temporal.ErrorType(err) != ranv1.ReasonTimedOut {
		return 0, fmt.Errorf("rollout %s did not time out: %w", name, err)
	}
	histories, err := readAll(ctx, h.server, id)
	if err != nil {
		return 0, err
	}
	began, found := histories[0].firstTimer() // the timeout of its only batch
	if !found {
		return 0, fmt.Errorf("the history of rollout %s has no timer", name)
	}
	over := began.Add(time.Minute)
	return h.firstPlacement(name, func(p fleet.Placement) bool { return len(p.Clusters) == 0 && p.At.After(over) }, over)
}

// firstPlacement returns the time from after to the first matching placement that a rollout wrote for its policy.
func (h *simulatedHub) firstPlacement(rollout string, matches func(fleet.Placement) bool, after time.Time) (time.Duration, error) {
	events, err := h.fleet.Hub.AuditEvents()
	if err != nil {
		return 0, err
	}
	for _, placed := range fleet.Placements(events) {
		if strings.HasPrefix(placed.Name, rollout+"-"+rollout+"-") && matches(placed) {
			return placed.At.Sub(after), nil
		}
	}
	return 0, fmt.Errorf("the audit log has no matching placement of rollout %s", rollout)
}

// await watches a rollout until its status satisfies a condition.
func (h *simulatedHub) await(ctx context.Context, name string, matches func(ranv1.ClusterGroupUpgradeStatus) bool) error {
	watchCtx, stop := context.WithCancel(ctx)
	defer stop()
	watch := h.fleet.Command(watchCtx, "upgrade", "status", name, "-n", rolloutNamespace, "--watch", "-o", "json")
	out, err := watch.StdoutPipe()
	if err != nil {
		return err
	}
	if err := watch.Start(); err != nil {
		return err
	}
	for statuses := json.NewDecoder(out); ; {
		var seen ranv1.ClusterGroupUpgrade
		if err = statuses.Decode(&seen); err != nil || matches(seen.Status) {
			break
		}
	}
	stop()
	_ = watch.Wait() // stopped by ctx
	if err != nil {
		return fmt.Errorf("watch rollout %s: %w", name, err)
	}
	return nil
}
