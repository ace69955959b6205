package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	"go.temporal.io/sdk/client"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// workerUsers is the prefix of the users of Drydock's worker: the ServiceAccounts of deploy/rbac.
const workerUsers = "system:serviceaccount:drydock-system:drydock-"

// byDrydock maintains the nodes with rollouts of the CLI.
type byDrydock struct {
	*measurement
	histories []history
}

func (*byDrydock) String() string { return "Drydock" }

func (b *byDrydock) maintain(ctx context.Context, number int) (time.Duration, error) {
	histories, err := rollOut(ctx, b.fleet, b.server, b.rollout(fmt.Sprintf("round-%d", number+1)))
	if err != nil {
		return 0, err
	}
	b.histories = append(b.histories, histories...)
	return histories[0].took(), nil
}

func (b *byDrydock) record(_ context.Context, rounds []round, result *Result) error {
	seen, err := b.recordWorker(rounds, result)
	if err != nil {
		return err
	}
	return result.readHistories(b.histories, seen)
}

// recordWorker records the time of Drydock's rounds, and what they cost the workers, Temporal and its database.
func (s *measurement) recordWorker(rounds []round, result *Result) (observed, error) {
	seen, err := s.observe(workerUsers, rounds)
	if err != nil {
		return observed{}, err
	}
	result.Wall.Drydock = wallTime(rounds)
	result.SlotIdle = latency(seen.slotIdle(s.size))
	result.Requests = requestsOf(seen.requests, workerUsers, s.size.maintenances())
	result.Usages = usagesIn(rounds)
	return seen, nil
}

// rollOut runs one rollout to its end and returns its history, followed by those of its later runs and its children.
func rollOut(ctx context.Context, f *fleet.Fleet, server client.Client, rollout *ranv1.ClusterGroupUpgrade) ([]history, error) {
	if err := startRollout(ctx, f, rollout); err != nil {
		return nil, err
	}
	return awaitRollout(ctx, f, server, rollout.Name)
}

func startRollout(ctx context.Context, f *fleet.Fleet, rollout *ranv1.ClusterGroupUpgrade) error {
	file, err := yaml.Marshal(rollout)
	if err != nil {
		return err
	}
	start := f.Command(ctx, "upgrade", "start", "-f", "-")
	start.Stdin = bytes.NewReader(file)
	if output, err := start.CombinedOutput(); err != nil {
		return fmt.Errorf("start the rollout: %w: %s", err, output)
	}
	return nil
}

func awaitRollout(ctx context.Context, f *fleet.Fleet, server client.Client, name string) ([]history, error) {
	id := temporal.ClusterGroupUpgradeID(rolloutNamespace, name)
	if err := server.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		_ = f.Run(ctx, io.Discard, "upgrade", "cancel", name, "-n", rolloutNamespace)
		return nil, fmt.Errorf("rollout %s: %w", name, err)
	}
	return readAll(ctx, server, id)
}

// rollout maintains all worker nodes of the spoke: a drain without a timeout, then a Job unless the size is DrainOnly.
func (s *measurement) rollout(name string) *ranv1.ClusterGroupUpgrade {
	cgu := &ranv1.ClusterGroupUpgrade{
		TypeMeta:   metav1.TypeMeta{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade"},
		ObjectMeta: metav1.ObjectMeta{Namespace: rolloutNamespace, Name: name},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters:            []string{s.spoke.Name},
			RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1), Timeout: 60},
			NodeMaintenance: &ranv1.NodeMaintenanceRemediation{
				NodeSelector: &metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: workerLabel, Operator: metav1.LabelSelectorOpExists}}},
				DrainSpec:    &maintenancev1.DrainSpec{TimeoutSeconds: new(int32(0))},
			},
		},
	}
	if !s.size.DrainOnly {
		cgu.Spec.NodeMaintenance.Action = &maintenancev1.Action{Type: maintenancev1.ActionJob, Job: &maintenancev1.JobAction{
			Namespace: jobNamespace, Template: batchv1.JobTemplateSpec{Spec: batchv1.JobSpec{Template: jobPod()}},
		}}
	}
	return cgu
}

// jobPod is the pod of the Job on a node.
func jobPod() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "work", Image: image}},
	}}
}

// readHistories reads the times of each node and the event counts from the histories.
func (r *Result) readHistories(histories []history, seen observed) error {
	var ready, returned []time.Duration
	r.Cost = costOf(histories, r.Size.maintenances())
	for _, h := range histories {
		if h.kind() != temporal.NodeMaintenance {
			continue
		}
		node, at, released, err := h.maintenance()
		if err != nil {
			return err
		}
		ready = append(ready, at.Sub(h.began()))
		uncordoned, ok := seen.uncordonAfter(node, released)
		if !ok {
			return fmt.Errorf("the audit log has no uncordon of %s after %s", node, released)
		}
		returned = append(returned, uncordoned.Sub(released))
	}
	if len(ready) != r.Size.maintenances() {
		return fmt.Errorf("%d nodes were maintained, not %d", len(ready), r.Size.maintenances())
	}
	r.RequestToReady, r.ReleaseToUncordon = latency(ready), latency(returned)
	return nil
}
