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
	"drydock.dev/drydock/internal/temporal"
)

// random is the scenario of a seed: one of the systematic ones, or a rollout of a shape of its own that is harmed in moments of its own.
func random(seed uint64) scenario {
	all := scenarios()
	if seed%4 == 0 {
		return all[int(seed/4)%len(all)]
	}
	return scenario{name: "a rollout with random faults", run: faultsAtRandomMoments}
}

// harm is done to a rollout in a moment, and undone. The rollout is to come to its end as if nothing had been.
type harm struct {
	name string
	do   func(*testing.T, *scene, *work)
}

func harms() []harm {
	return []harm{
		{name: "the worker is killed", do: restart((*devstack.Process).Kill, theWorker)},
		{name: "the worker stops", do: restart((*devstack.Process).Stop, theWorker)},
		{name: "Temporal is killed", do: restart((*devstack.Process).Kill, theTemporal)},
		{name: "Temporal stops", do: restart((*devstack.Process).Stop, theTemporal)},
		{name: "a spoke's API server is killed", do: restart((*devstack.Process).Kill, anAPIServer)},
		{name: "a spoke's API server stops", do: restart((*devstack.Process).Stop, anAPIServer)},
		{name: "the hub's API server stops", do: restart((*devstack.Process).Stop, theHub)},
		{name: "answers to writes are lost", do: faultyWrites(faultproxy.LoseAnswer())},
		{name: "writes are refused with 500", do: faultyWrites(faultproxy.Refuse(apierrors.NewInternalError(context.DeadlineExceeded)))},
		{name: "writes are refused with 429", do: faultyWrites(faultproxy.Refuse(apierrors.NewTooManyRequestsError("injected fault")))},
		{name: "pause and resume are repeated", do: func(t *testing.T, s *scene, w *work) {
			for _, signal := range []string{temporal.SignalPause, temporal.SignalPause, temporal.SignalResume, temporal.SignalResume} {
				_ = s.temporal.SignalWorkflow(t.Context(), w.workflow, "", signal, nil) // it may be over
			}
		}},
		{name: "it is cancelled", do: func(t *testing.T, s *scene, w *work) {
			_ = s.temporal.SignalWorkflow(t.Context(), w.workflow, "", temporal.SignalCancel, nil)
		}},
	}
}

// server is one that is ended, and the spokes whose answers to Drydock are lost with it.
type server struct {
	*devstack.Process
	silences []*devstack.Cluster
}

func theWorker(s *scene) server   { return server{s.Worker, s.Spokes} }
func theTemporal(s *scene) server { return server{s.Temporal.Process, nil} }
func theHub(s *scene) server      { return server{s.Hub.APIServer, nil} }

func anAPIServer(s *scene) server {
	spoke := s.Spokes[s.rand.IntN(len(s.Spokes))]
	return server{spoke.APIServer, []*devstack.Cluster{spoke}}
}

// restart stops a server and starts it again.
func restart(end func(*devstack.Process) error, which func(*scene) server) func(*testing.T, *scene, *work) {
	return func(t *testing.T, s *scene, _ *work) {
		server, began := which(s), time.Now()
		require.NoError(t, end(server.Process))
		require.NoError(t, server.Start(t.Context()))
		s.answers.lose(began, server.silences...)
	}
}

// faultyWrites applies a fault to some of the writes to all spokes, a few times each.
func faultyWrites(fault faultproxy.Fault) func(*testing.T, *scene, *work) {
	return func(_ *testing.T, s *scene, _ *work) {
		for _, spoke := range s.Spokes {
			s.inject(spoke, faultproxy.Rule{
				Match: faultproxy.Match{Verbs: faultproxy.Writes()}, Fault: fault, OneIn: 1 + s.rand.IntN(3), Times: 1 + s.rand.IntN(5),
			})
		}
	}
}

// faultsAtRandomMoments injects one to three faults, each at a random event in the history of the rollout, a cluster or a node.
func faultsAtRandomMoments(t *testing.T, s *scene) {
	of := s.anyShape()
	for _, cluster := range of.clusters {
		s.allow(t, cluster, s.rand.IntN(3))
		for _, node := range of.nodes {
			if annotations := s.anyPodBehaviour(); annotations != nil {
				s.guest(t, place{cluster, node}, annotations)
			}
		}
	}
	w := s.rollOut(t, of, func(spec *ranv1.ClusterGroupUpgradeSpec) {
		spec.NodeMaintenance.Action = job(map[string]string{devstack.AnnotationCompleteAfter: s.anyOf("0s", "300ms", "1s")})
	})
	all := harms()
	for range 1 + s.rand.IntN(3) {
		chosen := all[s.rand.IntN(len(all))]
		workflow, event := s.anyMoment(t, w, of)
		t.Logf("%s when %s has come to event %d", chosen.name, workflow, event)
		s.awaitMoment(t, workflow, event)
		chosen.do(t, s, w)
	}
	s.mayBeCancelled(t, w)
}

// allow sets how many nodes of a cluster may be in maintenance at once; 0 is the default.
func (s *scene) allow(t *testing.T, spoke *devstack.Cluster, atOnce int) {
	t.Helper()
	if atOnce == 0 {
		return
	}
	s.allowed[spoke.Name] = atOnce
	watched, err := s.Watch(t.Context(), spoke)
	require.NoError(t, err)
	config := &maintenancev1.MaintenanceOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Name: s.name, Namespace: namespace},
		Spec:       maintenancev1.MaintenanceOperatorConfigSpec{MaxParallelOperations: new(intstr.FromInt(atOnce))},
	}
	require.NoError(t, watched.Client.Create(t.Context(), config))
	t.Cleanup(func() { require.NoError(t, watched.Client.Delete(context.Background(), config)) })
}

func (s *scene) anyOf(values ...string) string { return values[s.rand.IntN(len(values))] }

// anyPodBehaviour returns annotations of a pod that blocks a drain; nil: no pod.
func (s *scene) anyPodBehaviour() map[string]string {
	if s.rand.IntN(2) == 0 {
		return nil
	}
	return map[string]string{devstack.AnnotationLeaveAfter: s.anyOf("0s", "500ms", "2s")}
}

// anyShape returns one to three clusters in any order, with one to three of their nodes.
func (s *scene) anyShape() shape {
	clusters, nodes := slices.Clone(s.Spokes), allNodes()
	s.rand.Shuffle(len(clusters), func(i, j int) { clusters[i], clusters[j] = clusters[j], clusters[i] })
	clusters = clusters[:1+s.rand.IntN(len(clusters))]
	for range len(nodes) - 1 - s.rand.IntN(3) {
		i := s.rand.IntN(len(nodes))
		nodes = slices.Delete(nodes, i, i+1)
	}
	return shape{clusters: clusters, nodes: nodes, maxConcurrency: 1 + s.rand.IntN(len(clusters))}
}

// anyMoment returns an event in the history of the rollout, a cluster or a node.
func (s *scene) anyMoment(t *testing.T, w *work, of shape) (workflow string, event int64) {
	t.Helper()
	at := place{of.clusters[s.rand.IntN(len(of.clusters))], of.nodes[s.rand.IntN(len(of.nodes))]}
	workflow = []string{w.workflow, w.ofCluster(at.spoke), w.ofNode(at)}[s.rand.IntN(3)]
	return workflow, 1 + s.rand.Int64N(60)
}

// awaitMoment waits until a history has that event or ends, or until the whole rollout ends.
func (s *scene) awaitMoment(t *testing.T, workflow string, moment int64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	go func() {
		_ = s.temporal.GetWorkflow(ctx, s.works[0].workflow, "").Get(ctx, nil)
		cancel()
	}()
	s.awaitBeginning(ctx, workflow)
	for events := s.temporal.GetWorkflowHistory(ctx, workflow, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext(); {
		event, err := events.Next()
		if err != nil || event.EventId >= moment {
			return
		}
	}
}

// awaitBeginning waits until a child of the rollout has started, or ctx is done.
func (s *scene) awaitBeginning(ctx context.Context, workflow string) {
	for _, parent := range parentsOf(s.works[0].workflow, workflow) {
		begun := false
		for events := s.temporal.GetWorkflowHistory(ctx, parent.id, "", true, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); events.HasNext() && !begun; {
			event, err := events.Next()
			if err != nil {
				return
			}
			begun = event.GetChildWorkflowExecutionStartedEventAttributes().GetWorkflowExecution().GetWorkflowId() == parent.child
		}
	}
}

type parent struct{ id, child string }

// parentsOf returns the workflows that must have started a child before a workflow starts, from the rollout on.
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

// mayBeCancelled accepts a cancelled rollout, because a cancel may be late.
func (s *scene) mayBeCancelled(t *testing.T, w *work) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitLimit)
	defer cancel()
	if err := s.temporal.GetWorkflow(ctx, w.workflow, "").Get(ctx, nil); sdktemporal.IsCanceledError(err) {
		w.end = cancelled
	}
}
