package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"time"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"sigs.k8s.io/yaml"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// workerUsers is how the users begin as whom Drydock's worker reaches a cluster: the ServiceAccounts of deploy/rbac.
const workerUsers = "system:serviceaccount:drydock-system:drydock-"

// byDrydock maintains the nodes with rollouts, each started by the command line.
func byDrydock(ctx context.Context, s *scene, result *Result) error {
	before, err := s.usage()
	if err != nil {
		return err
	}
	var all []history
	took, err := s.rounds(ctx, func(ctx context.Context, round int) (time.Duration, error) {
		histories, err := s.rollOut(ctx, fmt.Sprintf("round-%d", round+1))
		if err != nil {
			return 0, err
		}
		all = append(all, histories...)
		return histories[0].took(), nil
	})
	if err != nil {
		return err
	}
	after, err := s.usage()
	if err != nil {
		return err
	}
	seen, err := s.seen(workerUsers)
	if err != nil {
		return err
	}
	result.Wall.Drydock = median(took)
	result.HandOver = latency(seen.handOvers(s.size))
	result.Requests = seen.requests(s.size)
	result.Worker, result.Temporal = after[0].since(before[0]), after[1].since(before[1])
	return result.readHistories(all, seen)
}

// usage is what the worker and Temporal have used.
func (s *scene) usage() ([2]Usage, error) {
	worker, err := usageOf(s.fleet.Worker.PID())
	if err != nil {
		return [2]Usage{}, err
	}
	server, err := usageOf(s.fleet.Temporal.Process.PID())
	return [2]Usage{worker, server}, err
}

// rollOut runs one rollout to its end and returns its history, followed by those of its children.
func (s *scene) rollOut(ctx context.Context, name string) ([]history, error) {
	file, err := yaml.Marshal(s.rollout(name))
	if err != nil {
		return nil, err
	}
	start := s.fleet.Command(ctx, "upgrade", "start", "-f", "-")
	start.Stdin = bytes.NewReader(file)
	if output, err := start.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("start the rollout: %w: %s", err, output)
	}
	id := temporal.ClusterGroupUpgradeID(rolloutNamespace, name)
	if err := s.server.GetWorkflow(ctx, id, "").Get(ctx, nil); err != nil {
		_ = s.fleet.Run(ctx, io.Discard, "upgrade", "cancel", name, "-n", rolloutNamespace)
		return nil, fmt.Errorf("rollout %s: %w", name, err)
	}
	return readAll(ctx, s.server, id)
}

// rollout maintains all worker nodes of the spoke: a drain without limit, and a Job unless they are only drained.
func (s *scene) rollout(name string) *ranv1.ClusterGroupUpgrade {
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

// jobPod is what the work on a node is.
func jobPod() corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{Spec: corev1.PodSpec{
		RestartPolicy: corev1.RestartPolicyNever,
		Containers:    []corev1.Container{{Name: "work", Image: image}},
	}}
}

// readHistories takes from the histories what they say of each node, and what they hold.
func (r *Result) readHistories(histories []history, seen observed) error {
	var ready, returned []time.Duration
	nodes := float64(r.Size.maintenances())
	r.Activities, r.WorkflowTasks = stepsOf(histories, r.Size.maintenances())
	for _, step := range r.Activities {
		r.ActivitiesPerNode += step.PerNode
	}
	r.Events = map[string]float64{}
	for _, h := range histories {
		for _, event := range h.events {
			r.EventsPerNode += 1 / nodes
			r.Events[h.kind()+" "+eventName(event)] += 1 / nodes
		}
		if h.kind() != temporal.NodeMaintenance {
			continue
		}
		node, at, released, err := h.maintenance()
		if err != nil {
			return err
		}
		ready = append(ready, at.Sub(h.began()))
		back, ok := seen.uncordonAfter(node, released)
		if !ok {
			return fmt.Errorf("the audit log has no uncordon of %s after %s", node, released)
		}
		returned = append(returned, back.Sub(released))
	}
	if len(ready) != r.Size.maintenances() {
		return fmt.Errorf("%d nodes were maintained, not %d", len(ready), r.Size.maintenances())
	}
	r.RequestToReady, r.ReleaseToUncordon = latency(ready), latency(returned)
	return nil
}
