package chaos

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	"sigs.k8s.io/yaml"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/temporal"
)

// scenario is one story of harm.
type scenario struct {
	name string
	// short scenarios are part of every test run.
	short bool
	run   func(*testing.T, *scene)
	// deaths are the states in which a worker dies in it.
	deaths []mortal
}

// mortal is a state in which a worker dies, and how.
type mortal struct {
	state
	end
}

// scene is one scenario as it plays.
type scene struct {
	*stage
	// name begins the names of all that the scenario makes.
	name string
	rand *rand.Rand
	// began is when; what was done before is not the scenario's.
	began time.Time
	mu    sync.Mutex
	// works are the maintenances and rollouts that it has started.
	works   []*work
	answers lostAnswers
	// registered are the ManagedClusters of the hub as the scenario found them.
	registered map[string]registration
	// allowed is how many nodes of a cluster may be at work at once, whoever asks for them; absent: one.
	allowed map[string]int
}

// work is a maintenance or a rollout that a scenario has started, and what must come of it.
type work struct {
	// name of the object, and workflow, its id.
	name, workflow string
	// nodes that it must have maintained, each once, by cluster, when it has ended.
	nodes map[string][]string
	// job: there is a Job for each of them.
	job bool
	// rollout: it is no maintenance of a single node.
	rollout bool
	// plan of a rollout: its clusters by batches, and how many of them may be at work at once.
	plan           [][]string
	maxConcurrency int
	// end is how it ends: ended, cancelled, terminated, or the type of its error.
	end string
	// terminated: it, or a part of it, was.
	terminated bool
	// followed: its nodes are maintained once more, for somebody else.
	followed bool
	// labels: it gives its clusters a label at its beginning, and takes it away at its end.
	labels bool
}

// newScene begins a scenario on a stage that nothing of Drydock's is left on.
func newScene(t *testing.T, name string, seed uint64) *scene {
	t.Helper()
	s := &scene{stage: theStage, name: name, rand: rand.New(rand.NewPCG(seed, 0)), began: time.Now(), allowed: map[string]int{}}
	t.Cleanup(func() { s.mend(t) })
	s.registered = s.registrations(t)
	return s
}

// finish waits for the end of all that was started, and judges it.
func (s *scene) finish(t *testing.T) {
	t.Helper()
	s.requireEnds(t)
	for _, spoke := range s.Spokes {
		require.NoError(t, s.AwaitNothingLeft(t.Context(), spoke))
	}
	for _, spoke := range s.Spokes {
		s.requireNoSlotTaken(t, spoke)
	}
	s.requireHubAsItWas(t)
	requireInvariants(t, s)
}

// mend makes the stage whole again, so that a scenario that fails does not fail those after it.
func (s *scene) mend(t *testing.T) {
	ctx := context.Background()
	for _, cluster := range s.Clusters() {
		s.Proxy(cluster).Heal()
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
		_ = s.temporal.SignalWorkflow(ctx, w.workflow, "", temporal.SignalCancel, nil) // it may be over
	}
	for _, spoke := range s.Spokes {
		s.clear(t, spoke)
	}
	s.unlabel(t)
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	for _, w := range s.works {
		_ = s.temporal.GetWorkflow(ctx, w.workflow, "").Get(ctx, nil) // how it ends does not matter any more
	}
}

// commandLimit ends a command that follows something that never ends.
const commandLimit = time.Minute

// must runs a drydock command that has to succeed.
func (s *scene) must(t *testing.T, args ...string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	var out, complaint bytes.Buffer
	cmd := s.Command(ctx, args...)
	cmd.Stdout, cmd.Stderr = &out, &complaint
	require.NoError(t, cmd.Run(), "drydock %v: %s%s", args, out.String(), complaint.String())
	return out.String()
}

// maintain starts the maintenance of a node from a manifest. A nil spec.Action hands the node over to us.
func (s *scene) maintain(t *testing.T, at place, spec maintenancev1.NodeMaintenanceSpec) *work {
	t.Helper()
	return s.maintainFor(t, at, requestor, spec)
}

// requestor is who asks for a node unless it matters.
const requestor = "chaos.example.com"

// maintainFor is maintain for another requestor.
func (s *scene) maintainFor(t *testing.T, at place, who string, spec maintenancev1.NodeMaintenanceSpec) *work {
	t.Helper()
	spec.RequestorID, spec.NodeName = who, at.node
	name := s.name + "-" + at.spoke.Name + "-" + at.node
	if who != requestor {
		name += "-" + who
	}
	s.must(t, "node", "maintain", "--cluster", at.spoke.Name, "-f", s.manifest(t, maintenancev1.GroupVersion.String(), "NodeMaintenance", name, spec))
	w := &work{
		name: name, workflow: temporal.NodeMaintenanceID(at.spoke.Name, namespace, name), job: spec.Action != nil,
		nodes: map[string][]string{at.spoke.Name: {at.node}}, end: ended,
	}
	s.started(w)
	return w
}

func (s *scene) started(w *work) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.works = append(s.works, w)
}

// namespace of maintenances and rollouts.
const namespace = "default"

// manifest writes an object to a file and returns its path.
func (s *scene) manifest(t *testing.T, apiVersion, kind, name string, spec any) string {
	t.Helper()
	content, err := yaml.Marshal(map[string]any{
		"apiVersion": apiVersion, "kind": kind, "metadata": map[string]any{"name": name, "namespace": namespace}, "spec": spec,
	})
	require.NoError(t, err)
	path := filepath.Join(t.TempDir(), name+".yaml")
	require.NoError(t, os.WriteFile(path, content, 0o600))
	return path
}

// place is where a maintenance plays.
type place struct {
	spoke *devstack.Cluster
	node  string
}

func (p place) String() string { return p.spoke.Name + "/" + p.node }

// places returns that many worker nodes, as the seed has it, of the spokes where only the scenario is at work.
func (s *scene) places(t *testing.T, count int) []place {
	t.Helper()
	var free []place
	for node := range workers {
		for _, spoke := range s.Spokes[1:] {
			free = append(free, place{spoke, fmt.Sprintf("worker-%d", node+1)})
		}
	}
	require.LessOrEqual(t, count, len(free))
	for _, spoke := range s.Spokes[1:] {
		if s.allowed[spoke.Name] == 0 {
			s.allow(t, spoke, workers) // one place must not wait for another
		}
	}
	s.rand.Shuffle(len(free), func(i, j int) { free[i], free[j] = free[j], free[i] })
	return free[:count]
}

// lockedPlace is a node that the vRouter holds.
func (s *scene) lockedPlace() place { return place{s.Spokes[0], "worker-1"} }

// onePlaceEach returns a place on each spoke. That with the workloads of the demo comes last.
func (s *scene) onePlaceEach() []place {
	return []place{{s.Spokes[1], "worker-1"}, {s.Spokes[2], "worker-1"}, {s.Spokes[0], "worker-1"}}
}
