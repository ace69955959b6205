package chaos

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	sdktemporal "go.temporal.io/sdk/temporal"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// random returns the scenario of a seed: a systematic one, or a rollout of random shape with random faults.
func random(seed uint64) scenario {
	all := scenarios()
	if seed%4 == 0 {
		return all[int(seed/4)%len(all)]
	}
	return scenario{name: "a rollout with random faults", run: faultsAtRandomMoments}
}

// randomFault is a fault that is injected into a rollout and repaired. The rollout must end as without it.
type randomFault struct {
	name string
	do   func(*testing.T, *scenarioRun, *work)
}

func randomFaults() []randomFault {
	return []randomFault{
		{name: "the worker is killed", do: restart((*devstack.Process).Kill, theWorker)},
		{name: "the worker stops", do: restart((*devstack.Process).Stop, theWorker)},
		{name: "Temporal is killed", do: restart((*devstack.Process).Kill, theTemporal)},
		{name: "Temporal stops", do: restart((*devstack.Process).Stop, theTemporal)},
		{name: "a spoke's API server is killed", do: restart((*devstack.Process).Kill, randomAPIServer)},
		{name: "a spoke's API server stops", do: restart((*devstack.Process).Stop, randomAPIServer)},
		{name: "the hub's API server stops", do: restart((*devstack.Process).Stop, theHub)},
		{name: "answers to writes are lost", do: faultyWrites(faultproxy.LoseAnswer())},
		{name: "writes are refused with 500", do: faultyWrites(faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded)))},
		{name: "writes are refused with 429", do: faultyWrites(faultproxy.Refuse(apierrors.NewTooManyRequestsError("injected fault")))},
		{name: "pause and resume are repeated", do: func(t *testing.T, s *scenarioRun, w *work) {
			for _, signal := range []string{temporal.SignalPause, temporal.SignalPause, temporal.SignalResume, temporal.SignalResume} {
				_ = s.temporal.SignalWorkflow(t.Context(), w.workflow, "", signal, nil) // it may be closed
			}
		}},
		{name: "it is cancelled", do: func(t *testing.T, s *scenarioRun, w *work) {
			_ = s.temporal.SignalWorkflow(t.Context(), w.workflow, "", temporal.SignalCancel, nil)
		}},
	}
}

// server is a server that a fault ends, and the spokes whose answers are lost with it.
type server struct {
	*devstack.Process
	answersLost []*devstack.Cluster
}

func theWorker(s *scenarioRun) server   { return server{s.Worker, s.Spokes} }
func theTemporal(s *scenarioRun) server { return server{s.Temporal.Process, nil} }
func theHub(s *scenarioRun) server      { return server{s.Hub.APIServer, nil} }

func randomAPIServer(s *scenarioRun) server {
	spoke := s.Spokes[s.rand.IntN(len(s.Spokes))]
	return server{spoke.APIServer, []*devstack.Cluster{spoke}}
}

// restart stops a server and starts it again.
func restart(end func(*devstack.Process) error, which func(*scenarioRun) server) func(*testing.T, *scenarioRun, *work) {
	return func(t *testing.T, s *scenarioRun, _ *work) {
		server, began := which(s), time.Now()
		require.NoError(t, end(server.Process))
		require.NoError(t, server.Start(t.Context()))
		s.answers.lose(began, server.answersLost...)
	}
}

// faultyWrites applies a fault to some of the writes to all spokes, a few times each.
func faultyWrites(fault faultproxy.Fault) func(*testing.T, *scenarioRun, *work) {
	return func(_ *testing.T, s *scenarioRun, _ *work) {
		for _, spoke := range s.Spokes {
			s.inject(spoke, faultproxy.Rule{
				Match: faultproxy.Match{Verbs: faultproxy.Writes()}, Fault: fault, OneIn: 1 + s.rand.IntN(3), Times: 1 + s.rand.IntN(5),
			})
		}
	}
}

// faultsAtRandomMoments injects one to three faults, each at a random event in a history of the rollout, a cluster or a node.
func faultsAtRandomMoments(t *testing.T, s *scenarioRun) {
	of := s.randomShape()
	for _, cluster := range of.clusters {
		s.allow(t, cluster, s.rand.IntN(3))
		for _, node := range of.nodes {
			if annotations := s.randomPodBehaviour(); annotations != nil {
				s.barePod(t, target{cluster, node}, annotations)
			}
		}
	}
	w := s.rollOut(t, of, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance.Action = job(map[string]string{devstack.AnnotationCompleteAfter: s.randomOf("0s", "300ms", "1s")})
	})
	all := randomFaults()
	for range 1 + s.rand.IntN(3) {
		chosen := all[s.rand.IntN(len(all))]
		workflow, event := s.randomEvent(t, w, of)
		t.Logf("%s when %s has event %d", chosen.name, workflow, event)
		s.awaitMoment(t, workflow, event)
		chosen.do(t, s, w)
	}
	s.mayBeCancelled(t, w)
}

// allow sets how many nodes of a cluster may be in maintenance at once; 0 is the default.
func (s *scenarioRun) allow(t *testing.T, spoke *devstack.Cluster, atOnce int) {
	t.Helper()
	if atOnce == 0 {
		return
	}
	s.allowed[spoke.Name] = atOnce
	watched, err := s.Watch(t.Context(), spoke)
	require.NoError(t, err)
	config := &maintenancev1.MaintenanceOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: kube.SystemNamespace},
		Spec:       maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(atOnce))},
	}
	require.NoError(t, watched.Client.Create(t.Context(), config))
	t.Cleanup(func() { require.NoError(t, watched.Client.Delete(context.Background(), config)) })
}

func (s *scenarioRun) randomOf(values ...string) string { return values[s.rand.IntN(len(values))] }

// randomPodBehaviour returns annotations of a pod that blocks a drain; nil: no pod.
func (s *scenarioRun) randomPodBehaviour() map[string]string {
	if s.rand.IntN(2) == 0 {
		return nil
	}
	return map[string]string{devstack.AnnotationLeaveAfter: s.randomOf("0s", "500ms", "2s")}
}

// randomShape returns one to three clusters in any order, with one to three of their nodes.
func (s *scenarioRun) randomShape() shape {
	clusters, nodes := slices.Clone(s.Spokes), allNodes()
	s.rand.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	clusters = clusters[:1+s.rand.IntN(len(clusters))]
	for range len(nodes) - 1 - s.rand.IntN(3) {
		i := s.rand.IntN(len(nodes))
		nodes = slices.Delete(nodes, i, i+1)
	}
	return shape{clusters: clusters, nodes: nodes, maxConcurrency: 1 + s.rand.IntN(len(clusters))}
}

// randomEvent returns an event in the history of the rollout, a cluster or a node.
func (s *scenarioRun) randomEvent(t *testing.T, w *work, of shape) (workflow string, event int64) {
	t.Helper()
	at := target{of.clusters[s.rand.IntN(len(of.clusters))], of.nodes[s.rand.IntN(len(of.nodes))]}
	workflow = []string{w.workflow, w.ofCluster(at.spoke), w.ofNode(at)}[s.rand.IntN(3)]
	return workflow, 1 + s.rand.Int64N(60)
}

// awaitMoment waits until a history has an event with that ID, or the workflow or the rollout ends.
func (s *scenarioRun) awaitMoment(t *testing.T, workflow string, moment int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	go func() {
		_ = s.temporal.GetWorkflow(ctx, s.works[0].workflow, "").Get(ctx, nil)
		cancel()
	}()
	s.awaitStart(ctx, workflow)
	for events := s.temporal.GetWorkflowHistory(ctx, workflow, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil || event.EventId >= moment {
			return
		}
	}
}

// awaitStart waits until a child of the rollout has started, or ctx is done.
func (s *scenarioRun) awaitStart(ctx context.Context, workflow string) {
	for _, parent := range parentsOf(s.works[0].workflow, workflow) {
		started := false
		for events := s.temporal.GetWorkflowHistory(ctx, parent.id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext() && !started; {
			event, err := events.Next()
			if err != nil {
				return
			}
			started = event.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution().GetWorkflowId() == parent.child
		}
	}
}

type parent struct{ id, child string }

// parentsOf returns the ancestors of a workflow, from the rollout on, each with the child that it must start.
func parentsOf(rollout, workflow string) []parent {
	switch parts := strings.Split(workflow, "/"); {
	case workflow == rollout:
		return nil
	case parts[0] == "node":
		cluster := rollout + "/" + parts[1]
		return []parent{{rollout, cluster}, {cluster, workflow}}
	}
	return []parent{{rollout, workflow}}
}

// mayBeCancelled accepts both results, because a cancel may arrive after the end of the rollout.
func (s *scenarioRun) mayBeCancelled(t *testing.T, w *work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := s.temporal.GetWorkflow(ctx, w.workflow, "").Get(ctx, nil); sdktemporal.IsCanceledError(err) {
		w.end = cancelled
	}
}
