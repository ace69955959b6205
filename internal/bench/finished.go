package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sync/errgroup"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	"sigs.k8s.io/controller-runtime/pkg/client"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/fleet"
	"drydock.dev/drydock/internal/kube"
)

// FinishedSize is how many objects exist whose work is over.
type FinishedSize struct {
	Maintenances int `json:"maintenances"`
	Rollouts     int `json:"rollouts"`
}

// finishedSuffix follows the size of finished objects.
const finishedSuffix = "/finished"

// ParseFinishedSize reads MAINTENANCESxROLLOUTS/finished, such as "5000x2000/finished".
func ParseFinishedSize(text string) (FinishedSize, error) {
	rest, found := strings.CutSuffix(text, finishedSuffix)
	maintenances, rollouts, _ := strings.Cut(rest, "x")
	var size FinishedSize
	var err, also error
	size.Maintenances, err = strconv.Atoi(maintenances)
	size.Rollouts, also = strconv.Atoi(rollouts)
	if errors.Join(err, also) != nil || !found || size.Maintenances < 1 || size.Rollouts < 1 {
		return FinishedSize{}, fmt.Errorf("size %q is not MAINTENANCESxROLLOUTS/finished, e.g. 5000x2000/finished", text)
	}
	return size, nil
}

// String is what ParseFinishedSize reads.
func (s FinishedSize) String() string {
	return fmt.Sprintf("%dx%d%s", s.Maintenances, s.Rollouts, finishedSuffix)
}

// FinishedResult is what a worker that starts needs without objects, and with many whose work is over.
type FinishedResult struct {
	Size    FinishedSize  `json:"size"`
	Without WorkerAtStart `json:"without"`
	With    WorkerAtStart `json:"with"`
}

// WorkerAtStart is what a worker needs from its start until a new request is served and all objects are read.
type WorkerAtStart struct {
	// Served is the time until a new NodeMaintenance is ready.
	Served float64 `json:"served"`
	Usage
	// Spoke and Hub are the requests to their API servers.
	Spoke Requests `json:"spoke"`
	Hub   Requests `json:"hub"`
}

// runFinished measures each number of finished objects on its own fleet.
func (r *Report) runFinished(ctx context.Context, sizes []FinishedSize, progress io.Writer) error {
	for _, size := range sizes {
		fmt.Fprintf(progress, "measuring %s\n", size)
		result, err := finishedOnFleet(ctx, size, progress)
		if err != nil {
			return fmt.Errorf("measure %s: %w", size, err)
		}
		r.Finished = append(r.Finished, result)
	}
	return nil
}

func finishedOnFleet(ctx context.Context, size FinishedSize, progress io.Writer) (FinishedResult, error) {
	f, err := fleet.Start(ctx, fleet.Options{Spokes: 1, Workers: 1, Temporal: temporalServer(false), Output: progress})
	if err != nil {
		return FinishedResult{}, err
	}
	result, err := measureFinished(ctx, f, size)
	return result, errors.Join(err, f.Stop())
}

func measureFinished(ctx context.Context, f *fleet.Fleet, size FinishedSize) (FinishedResult, error) {
	result := FinishedResult{Size: size}
	var err error
	if result.Without, err = restartWorker(ctx, f, func() error { return nil }); err != nil {
		return result, err
	}
	result.With, err = restartWorker(ctx, f, func() error {
		return errors.Join(createFinished(ctx, f.Spokes[0], size.Maintenances, finishedMaintenance), createFinished(ctx, f.Hub, size.Rollouts, finishedRollout))
	})
	return result, err
}

// restartWorker measures a new worker. While none runs, it creates the objects.
func restartWorker(ctx context.Context, f *fleet.Fleet, create func() error) (WorkerAtStart, error) {
	if err := f.Worker.Stop(); err != nil {
		return WorkerAtStart{}, err
	}
	if err := create(); err != nil {
		return WorkerAtStart{}, err
	}
	spoke, err := adminOf(f.Spokes[0])
	if err != nil {
		return WorkerAtStart{}, err
	}
	started := time.Now()
	if err := f.Worker.Start(ctx); err != nil {
		return WorkerAtStart{}, err
	}
	request := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, GenerateName: "new-"},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: requestorID, NodeName: "worker-1", DrainSpec: &maintenancev1.DrainSpec{}},
	}
	if err := spoke.Create(ctx, request); err != nil {
		return WorkerAtStart{}, err
	}
	if err := wait.PollUntilContextCancel(ctx, 100*time.Millisecond, true, func(ctx context.Context) (bool, error) {
		err := spoke.Get(ctx, client.ObjectKeyFromObject(request), request)
		return meta.IsStatusConditionTrue(request.Status.Conditions, maintenancev1.ConditionReady), err
	}); err != nil {
		return WorkerAtStart{}, err
	}
	measured := WorkerAtStart{Served: time.Since(started).Seconds()}
	if err := awaitIdle(ctx, f.Worker.PID()); err != nil {
		return WorkerAtStart{}, err
	}
	if measured.Usage, err = usageOf(f.Worker.PID()); err != nil {
		return WorkerAtStart{}, err
	}
	for _, of := range []struct {
		cluster *devstack.Cluster
		into    *Requests
	}{{f.Spokes[0], &measured.Spoke}, {f.Hub, &measured.Hub}} {
		if *of.into, err = requestsSince(of.cluster, started); err != nil {
			return WorkerAtStart{}, err
		}
	}
	if err := spoke.Delete(ctx, request); err != nil {
		return WorkerAtStart{}, err
	}
	return measured, f.AwaitCleanup(ctx, f.Spokes[0])
}

// idle is the share of a processor below which a worker has nothing to do, for idleTime.
const (
	idle     = 0.05
	idleTime = 5 * time.Second
)

// awaitIdle waits until a process has nothing to do.
func awaitIdle(ctx context.Context, pid int) error {
	last, err := usageOf(pid)
	if err != nil {
		return err
	}
	return wait.PollUntilContextCancel(ctx, idleTime, false, func(context.Context) (bool, error) {
		now, err := usageOf(pid)
		quiet := now.CPUSeconds-last.CPUSeconds < idle*idleTime.Seconds()
		last = now
		return quiet, err
	})
}

func requestsSince(cluster *devstack.Cluster, since time.Time) (Requests, error) {
	events, err := cluster.AuditEvents()
	if err != nil {
		return Requests{}, err
	}
	recent := events[:0]
	for _, event := range events {
		if event.RequestReceivedTimestamp.After(since) {
			recent = append(recent, event)
		}
	}
	return requestsOf(recent, workerUsers, 1), nil
}

// adminOf returns a client that may do everything, without a limit of its own.
func adminOf(cluster *devstack.Cluster) (client.Client, error) {
	scheme, err := kube.NewScheme()
	if err != nil {
		return nil, err
	}
	config := rest.CopyConfig(cluster.Config)
	config.QPS = -1
	return client.New(config, client.Options{Scheme: scheme})
}

// createFinished creates objects with the status that they have when their work is over.
func createFinished(ctx context.Context, cluster *devstack.Cluster, count int, finished func(name string) client.Object) error {
	c, err := adminOf(cluster)
	if err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(8)
	for i := range count {
		group.Go(func() error {
			object := finished(fmt.Sprintf("finished-%d", i))
			withStatus := object.DeepCopyObject().(client.Object)
			if err := c.Create(ctx, object); err != nil {
				return err
			}
			withStatus.SetResourceVersion(object.GetResourceVersion())
			return c.Status().Update(ctx, withStatus)
		})
	}
	return group.Wait()
}

func finishedMaintenance(name string) client.Object {
	object := &maintenancev1.NodeMaintenance{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec:       maintenancev1.NodeMaintenanceSpec{RequestorID: requestorID, NodeName: "worker-1", DrainSpec: &maintenancev1.DrainSpec{}},
	}
	meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{
		Type: maintenancev1.ConditionReady, Status: metav1.ConditionFalse, Reason: string(maintenancev1.NodeCompleted), Message: "the node is back in service",
	})
	return object
}

func finishedRollout(name string) client.Object {
	object := &ranv1.ClusterGroupUpgrade{
		ObjectMeta: metav1.ObjectMeta{Namespace: metav1.NamespaceDefault, Name: name},
		Spec: ranv1.ClusterGroupUpgradeSpec{
			Clusters: []string{"spoke-1"}, RemediationStrategy: ranv1.RemediationStrategy{MaxConcurrency: intstr.FromInt32(1)},
			NodeMaintenance: &ranv1.NodeMaintenanceRemediation{DrainSpec: &maintenancev1.DrainSpec{}},
		},
	}
	meta.SetStatusCondition(&object.Status.Conditions, metav1.Condition{
		Type: ranv1.ConditionSucceeded, Status: metav1.ConditionTrue, Reason: ranv1.ReasonCompleted, Message: "All clusters are compliant",
	})
	return object
}
