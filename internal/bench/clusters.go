package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	kubeclient "sigs.k8s.io/controller-runtime/pkg/client"

	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/devstack/manyclusters"
	"drydock.dev/drydock/internal/kube"
)

// ClustersResult is what one worker needs for many clusters. Their API servers are simulated, the hub's is real.
type ClustersResult struct {
	Size ClustersSize `json:"size"`
	// Hub is the worker with its hub only.
	Hub WorkerState `json:"hub"`
	// Started is the time in seconds until the objects of all clusters are watched. StartRequests are the requests of the start for each cluster.
	Started       float64            `json:"started"`
	StartCPU      float64            `json:"startCPUSeconds"`
	StartRequests map[string]float64 `json:"startRequests"`
	// Rest is the worker after RestSeconds at rest.
	Rest        WorkerState `json:"rest"`
	RestSeconds float64     `json:"restSeconds"`
	RestCPU     float64     `json:"restCPUSeconds"`
	// RestRequests are the requests at rest for each cluster and minute, and TemporalCPU is the CPU time of Temporal meanwhile.
	RestRequests map[string]float64 `json:"restRequests"`
	TemporalCPU  float64            `json:"temporalCPUSeconds"`
	// Rollout is nil if no nodes were maintained.
	Rollout *ClustersRollout `json:"rollout,omitempty"`
}

// WorkerState is a worker at one moment.
type WorkerState struct {
	MemoryBytes int64 `json:"memoryBytes"`
	Goroutines  int   `json:"goroutines"`
	Usage
}

// ClustersRollout is a rollout that maintains all nodes of all clusters.
type ClustersRollout struct {
	Wall float64 `json:"wall"`
	// Requests are those for each node. Cost is that of the histories for each node.
	Requests map[string]float64 `json:"requests"`
	Cost
	Usages
	// Stored is what PostgreSQL stores after the rollout, and did not before.
	Stored devstack.Stored `json:"stored,omitzero"`
}

const (
	// restTime is how long a worker is measured at rest.
	restTime = 5 * time.Minute
	// settleTime is how long a worker may still ask a cluster what it serves after it has begun to watch.
	settleTime = 90 * time.Second
	// podsOfNode are the pods of each node of a simulated cluster.
	podsOfNode = 2
	// defaultNodes are the nodes of a simulated cluster if none is maintained.
	defaultNodes = 3
)

// runClusters measures each number of clusters on its own fleet.
func (r *Report) runClusters(ctx context.Context, sizes []ClustersSize, progress io.Writer) error {
	for _, size := range sizes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		result, err := clustersOnFleet(ctx, size, restTime, progress)
		if err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		r.Clusters = append(r.Clusters, result)
	}
	return nil
}

func clustersOnFleet(ctx context.Context, size ClustersSize, rest time.Duration, progress io.Writer) (ClustersResult, error) {
	simulated, err := simulatedClusters(size)
	if err != nil {
		return ClustersResult{}, err
	}
	result := ClustersResult{Size: size}
	// By default a worker has no controller of the annotations of nodes, which reads all nodes.
	f, err := fleet.Start(ctx, fleet.Options{
		WorkerArguments: []string{"--node-annotations=false"}, WorkerEnv: chartContainer(), Temporal: temporalServer(size.OnPostgreSQL), Output: progress,
	})
	if err == nil {
		err = errors.Join(result.measure(ctx, f, simulated, rest, progress), f.Stop())
	}
	return result, errors.Join(err, simulated.Close())
}

// watchedKinds are the resources of Drydock that each simulated cluster serves. It serves no HarborClusters, as most clusters.
var watchedKinds = []string{"nodemaintenances", "maintenanceoperatorconfigs", "workloadlockpolicies"}

func simulatedClusters(size ClustersSize) (manyclusters.Clusters, error) {
	served := append([]string{"clustermaintenancerequests", "nodemaintenancerequests", "clusterworkloadlocks", "nodeworkloadlocks", "nodedeletionrequests", "nodedisablenotifications"}, watchedKinds...)
	definitions, err := manyclusters.Definitions("deploy/crds", served...)
	if err != nil {
		return nil, err
	}
	var names []string
	for i := range size.Clusters {
		names = append(names, clusterName(i))
	}
	return manyclusters.Start(names, manyclusters.Options{Definitions: definitions, Objects: func(string) []runtime.Object { return size.objects() }})
}

// objects are those of each simulated cluster.
func (s ClustersSize) objects() []runtime.Object {
	objects := []runtime.Object{
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceSystem}},
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: metav1.NamespaceDefault}},
	}
	nodes := s.Nodes
	if nodes == 0 {
		nodes = defaultNodes
	}
	for i := range nodes {
		node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprintf("worker-%d", i+1), Labels: map[string]string{workerLabel: ""}}}
		node.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: "KubeletReady"}}
		objects = append(objects, node)
		for j := range podsOfNode {
			objects = append(objects, &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{
					Namespace: metav1.NamespaceDefault, Name: fmt.Sprintf("%s-pod-%d", node.Name, j+1),
					OwnerReferences: []metav1.OwnerReference{{APIVersion: "apps/v1", Kind: "ReplicaSet", Name: "app", UID: "app", Controller: new(true)}},
				},
				Spec: corev1.PodSpec{NodeName: node.Name, Containers: []corev1.Container{{Name: "app", Image: image}}},
				Status: corev1.PodStatus{
					Phase: corev1.PodRunning, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
				},
			})
		}
	}
	return objects
}

func (r *ClustersResult) measure(ctx context.Context, f *fleet.Fleet, simulated manyclusters.Clusters, rest time.Duration, progress io.Writer) error {
	var err error
	if r.Hub, err = stateOf(ctx, f); err != nil {
		return err
	}
	if err := f.Worker.Stop(); err != nil {
		return err
	}
	if err := addClusters(f, simulated); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: start\n", r.Size)
	if err := r.start(ctx, f, simulated); err != nil {
		return err
	}
	fmt.Fprintf(progress, "%s: all watched after %s; at rest\n", r.Size, seconds(r.Started))
	if err := r.rest(ctx, f, simulated, rest); err != nil || r.Size.Nodes == 0 {
		return err
	}
	fmt.Fprintf(progress, "%s: roll out\n", r.Size)
	return r.rollOut(ctx, f, simulated)
}

// addClusters has the next worker serve the clusters.
func addClusters(f *fleet.Fleet, simulated manyclusters.Clusters) error {
	var entries []kube.ClusterEntry
	for _, cluster := range simulated {
		path := filepath.Join(f.Dir, cluster.Name+".kubeconfig")
		if err := devstack.WriteKubeconfig(path, cluster.Name, cluster.Config); err != nil {
			return err
		}
		entries = append(entries, kube.ClusterEntry{Name: cluster.Name, KubeconfigContext: kube.KubeconfigContext{Kubeconfig: path, Context: cluster.Name}})
	}
	return f.AddClusters(entries...)
}

// start measures the worker until the kinds of all clusters are watched.
func (r *ClustersResult) start(ctx context.Context, f *fleet.Fleet, simulated manyclusters.Clusters) error {
	began := time.Now()
	if err := f.Worker.Start(ctx); err != nil {
		return err
	}
	if err := wait.PollUntilContextCancel(ctx, time.Second, true, func(context.Context) (bool, error) {
		for _, cluster := range simulated {
			requests := cluster.Requests()
			for _, kind := range watchedKinds {
				if requests["watch "+kind] == 0 {
					return false, nil
				}
			}
		}
		return true, nil
	}); err != nil {
		return err
	}
	r.Started = time.Since(began).Seconds()
	used, err := usageOf(f.Worker.PID())
	r.StartCPU, r.StartRequests = used.CPUSeconds, each(nil, simulated.Requests(), float64(r.Size.Clusters))
	return err
}

// rest measures the worker while no object changes.
func (r *ClustersResult) rest(ctx context.Context, f *fleet.Fleet, simulated manyclusters.Clusters, rest time.Duration) error {
	pause := func(d time.Duration) error {
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(d):
			return nil
		}
	}
	if err := pause(min(settleTime, rest)); err != nil {
		return err
	}
	before, err := usagesOf(ctx, f)
	if err != nil {
		return err
	}
	requests := simulated.Requests()
	if err := pause(rest); err != nil {
		return err
	}
	after, err := usagesOf(ctx, f)
	if err != nil {
		return err
	}
	r.RestSeconds = rest.Seconds()
	r.RestCPU, r.TemporalCPU = after.Worker.since(before.Worker).CPUSeconds, after.Temporal.since(before.Temporal).CPUSeconds
	r.RestRequests = each(requests, simulated.Requests(), float64(r.Size.Clusters)*rest.Minutes())
	r.Rest, err = stateOf(ctx, f)
	return err
}

// rollOut maintains all nodes of all clusters with one rollout.
func (r *ClustersResult) rollOut(ctx context.Context, f *fleet.Fleet, simulated manyclusters.Clusters) error {
	server, err := dial(ctx, f)
	if err != nil {
		return err
	}
	defer server.Close()
	hub, err := kubeclient.NewWithWatch(f.Hub.Config, kubeclient.Options{})
	if err != nil {
		return err
	}
	if err := (&simulatedHub{fleet: f, hub: hub, server: server}).register(ctx, r.Size.Clusters); err != nil {
		return err
	}
	cgu := (&measurement{size: Size{DrainOnly: true}, spoke: &devstack.Cluster{}}).rollout("clusters")
	cgu.Spec.Clusters, cgu.Spec.ClusterLabelSelectors = nil, []metav1.LabelSelector{{MatchLabels: benchLabels}}
	cgu.Spec.RemediationStrategy = ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt(r.Size.AtOnce), Timeout: 240}
	stored, err := storedBy(ctx, f)
	if err != nil {
		return err
	}
	before, err := usagesOf(ctx, f)
	if err != nil {
		return err
	}
	requests := simulated.Requests()
	histories, err := rollOut(ctx, f, server, cgu)
	if err != nil {
		return err
	}
	after, err := usagesOf(ctx, f)
	if err != nil {
		return err
	}
	storedAfter, err := storedBy(ctx, f)
	if err != nil {
		return err
	}
	nodes := r.Size.Clusters * r.Size.Nodes
	done := each(requests, simulated.Requests(), float64(nodes))
	if done["create pods/eviction"] != podsOfNode {
		return fmt.Errorf("%.2f pods of each node were evicted, not %d", done["create pods/eviction"], podsOfNode)
	}
	r.Rollout = &ClustersRollout{
		Wall: histories[len(histories)-1].ended().Sub(histories[0].began()).Seconds(), Requests: done, Cost: costOf(histories, nodes),
		Usages: after.since(before), Stored: storedAfter.Since(stored),
	}
	return nil
}

// each returns the new requests, divided.
func each(before, after map[string]int, by float64) map[string]float64 {
	found := map[string]float64{}
	for request, count := range after {
		if more := count - before[request]; more > 0 {
			found[request] = float64(more) / by
		}
	}
	return found
}

// stateOf reads the state of the fleet's worker.
func stateOf(ctx context.Context, f *fleet.Fleet) (WorkerState, error) {
	used, err := usageOf(f.Worker.PID())
	if err != nil {
		return WorkerState{}, err
	}
	state := WorkerState{Usage: used}
	if state.MemoryBytes, err = memoryOf(f.Worker.PID()); err != nil {
		return WorkerState{}, err
	}
	state.Goroutines, err = goroutinesOf(ctx, f.WorkerHealth)
	return state, err
}

func goroutinesOf(ctx context.Context, health string) (int, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+health+"/metrics", nil)
	if err != nil {
		return 0, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return 0, err
	}
	defer response.Body.Close()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(response.Body)
	if err != nil {
		return 0, err
	}
	for _, metric := range families["go_goroutines"].GetMetric() {
		return int(metric.GetGauge().GetValue()), nil
	}
	return 0, errors.New("the worker has no metric go_goroutines")
}

// print writes the result as text.
func (r ClustersResult) print(out io.Writer) {
	const mib = 1 << 20
	grown := r.Rest.MemoryBytes - r.Hub.MemoryBytes
	fmt.Fprintf(out, "%s: all watched after %s with %s of CPU and %s for each cluster\n", counted(r.Size.Clusters, "cluster"), seconds(r.Started), seconds(r.StartCPU), requestsText(r.StartRequests, "request"))
	fmt.Fprintf(out, "  at rest: %d MiB (%d without clusters, %d KiB each, at most %d MiB); %d goroutines (%d without clusters, %.1f each); CPU %s in %s, Temporal %s; for each cluster and minute %s\n",
		r.Rest.MemoryBytes/mib, r.Hub.MemoryBytes/mib, grown>>10/int64(r.Size.Clusters), r.Rest.PeakMemoryBytes/mib,
		r.Rest.Goroutines, r.Hub.Goroutines, float64(r.Rest.Goroutines-r.Hub.Goroutines)/float64(r.Size.Clusters),
		seconds(r.RestCPU), seconds(r.RestSeconds), seconds(r.TemporalCPU), requestsText(r.RestRequests, "request"))
	if r.Rollout != nil {
		fmt.Fprintf(out, "  rollout over %s each, %d clusters at once: %s; worker at most %d MiB, %s of CPU; Temporal %s; for each node %.1f events, %.1f activities, %s\n",
			counted(r.Size.Nodes, "node"), r.Size.AtOnce, seconds(r.Rollout.Wall), r.Rollout.Worker.PeakMemoryBytes/mib, seconds(r.Rollout.Worker.CPUSeconds),
			seconds(r.Rollout.Temporal.CPUSeconds), r.Rollout.EventsEach, r.Rollout.ActivitiesEach, requestsText(r.Rollout.Requests, "request"))
	}
	if r.Rollout != nil && r.Size.OnPostgreSQL {
		fmt.Fprintf(out, "  PostgreSQL: %s of CPU, %d transactions; %d more rows, %d MiB\n",
			seconds(r.Rollout.Database.CPUSeconds), r.Rollout.Transactions, r.Rollout.Stored.Rows, r.Rollout.Stored.Bytes/mib)
	}
}

func requestsText(requests map[string]float64, noun string) string {
	total := 0.0
	var parts []string
	for _, request := range slices.Sorted(maps.Keys(requests)) {
		total += requests[request]
		parts = append(parts, fmt.Sprintf("%.2f %s", requests[request], request))
	}
	if total == 0 {
		return "no " + noun
	}
	return fmt.Sprintf("%.2f %ss (%s)", total, noun, strings.Join(parts, ", "))
}
