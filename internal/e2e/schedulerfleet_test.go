package e2e

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/converter"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/workflows/slots"
)

const (
	schedulerWorkers = 29
	zones            = 3
	requestorCount   = 3
	requestsEach     = 20

	// The budgets of the cluster.
	maxParallel       = 6
	maxUnavailable    = 7
	maxUnavailableFor = 3 // in each zone
	maxPooledZones    = 2 // zones with nodes of the pool in maintenance

	// labelPool marks every other node. The pool has its own budget.
	labelPool = "e2e.drydock.dev/pool"

	// seedVariable is the seed of a test.
	seedVariable = "E2E_SEED"
	// lastingFailure is how long some nodes stay down, much longer than observationDelay.
	lastingFailure = 30 * time.Second
)

// schedulerFleet is a fleet of one cluster with thirty nodes in three zones. Its workflows continue as new after 60 events.
type schedulerFleet struct {
	*fleet.Fleet
	spoke    *devstack.Cluster
	temporal client.Client
	random   *rand.Rand
}

func newSchedulerFleet(t *testing.T) *schedulerFleet {
	t.Helper()
	f, err := fleet.Start(t.Context(), fleet.Options{
		Spokes: 1, Workers: schedulerWorkers, Output: os.Stderr,
		Temporal: devstack.TemporalOptions{DynamicConfig: map[string]string{"limit.historyCount.suggestContinueAsNew": "60"}},
	})
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, f.Stop()) })
	connected, err := client.Dial(client.Options{HostPort: f.Temporal.Address, Namespace: f.Temporal.Namespace})
	require.NoError(t, err)
	t.Cleanup(connected.Close)
	a := &schedulerFleet{Fleet: f, spoke: f.Spokes[0], temporal: connected, random: newRandom(t)}
	a.prepare(t)
	return a
}

// newRandom returns a random source with another seed in each run, which it logs.
func newRandom(t *testing.T) *rand.Rand {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	if given := os.Getenv(seedVariable); given != "" {
		var err error
		seed, err = strconv.ParseUint(given, 10, 64)
		require.NoError(t, err, seedVariable)
	}
	t.Logf("to repeat: %s=%d go test ./internal/e2e -count 1 -v -run '^%s$'", seedVariable, seed, t.Name())
	return rand.New(rand.NewPCG(seed, 0))
}

// prepare adds zones, budgets and some pods to the cluster.
func (a *schedulerFleet) prepare(t *testing.T) {
	t.Helper()
	for _, name := range a.nodes() {
		labels, err := json.Marshal(nodeLabels(name))
		require.NoError(t, err)
		a.patch(t, name, fmt.Sprintf(`{"metadata":{"labels":%s}}`, labels))
	}
	watched, err := a.Watch(t.Context(), a.spoke)
	require.NoError(t, err)
	require.NoError(t, watched.Client.Create(t.Context(), &maintenancev1.MaintenanceOperatorConfig{
		ObjectMeta: metav1.ObjectMeta{Name: "budgets", Namespace: kube.SystemNamespace},
		Spec: maintenancev1.MaintenanceOperatorConfigSpec{
			MaxParallelOperations: new(intstr.FromInt32(maxParallel)), MaxUnavailable: new(intstr.FromInt32(maxUnavailable)),
			Budgets: []maintenancev1.Budget{
				{Name: "zones", TopologyKey: corev1.LabelTopologyZone, MaxUnavailable: new(intstr.FromInt32(maxUnavailableFor))},
				{
					Name: "pool", NodeSelector: &maintenancev1.BudgetSelector{MatchLabels: map[string]maintenancev1.LabelValue{labelPool: "yes"}},
					TopologyKey: corev1.LabelTopologyZone, MaxParallelZones: new(int32(maxPooledZones)),
				},
			},
		},
	}))
	pods := deployment("small", 20, nil)
	pods.Namespace = metav1.NamespaceDefault
	_, err = a.spoke.Client.AppsV1().Deployments(pods.Namespace).Create(t.Context(), pods, metav1.CreateOptions{})
	require.NoError(t, err)
	require.NoError(t, a.AwaitWorkloads(t.Context(), a.spoke))
}

func (a *schedulerFleet) nodes() (names []string) {
	for _, node := range devstack.Nodes(1, schedulerWorkers) {
		names = append(names, node.Name)
	}
	return names
}

func indexOfNode(node string) int {
	return slices.IndexFunc(devstack.Nodes(1, schedulerWorkers), func(n devstack.Node) bool { return n.Name == node })
}

func zoneOf(node string) string { return fmt.Sprintf("zone-%d", indexOfNode(node)%zones) }

// pooled reports whether a node is in the pool. The endless node is not, because its zone would count forever.
func pooled(node string) bool { return indexOfNode(node)%2 == 0 }

func nodeLabels(node string) map[string]string {
	labels := map[string]string{corev1.LabelTopologyZone: zoneOf(node)}
	if pooled(node) {
		labels[labelPool] = "yes"
	}
	return labels
}

func (a *schedulerFleet) patch(t *testing.T, node, patch string) {
	t.Helper()
	_, err := a.spoke.Client.CoreV1().Nodes().Patch(t.Context(), node, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	assert.NoError(t, err)
}

func (a *schedulerFleet) setReady(t *testing.T, node string, ready bool) {
	t.Helper()
	value := `"broken"`
	if ready {
		value = "null"
	}
	a.patch(t, node, fmt.Sprintf(`{"metadata":{"annotations":{%q:%s}}}`, devstack.AnnotationNotReady, value))
}

// endlessNode is the node of the endless request. Faults do not affect it.
const endlessNode = "worker-3"

// broken nodes are NotReady, and always count as unavailable.
func broken() []string { return []string{"worker-1", "worker-2"} }

func (a *schedulerFleet) breakNodes(t *testing.T) {
	t.Helper()
	for _, node := range broken() {
		a.setReady(t, node, false)
	}
	require.NoError(t, a.Await(t.Context(), a.spoke, "nodes are broken", []kubeclient.Object{&corev1.Node{}},
		func(ctx context.Context, reader kubeclient.Reader) (bool, error) {
			for _, name := range broken() {
				var node corev1.Node
				if err := reader.Get(ctx, kubeclient.ObjectKey{Name: name}, &node); err != nil || isReady(&node) {
					return false, err
				}
			}
			return true, nil
		}))
}

func isReady(node *corev1.Node) bool {
	return slices.ContainsFunc(node.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// faultyNodes are the nodes that faults may affect.
func (a *schedulerFleet) faultyNodes() []string {
	return slices.DeleteFunc(a.nodes(), func(name string) bool { return name == endlessNode || slices.Contains(broken(), name) })
}

// startRequests starts the maintenances of all requestors.
func (a *schedulerFleet) startRequests(t *testing.T) []*requestor {
	t.Helper()
	requestors, nodes := make([]*requestor, requestorCount), a.faultyNodes()
	for i := range requestors {
		requestors[i] = &requestor{schedulerFleet: a, id: fmt.Sprintf("%c.example.com", 'a'+i)}
	}
	requestors[0].start(t, 0, endlessNode)
	requestors[0].endless = requestors[0].requests[0]
	for n := range requestsEach {
		for _, r := range requestors {
			if len(r.requests) == n {
				r.start(t, n, nodes[a.random.IntN(len(nodes))])
			}
		}
	}
	return requestors
}

// concurrentRollout is the rollout that runs concurrently with the requestors.
const concurrentRollout = "concurrent"

// startRollout starts a rollout over ten of the nodes.
func (a *schedulerFleet) startRollout(t *testing.T) {
	t.Helper()
	workers := a.faultyNodes()[1:11] // the first is the control-plane node
	skipped := slices.DeleteFunc(a.nodes(), func(name string) bool { return slices.Contains(workers, name) })
	path := filepath.Join(t.TempDir(), "rollout.yaml")
	require.NoError(t, os.WriteFile(path, fmt.Appendf(nil, `
apiVersion: ran.openshift.io/v1alpha1
kind: ClusterGroupUpgrade
metadata: {name: %s, namespace: default}
spec:
  clusters: [%s]
  remediationStrategy: {maxConcurrency: 1, timeout: 60}
  nodeMaintenance: {skipNodes: [%s], drainSpec: {timeoutSeconds: 0}}
`, concurrentRollout, a.spoke.Name, strings.Join(skipped, ", ")), 0o600))
	require.NoError(t, a.Run(t.Context(), io.Discard, "upgrade", "start", "-f", path))
}

func (a *schedulerFleet) signal(t *testing.T, signal, id string) {
	// The workflow may be closed.
	_ = a.temporal.SignalWorkflow(t.Context(), id, "", signal, temporal.SignalRequest{})
}

func (a *schedulerFleet) awaitEnd(t *testing.T, id string) error {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), commandLimit)
	defer cancel()
	return a.temporal.GetWorkflow(ctx, id, "").Get(ctx, nil)
}

// awaitQueue waits until the queue of the scheduler has that size, and returns it.
func (a *schedulerFleet) awaitQueue(t *testing.T, size int) []scheduling.QueueEntry {
	t.Helper()
	var status slots.SchedulerStatus
	require.Eventually(t, func() bool {
		value, err := a.temporal.QueryWorkflow(t.Context(), temporal.MaintenanceSchedulerID(a.spoke.Name), "", temporal.QueryStatus)
		status = slots.SchedulerStatus{}
		return err == nil && value.Get(&status) == nil && len(status.Queue) == size
	}, stateLimit, 200*time.Millisecond, "%+v", &status)
	return status.Queue
}

// runsOfScheduler are the inputs of all runs of the scheduler.
func (a *schedulerFleet) runsOfScheduler(t *testing.T) (runs []slots.SchedulerInput) {
	t.Helper()
	query := fmt.Sprintf("WorkflowId = '%s'", temporal.MaintenanceSchedulerID(a.spoke.Name))
	page, err := a.temporal.ListWorkflow(t.Context(), &workflowservice.ListWorkflowExecutionsRequest{Query: query})
	require.NoError(t, err)
	for _, run := range page.GetExecutions() {
		id := run.GetExecution()
		event, err := a.temporal.GetWorkflowHistory(t.Context(), id.GetWorkflowId(), id.GetRunId(), false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT).Next()
		require.NoError(t, err)
		var in slots.SchedulerInput
		require.NoError(t, converter.GetDefaultDataConverter().FromPayloads(event.GetWorkflowExecutionStartedEventAttributes().GetInput(), &in))
		runs = append(runs, in)
	}
	return runs
}

// carriesSlot reports whether a run started with a slot that an owner had in the run before.
func carriesSlot(run slots.SchedulerInput, owner string) bool {
	return run.Carried != nil && slices.ContainsFunc(run.Carried.Slots.Requesters, func(r *scheduling.Requester) bool {
		return r.Owner.WorkflowID == owner && slices.ContainsFunc(r.Slots, func(e scheduling.SlotEntry) bool { return e.Status == scheduling.SlotGranted })
	})
}

// drawLastingFailures chooses nodes for long failures: with the broken node of their zone, they use up the budget of the zone.
func (a *schedulerFleet) drawLastingFailures() (down, others []string) {
	others = a.faultyNodes()
	a.random.Shuffle(len(others), func(i, j int) { others[i], others[j] = others[j], others[i] })
	for len(down) < maxUnavailableFor-1 {
		i := slices.IndexFunc(others, func(name string) bool { return zoneOf(name) == zoneOf(broken()[0]) })
		down, others = append(down, others[i]), slices.Delete(others, i, i+1)
	}
	return down, others
}

// injectFaults injects faults in random order at random moments, and returns after all of them.
func (a *schedulerFleet) injectFaults(t *testing.T, o *observer) {
	moment := func() { <-time.After(time.Duration(1+a.random.IntN(2000)) * time.Millisecond) }
	down, others := a.drawLastingFailures()
	for _, node := range down {
		a.setReady(t, node, false)
	}
	known, repaired := time.After(observationDelay), time.After(lastingFailure)
	anyNode := func() string { return others[a.random.IntN(len(others))] }
	flicker := func() {
		node := anyNode()
		a.setReady(t, node, false)
		<-time.After(observationDelay)
		moment()
		a.setReady(t, node, true)
	}
	replace := func() {
		node := anyNode()
		assert.NoError(t, a.spoke.Client.CoreV1().Nodes().Delete(t.Context(), node, metav1.DeleteOptions{}))
		moment()
		assert.NoError(t, a.spoke.AddNodes(t.Context(), devstack.Node{Name: node, Labels: nodeLabels(node)}))
	}
	terminate := func() {
		// An owner that releases its slot restarts the scheduler. Waiting requesters would do so only after minutes.
		assert.Eventually(t, func() bool {
			return o.inMaintenance() > 2 && a.temporal.TerminateWorkflow(t.Context(), temporal.MaintenanceSchedulerID(a.spoke.Name), "", "by hand") == nil
		}, stateLimit, 50*time.Millisecond)
	}
	faults := []func(){flicker, flicker, replace, replace, terminate, terminate}
	a.random.Shuffle(len(faults), func(i, j int) { faults[i], faults[j] = faults[j], faults[i] })
	for _, inject := range faults {
		moment()
		inject()
	}
	<-known // the scheduler must know these failures before the worker is killed
	moment()
	o.workerCrashed()
	assert.NoError(t, a.Worker.Kill())
	assert.NoError(t, a.Worker.Start(t.Context()))
	<-repaired
	for _, node := range down {
		a.setReady(t, node, true)
	}
}
