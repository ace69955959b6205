package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// scenario injects a fault into running work.
type scenario struct {
	name string
	// short scenarios are part of every test run.
	short bool
	run   func(*testing.T, *scenarioRun)
	// crashes are the states in which the scenario ends a worker.
	crashes []crashPoint
}

// crashPoint is a state in which a worker ends, and how it ends.
type crashPoint struct {
	state
	end
}

// scenarios are all scenarios.
func scenarios() []scenario {
	return slices.Concat(workerCrashes(), slots(), twoWorkers(), apiServers(), outages(), objects(), deletedClusters(), signals(), terminations(), emergencyStops(), harborCrashes())
}

// scenarioRun is a running scenario.
type scenarioRun struct {
	*testFleet
	// name is the prefix of the names of all objects of the scenario.
	name string
	rand *rand.Rand
	// began is the start of the scenario. Earlier actions are ignored.
	began time.Time
	mu    sync.Mutex
	// works are the maintenances and rollouts that the scenario has started.
	works   []*work
	answers lostAnswers
	// registered are the ManagedClusters of the hub before the scenario.
	registered map[string]registration
	// allowed is how many nodes of a cluster may be in maintenance at once; absent: one.
	allowed map[string]int
}

// work is a maintenance or a rollout that a scenario has started, with its expected result.
type work struct {
	// name of the object, and the ID of its workflow.
	name, workflow string
	// nodes, by cluster, that it must maintain exactly once if it completes.
	nodes map[string][]string
	// job: each node has a Job.
	job bool
	// rollout: it is a rollout, not a single maintenance.
	rollout bool
	// plan of a rollout: its clusters by batch, and how many of them may run at once.
	plan           [][]string
	maxConcurrency int
	// end is how it ends: ended, cancelled, terminated, or the type of its error.
	end string
	// terminated: it or a child was terminated.
	terminated bool
	// maintainedAgain: another maintenance maintains its nodes afterwards.
	maintainedAgain bool
	// labels: it labels its clusters at its start, and removes the label at its end.
	labels bool
}

// startScenario starts a scenario on the shared fleet.
func startScenario(t *testing.T, name string, seed uint64) *scenarioRun {
	t.Helper()
	s := &scenarioRun{testFleet: useFleet(t), name: name, rand: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), allowed: map[string]int{}}
	t.Cleanup(func() { s.repair(t) })
	s.registered = s.registrations(t)
	return s
}

// finish waits for the end of all work, and checks it.
func (s *scenarioRun) finish(t *testing.T) {
	t.Helper()
	s.requireEnds(t)
	for _, spoke := range s.Spokes {
		require.NoError(t, s.AwaitCleanup(t.Context(), spoke))
	}
	for _, spoke := range s.Spokes {
		s.requireNoSlots(t, spoke)
	}
	s.requireHubRestored(t)
	requireInvariants(t, s)
}

// repair restores the fleet, so that a failed scenario does not fail the next ones.
func (s *scenarioRun) repair(t *testing.T) {
	ctx := context.Background()
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).RemoveAll()
	}
	if !t.Failed() {
		return
	}
	for _, cluster := range s.Clusters() {
		_ = cluster.APIServer.Start(ctx) // it may be running
	}
	_ = s.Worker.Kill()
	require.NoError(t, s.Worker.Start(ctx))
	for _, w := range s.works {
		_ = s.temporal.SignalWorkflow(ctx, w.workflow, "", temporal.SignalCancel, nil) // it may be closed
	}
	for _, spoke := range s.Spokes {
		s.clear(t, spoke)
	}
	s.unlabel(t)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, w := range s.works {
		_ = s.temporal.GetWorkflow(ctx, w.workflow, "").Get(ctx, nil) // ignore the result
	}
}

// commandLimit ends a command that waits for a workflow.
const commandLimit = time.Minute

// drydock runs a drydock command that must succeed.
func (s *scenarioRun) drydock(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	var stdout, stderr bytes.Buffer
	cmd := s.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	require.NoError(t, cmd.Run(), "drydock %v: %s%s", args, stdout.String(), stderr.String())
	return stdout.String()
}

// maintain starts the maintenance of a node from a manifest. With a nil spec.Action the test is the requestor that works on the node.
func (s *scenarioRun) maintain(t *testing.T, at target, spec maintenancev1.NodeMaintenanceSpec) *work {
	t.Helper()
	return s.maintainFor(t, at, requestor, spec)
}

// requestor is the default requestor of nodes.
const requestor = "chaos.example.com"

// maintainFor is maintain for another requestor.
func (s *scenarioRun) maintainFor(t *testing.T, at target, requestorID string, spec maintenancev1.NodeMaintenanceSpec) *work {
	t.Helper()
	spec.RequestorID, spec.NodeName = requestorID, at.node
	name := s.name + "-" + at.spoke.Name + "-" + at.node
	if requestorID != requestor {
		name += "-" + requestorID
	}
	s.drydock(t, "node", "maintain", "--cluster", at.spoke.Name, "-f", s.manifest(t, maintenancev1.GroupVersion.String(), "NodeMaintenance", name, spec))
	w := &work{
		name: name, workflow: temporal.NodeMaintenanceID(at.spoke.Name, namespace, name), job: spec.Action != nil,
		nodes: map[string][]string{at.spoke.Name: {at.node}}, end: ended,
	}
	s.started(w)
	return w
}

func (s *scenarioRun) started(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works = append(s.works, w)
}

// namespace of maintenances and rollouts.
const namespace = "default"

// manifest writes an object to a file and returns its path.
func (s *scenarioRun) manifest(t *testing.T, apiVersion, kind, name string, spec any) string {
	t.Helper()
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// target is a node of a spoke.
type target struct {
	spoke *devstack.Cluster
	node  string
}

func (p target) String() string { return p.spoke.Name + "/" + p.node }

// targets returns random worker nodes of the spokes without the demo.
func (s *scenarioRun) targets(t *testing.T, count int) []target {
	t.Helper()
	var free []target
	for node := range workers {
		for _, spoke := range s.Spokes[1:] {
			free = append(free, target{spoke, fmt.Sprintf("worker-%d", node+1)})
		}
	}
	require.LessOrEqual(t, count, len(free))
	for _, spoke := range s.Spokes[1:] {
		if s.allowed[spoke.Name] == 0 {
			s.allow(t, spoke, workers) // no node may wait for another
		}
	}
	s.rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	return free[:count]
}

// lockedNode returns a node with a lock of the vRouter.
func (s *scenarioRun) lockedNode() target { return target{s.Spokes[0], "worker-1"} }

// oneNodePerSpoke returns a node of each spoke. The one with the workloads of the demo comes last.
func (s *scenarioRun) oneNodePerSpoke() []target {
	return []target{{s.Spokes[1], "worker-1"}, {s.Spokes[2], "worker-1"}, {s.Spokes[0], "worker-1"}}
}
