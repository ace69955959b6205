package scheduler

import (
	"context"
	"encoding/json"
	"errors"
	"reflect"
	"sync"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/worker"
	corev1 "k8s.io/api/core/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"drydock.dev/drydock/activities/activitykit"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// gatherChanges is how long changes that affect grants are gathered. marksBehind is the same for ownership marks: each maintenance changes them,
	// and the scheduler needs only those of ended maintenances.
	gatherChanges = 20 * time.Millisecond
	marksBehind   = time.Second
	// partSize limits the nodes of an update, in bytes. With the budgets the message stays under 256 KiB.
	partSize = 200 << 10
)

// WatchNodes watches the nodes and the budgets of a cluster, and sends its workflow all of them, and then each change, until it is
// cancelled.
func (s *Activities) WatchNodes(ctx context.Context, clusterName string) error {
	cluster, err := s.Clusters.Cluster(ctx, clusterName)
	if err != nil {
		return err
	}
	l := s.newNodeReporter(ctx)
	var reporting sync.WaitGroup
	watching, stop := context.WithCancelCause(ctx)
	defer reporting.Wait()
	defer stop(nil)
	reporting.Go(func() {
		if err := l.run(watching); err != nil {
			stop(err)
		}
	})
	watched := []client.Object{&corev1.Node{}, kube.IfServed(&maintenancev1.MaintenanceOperatorConfig{})}
	err = cluster.Await(watching, watched, func(ctx context.Context) (bool, error) {
		now, err := viewOf(ctx, cluster)
		if err == nil {
			l.see(now)
		}
		return false, err
	})
	if cause := context.Cause(watching); ctx.Err() == nil && watching.Err() != nil {
		return cause
	}
	return activitykit.TypedError(cluster, err)
}

// view is the state of a cluster that the scheduler needs, at one time.
type view struct {
	nodes         map[string]scheduling.ObservedNode
	config        maintenancev1.MaintenanceOperatorConfigSpec
	configTrouble string
}

func viewOf(ctx context.Context, cluster *kube.Cluster) (view, error) {
	var nodes corev1.NodeList
	// Do not copy objects: this runs at every change of a node.
	if err := cluster.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return view{}, activitykit.Explain(cluster, "list nodes", err)
	}
	config, err := activitykit.MaintenanceConfig(ctx, cluster)
	now := view{nodes: make(map[string]scheduling.ObservedNode, len(nodes.Items)), config: config}
	if temporal.ErrorType(err) == temporal.ErrInvalidSpec {
		now.configTrouble, err = temporal.ErrorMessage(err), nil
	}
	keys := scheduling.LabelKeys(config)
	for i := range nodes.Items {
		now.nodes[nodes.Items[i].Name] = seenNode(&nodes.Items[i], keys)
	}
	return now, err
}

// seenNode is the state of a node that the scheduler needs. Drydock's cordon does not make it unavailable, because its maintenance counts.
func seenNode(node *corev1.Node, keys []string) scheduling.ObservedNode {
	maintenance, _ := kube.OwnerWorkflow(kube.Owner(node))
	if maintenance != "" && kube.FormerStateOf(node) == kube.FormerSchedulable {
		schedulable := *node
		schedulable.Spec.Unschedulable = false
		node = &schedulable
	}
	return scheduling.ObservedNode{Node: scheduling.NodeOf(node, keys), Maintenance: maintenance}
}

// nodeReporter sends the observed nodes of a cluster to its workflow.
type nodeReporter struct {
	scheduler *Activities
	from      time.Time
	changed   chan struct{}

	mu     sync.Mutex
	latest view
	// sent is the last view that was sent. number counts the messages of the attempts before, if each message ends its attempt; rest are the parts of the
	// update that they have not sent.
	sent   view
	number int
	rest   []scheduling.NodeUpdate
}

// sentNodes is what attempts of WatchNodes leave to the next one, if each message ends its attempt. Another worker lists all nodes again.
type sentNodes struct {
	From   time.Time `json:"from"`
	Number int       `json:"number"`

	view view
	rest []scheduling.NodeUpdate
}

func (s *Activities) newNodeReporter(ctx context.Context) *nodeReporter {
	info := activity.GetInfo(ctx)
	l := &nodeReporter{scheduler: s, changed: make(chan struct{}, 1), from: info.StartedTime}
	var state sentNodes
	if !temporal.StateOf(ctx, &state) {
		return l
	}
	if known, found := s.sent.Load(info.WorkflowExecution.ID); found {
		if known := known.(sentNodes); known.Number == state.Number && known.From.Equal(state.From) {
			l.from, l.sent, l.number, l.rest = known.From, known.view, known.Number, known.rest
		}
	}
	return l
}

func (l *nodeReporter) see(now view) {
	l.mu.Lock()
	l.latest = now
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *nodeReporter) seen() view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}

// run sends the whole view once, and then the changes.
func (l *nodeReporter) run(ctx context.Context) error {
	began, timeout := time.Now(), activity.GetInfo(ctx).HeartbeatTimeout
	heartbeat := time.NewTimer(activitykit.HeartbeatPause(timeout, 0))
	defer heartbeat.Stop()
	whole := l.number > 0
	if len(l.rest) > 0 {
		return l.sendAll(ctx, l.sent, l.rest)
	}
	var due <-chan time.Time
	var dueAt time.Time
	for {
		select {
		case <-ctx.Done():
			if errors.Is(context.Cause(ctx), worker.ErrWorkerShutdown) {
				activity.RecordHeartbeat(context.WithoutCancel(ctx))
			}
			return nil
		case <-heartbeat.C:
			activity.RecordHeartbeat(ctx)
			heartbeat.Reset(activitykit.HeartbeatPause(timeout, time.Since(began)))
		case <-l.changed:
			latest := l.seen()
			if !whole {
				if err := l.sendAll(ctx, latest, fullUpdate(latest, l.from)); err != nil {
					return err
				}
				whole = true
				continue
			}
			changed, pressing := difference(l.sent, latest)
			if !changed {
				continue
			}
			at := time.Now().Add(marksBehind)
			if pressing {
				at = time.Now().Add(gatherChanges)
			}
			if due == nil || at.Before(dueAt) {
				due, dueAt = time.After(time.Until(at)), at
			}
		case <-due:
			due = nil
			latest := l.seen()
			if err := l.sendAll(ctx, latest, changes(l.sent, latest, l.from)); err != nil {
				return err
			}
		}
	}
}

// difference reports whether the view has changed, and whether the change affects grants.
func difference(before, now view) (changed, pressing bool) {
	if len(before.nodes) != len(now.nodes) || before.configTrouble != now.configTrouble || !reflect.DeepEqual(before.config, now.config) {
		return true, true
	}
	for name, node := range now.nodes {
		known, exists := before.nodes[name]
		changed = changed || known.Maintenance != node.Maintenance
		if !exists || !reflect.DeepEqual(known.Node, node.Node) {
			return true, true
		}
	}
	return changed, false
}

// fullUpdate returns the whole view, in as many parts as needed.
func fullUpdate(now view, from time.Time) []scheduling.NodeUpdate {
	part := scheduling.NodeUpdate{Watch: from, First: true, Config: &now.config, ConfigTrouble: now.configTrouble}
	var parts []scheduling.NodeUpdate
	size := 0
	for _, node := range now.nodes {
		if size += sizeOf(node); size > partSize {
			parts = append(parts, part)
			part, size = scheduling.NodeUpdate{Watch: from}, sizeOf(node)
		}
		part.Nodes = append(part.Nodes, node)
	}
	part.Last = true
	return append(parts, part)
}

// changes returns the difference. If it does not fit into one message, it returns a full update, because no decision may use a part of the changes.
func changes(before, now view, from time.Time) []scheduling.NodeUpdate {
	update := scheduling.NodeUpdate{Watch: from, ConfigTrouble: now.configTrouble}
	if now.configTrouble != before.configTrouble || !reflect.DeepEqual(now.config, before.config) {
		update.Config = &now.config
	}
	size := 0
	for name, node := range now.nodes {
		if known, exists := before.nodes[name]; !exists || !reflect.DeepEqual(known, node) {
			update.Nodes = append(update.Nodes, node)
			size += sizeOf(node)
		}
	}
	for name := range before.nodes {
		if _, exists := now.nodes[name]; !exists {
			update.Gone = append(update.Gone, name)
			size += sizeOf(name)
		}
	}
	if size > partSize {
		return fullUpdate(now, from)
	}
	return []scheduling.NodeUpdate{update}
}

// sizeOf returns the size of a value in a list, in bytes.
func sizeOf(value any) int {
	text, _ := json.Marshal(value) // names and labels can always be encoded
	return len(text) + len(",")
}

// sendAll sends the parts of an update.
func (l *nodeReporter) sendAll(ctx context.Context, now view, parts []scheduling.NodeUpdate) error {
	l.sent = now
	for i, part := range parts {
		l.rest = parts[i+1:]
		if err := l.send(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// send sends an update to the current run of the workflow. A worker that may only answer ends the attempt with it, and the next one continues. An error ends the attempt: the next one sends everything again.
func (l *nodeReporter) send(ctx context.Context, update scheduling.NodeUpdate) error {
	if err := temporal.LeaseOver(ctx); err != nil {
		return err
	}
	id := activity.GetInfo(ctx).WorkflowExecution.ID
	if temporal.OnlyAnswers(ctx) {
		state := sentNodes{From: l.from, Number: l.number + 1, view: l.sent, rest: l.rest}
		l.scheduler.sent.Store(id, state)
		if _, err := temporal.AnswerWith(ctx, temporal.SignalNodeUpdate, update, state); err != nil {
			return err
		}
		return ctx.Err()
	}
	activity.RecordHeartbeat(ctx) // many parts may take longer than the heartbeat timeout
	ctx, cancel := context.WithTimeout(ctx, activitykit.ReportTimeout)
	defer cancel()
	return l.scheduler.Temporal.SignalWorkflow(ctx, id, "", temporal.SignalNodeUpdate, update)
}
