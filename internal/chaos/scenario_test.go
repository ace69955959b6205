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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"sigs.k8s.io/controller-runtime/pkg/client"
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
	// byObject: objects in clusters request its work, instead of the CLI.
	byObject bool
}

// crashPoint is a state in which a worker ends, and how it ends.
type crashPoint struct {
	state
	end
}

// scenarios are all scenarios.
func scenarios() []scenario {
	return slices.Concat(workerCrashes(), slots(), twoWorkers(), apiServers(), outages(), objects(), deletedClusters(), signals(), terminations(), emergencyStops(), harborCrashes(), onboardings())
}

// scenarioRun is a running scenario.
type scenarioRun struct {
	*testFleet
	// name is the prefix of the names of all objects of the scenario.
	name string
	rand *rand.Rand
	// began is the start of the scenario. Earlier actions are ignored.
	began    time.Time
	mu       sync.Mutex
	byObject bool
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
	// object requested it in a cluster; nil: the CLI did.
	object  *unstructured.Unstructured
	cluster *devstack.Cluster
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
	s.deleteObjects(t)
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
	w := &work{
		name: name, workflow: temporal.NodeMaintenanceID(at.spoke.Name, namespace, name), job: spec.Action != nil,
		nodes: map[string][]string{at.spoke.Name: {at.node}}, end: ended,
	}
	s.request(t, w, at.spoke, objectOf(t, maintenancev1.GroupVersion.WithKind("NodeMaintenance"), name, &spec), "node", "maintain", "--cluster", at.spoke.Name)
	return w
}

// objectOf returns an object with a spec.
func objectOf(t *testing.T, kind schema.GroupVersionKind, name string, spec any) *unstructured.Unstructured {
	t.Helper()
	fields, err := runtime.DefaultUnstructuredConverter.ToUnstructured(spec)
	require.NoError(t, err)
	object := &unstructured.Unstructured{Object: map[string]any{"spec": fields}}
	object.SetGroupVersionKind(kind)
	object.SetNamespace(namespace)
	object.SetName(name)
	return object
}

// request requests work with an object in a cluster, or with the command of the CLI that reads such an object.
func (s *scenarioRun) request(t *testing.T, w *work, cluster *devstack.Cluster, object *unstructured.Unstructured, command ...string) {
	t.Helper()
	if s.byObject {
		w.object, w.cluster = object, cluster
		require.NoError(t, objectClient(t, cluster).Create(t.Context(), object))
		require.Eventually(t, func() bool {
			_, err := s.temporal.DescribeWorkflowExecution(t.Context(), w.workflow, "")
			return err == nil
		}, waitLimit, 100*time.Millisecond, "%s does not start", w.workflow)
	} else {
		s.drydock(t, append(command, "-f", s.manifest(t, object))...)
	}
	s.started(w)
}

func (s *scenarioRun) started(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works = append(s.works, w)
}

func objectClient(t *testing.T, cluster *devstack.Cluster) client.Client {
	t.Helper()
	c, err := client.New(cluster.Config, client.Options{})
	require.NoError(t, err)
	return c
}

// deleteObjects deletes the objects that requested work that has ended. They are released at once.
func (s *scenarioRun) deleteObjects(t *testing.T) {
	t.Helper()
	for _, w := range s.works {
		if w.object == nil {
			continue
		}
		c := objectClient(t, w.cluster)
		require.NoError(t, c.Delete(t.Context(), w.object))
		require.Eventually(t, func() bool {
			return apierrors.IsNotFound(c.Get(t.Context(), client.ObjectKeyFromObject(w.object), w.object))
		}, waitLimit, 100*time.Millisecond, "%s is not released", w.name)
	}
}

// namespace of maintenances and rollouts.
const namespace = "default"

// manifest writes an object to a file and returns its path.
func (s *scenarioRun) manifest(t *testing.T, object *unstructured.Unstructured) string {
	t.Helper()
	content, err := yaml.Marshal(object)
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), object.GetName()+".yaml")
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
