// Package bench measures rollouts with the audit logs of API servers and the histories of Temporal. It compares them with a plain loop in memory
// and with kubectl drain on the same nodes.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/temporal"
)

// Report is the result of all measurements, and the machine.
type Report struct {
	Machine Machine `json:"machine"`
	// Results are the measurements of node maintenance, Policies those of policy rollouts.
	Results  []Result       `json:"results,omitempty"`
	Policies []PolicyResult `json:"policies,omitempty"`
	// Harbors are the measurements of Harbor clusters.
	Harbors []HarborResult `json:"harbors,omitempty"`
	// Windows are the measurements of maintenance windows.
	Windows []WindowResult `json:"windows,omitempty"`
	// Finished are the measurements of a worker that starts with many finished objects.
	Finished []FinishedResult `json:"finished,omitempty"`
	// Queues are the measurements of queues of slot requests.
	Queues []QueueResult `json:"queues,omitempty"`
	// Clusters are the measurements of a worker with many clusters.
	Clusters []ClustersResult `json:"clusters,omitempty"`
	// Pace is measured together with Policies.
	Pace *Pace `json:"pace,omitempty"`
}

// Result is the result of one size. All times are in seconds.
type Result struct {
	Size Size `json:"size"`

	// RequestToReady is the time from the start of a maintenance until its node is drained and ready.
	RequestToReady Latency `json:"requestToReady"`
	// ReleaseToUncordon is the time from the end of the work on a node until its uncordon.
	ReleaseToUncordon Latency `json:"releaseToUncordon"`
	// SlotIdle is the time from the return of a node to the cordon of the next node for its slot.
	SlotIdle Latency `json:"slotIdle"`
	// LoopSlotIdle is the same for the loop.
	LoopSlotIdle Latency `json:"loopSlotIdle"`

	// FirstUse is the time of the first maintenance in a Temporal namespace from its request until its node is ready. It opens the cluster, too.
	FirstUse float64 `json:"firstUse,omitempty"`

	// Objects are the times of requests by objects.
	Objects *ObjectTimes `json:"objects,omitempty"`

	// Wall is the median time of a round.
	Wall Walls `json:"wall"`

	// Requests are the requests of Drydock's worker to the cluster per node; LoopRequests those of the loop.
	Requests     Requests `json:"requests"`
	LoopRequests Requests `json:"loopRequests"`
	// LoopCPUSeconds is the CPU time of the loop.
	LoopCPUSeconds float64 `json:"loopCPUSeconds,omitempty"`

	// Cost is the size of the histories per node.
	Cost

	Usages
}

// Walls are the wall times of the three methods.
type Walls struct {
	Drydock float64 `json:"drydock"`
	Loop    float64 `json:"loop"`
	Kubectl float64 `json:"kubectl"`
	// Ratios are Drydock's wall time divided by the loop's in the same round. ToLoop is their median.
	Ratios []float64 `json:"ratios,omitempty"`
	ToLoop float64   `json:"toLoop"`
}

// Run measures the sizes one after the other, each on its own fleet, and reports progress.
func Run(ctx context.Context, sizes Sizes, progress io.Writer) (Report, error) {
	report := Report{Machine: thisMachine()}
	for _, size := range sizes.Nodes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		result, err := runOnFleet(ctx, size, progress)
		if err != nil {
			return Report{}, fmt.Errorf("measure %s: %w", size, err)
		}
		report.Results = append(report.Results, result)
	}
	if err := report.runHarbors(ctx, sizes.Harbors, progress); err != nil {
		return report, err
	}
	if err := report.runWindows(ctx, sizes.Windows, progress); err != nil {
		return report, err
	}
	if err := report.runFinished(ctx, sizes.Finished, progress); err != nil {
		return report, err
	}
	if err := report.runQueues(ctx, sizes.Queues, progress); err != nil {
		return report, err
	}
	if err := report.runClusters(ctx, sizes.Clusters, progress); err != nil {
		return report, err
	}
	if err := report.runPolicies(ctx, sizes.Policies, progress); err != nil || !sizes.Pace {
		return report, err
	}
	return report, report.runPace(ctx, progress)
}

// chartContainer is the environment of a worker in a container of the chart, with its CPU request and 90 % of its memory limit of 1 GiB.
func chartContainer() []string { return []string{"GOMAXPROCS=1", "GOMEMLIMIT=966367641"} }

func runOnFleet(ctx context.Context, size Size, progress io.Writer) (Result, error) {
	server := temporalServer(size.OnPostgreSQL)
	if !size.OnPostgreSQL {
		server.Env = []string{"GOMAXPROCS=1"} // it needs less than one core, and more would cost it time in each change of goroutines
	}
	f, err := fleet.Start(ctx, fleet.Options{Spokes: 1, Workers: size.Nodes, WorkerEnv: chartContainer(), Temporal: server, Output: progress})
	if err != nil {
		return Result{}, err
	}
	result, err := measure(ctx, f, size, progress)
	return result, errors.Join(err, f.Stop())
}

// measure maintains the worker nodes of a spoke: with Drydock and, unless the size is alone, with the loop and with kubectl.
func measure(ctx context.Context, f *fleet.Fleet, size Size, progress io.Writer) (Result, error) {
	server, err := dial(ctx, f)
	if err != nil {
		return Result{}, err
	}
	defer server.Close()
	s := &measurement{fleet: f, spoke: f.Spokes[0], size: size, server: server}
	if err := errors.Join(s.populate(ctx), s.startMoreWorkers(ctx)); err != nil {
		return Result{}, err
	}
	loop, err := newLoop(s)
	if err != nil {
		return Result{}, err
	}
	defer loop.clusters.Close()
	methods, err := s.methods(loop)
	if err != nil {
		return Result{}, err
	}
	result := Result{Size: size}
	if size.ByObject || size.ByWorkflow {
		if err := s.warmUp(ctx, &result); err != nil {
			return Result{}, err
		}
	}
	if err := s.runMethods(ctx, methods, &result, progress); err != nil {
		return Result{}, err
	}
	return result, nil
}

// methods returns Drydock and, unless the size is alone, the loop and kubectl.
func (s *measurement) methods(loop *byLoop) ([]method, error) {
	var methods []method
	switch {
	case s.size.ByObject:
		methods = append(methods, byObjects{s})
	case s.size.ByWorkflow:
		methods = append(methods, byWorkflows{s})
	default:
		methods = append(methods, &byDrydock{measurement: s})
	}
	if s.size.Alone {
		return methods, nil
	}
	kubectl, err := newKubectl(s)
	return append(methods, loop, kubectl), err
}

func dial(ctx context.Context, f *fleet.Fleet) (client.Client, error) {
	options, err := temporal.Connection{Address: f.Temporal.Address, Namespace: f.Temporal.Namespace}.Options(nil, nil)
	if err != nil {
		return nil, err
	}
	return temporal.Dial(ctx, options)
}

// measurement is a size that is measured on a fleet.
type measurement struct {
	fleet  *fleet.Fleet
	spoke  *devstack.Cluster
	size   Size
	server client.Client
	// moreWorkers run beside the fleet's own.
	moreWorkers []*devstack.Process
}

func (s *measurement) startMoreWorkers(ctx context.Context) error {
	for len(s.moreWorkers)+1 < s.size.Workers {
		worker, err := s.fleet.AddWorker()
		if err != nil {
			return err
		}
		if err := worker.Start(ctx); err != nil {
			return err
		}
		s.moreWorkers = append(s.moreWorkers, worker)
	}
	return nil
}

// settle waits until the cluster is clean and all pods run.
func (s *measurement) settle(ctx context.Context) error {
	if err := s.fleet.AwaitCleanup(ctx, s.spoke); err != nil {
		return err
	}
	return s.fleet.AwaitWorkloads(ctx, s.spoke)
}

// timed returns how long run takes.
func timed(run func() error) (time.Duration, error) {
	began := time.Now()
	err := run()
	return time.Since(began), err
}

// temporalServer is a Temporal server that keeps the search attributes in memory, as in production.
func temporalServer(onPostgreSQL bool) devstack.TemporalOptions {
	if onPostgreSQL {
		return devstack.TemporalOptions{PostgreSQL: true}
	}
	var options devstack.TemporalOptions
	for _, key := range temporal.SearchAttributes() {
		options.SearchAttributes = append(options.SearchAttributes, key.GetName()+"="+key.GetValueType().String())
	}
	return options
}
