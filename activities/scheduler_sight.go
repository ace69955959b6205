package activities

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

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/scheduling"
	"drydock.dev/drydock/internal/temporal"
)

const (
	// gatherChanges is for how long changes are gathered that decide who may go; marksBehind that for marks, which come and go with
	// each maintenance, and which the scheduler knows of itself unless they are of one that ended.
	gatherChanges = 20 * time.Millisecond
	marksBehind   = time.Second
	// partSize is how many bytes the nodes of a sight take at most: with the budgets a message stays under 256 KiB.
	partSize = 200 << 10
)

// WatchNodes watches the nodes and the budgets of a cluster, and shows its workflow all of them, and then each change, until it is
// cancelled.
func (s *Scheduler) WatchNodes(ctx context.Context, clusterName string) error {
	cluster, err := s.Clusters.Cluster(ctx, clusterName)
	if err != nil {
		return err
	}
	l := &nodeLookout{scheduler: s, changed: make(chan struct{}, 1), from: activity.GetInfo(ctx).StartedTime}
	var showing sync.WaitGroup
	watching, stop := context.WithCancelCause(ctx)
	defer showing.Wait()
	defer stop(nil)
	showing.Go(func() {
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
	return typed(cluster, err)
}

// view is what counts of a cluster at one moment.
type view struct {
	nodes         map[string]scheduling.SeenNode
	config        maintenancev1.MaintenanceOperatorConfigSpec
	configTrouble string
}

func viewOf(ctx context.Context, cluster *kube.Cluster) (view, error) {
	var nodes corev1.NodeList
	// It is looked at every change of any node, and only read: nothing is copied.
	if err := cluster.Cache.List(ctx, &nodes, client.UnsafeDisableDeepCopy); err != nil {
		return view{}, explain(cluster, "list nodes", err)
	}
	config, err := maintenanceConfig(ctx, cluster)
	now := view{nodes: make(map[string]scheduling.SeenNode, len(nodes.Items)), config: config}
	if temporal.ErrorType(err) == temporal.ErrInvalidSpec {
		now.configTrouble, err = temporal.ErrorMessage(err), nil
	}
	keys := scheduling.LabelKeys(config)
	for i := range nodes.Items {
		now.nodes[nodes.Items[i].Name] = seenNode(&nodes.Items[i], keys)
	}
	return now, err
}

// seenNode is what counts of a node. Our own cordon does not: the maintenance that made it counts.
func seenNode(node *corev1.Node, keys []string) scheduling.SeenNode {
	maintenance, _ := kube.OwnerWorkflow(kube.Owner(node))
	if maintenance != "" && kube.FormerStateOf(node) == kube.FormerSchedulable {
		schedulable := *node
		schedulable.Spec.Unschedulable = false
		node = &schedulable
	}
	return scheduling.SeenNode{Node: scheduling.NodeOf(node, keys), Maintenance: maintenance}
}

// nodeLookout shows a workflow what is seen of the nodes of its cluster.
type nodeLookout struct {
	scheduler *Scheduler
	from      time.Time
	changed   chan struct{}

	mu     sync.Mutex
	latest view
	// shown is what the workflow knows.
	shown view
}

func (l *nodeLookout) see(now view) {
	l.mu.Lock()
	l.latest = now
	l.mu.Unlock()
	select {
	case l.changed <- struct{}{}:
	default:
	}
}

func (l *nodeLookout) seen() view {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.latest
}

// run shows everything once, and then what has changed.
func (l *nodeLookout) run(ctx context.Context) error {
	heartbeat := time.NewTicker(heartbeatInterval)
	defer heartbeat.Stop()
	whole := false
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
		case <-l.changed:
			latest := l.seen()
			if !whole {
				if err := l.showAll(ctx, latest, sightOf(latest, l.from)); err != nil {
					return err
				}
				whole = true
				continue
			}
			changed, pressing := difference(l.shown, latest)
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
			if err := l.showAll(ctx, latest, changesOf(l.shown, latest, l.from)); err != nil {
				return err
			}
		}
	}
}

// difference reports whether anything differs, and whether something does that decides who may go.
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

// sightOf is a whole cluster, in as many parts as it takes.
func sightOf(now view, from time.Time) []scheduling.Sight {
	part := scheduling.Sight{From: from, First: true, Config: &now.config, ConfigTrouble: now.configTrouble}
	var parts []scheduling.Sight
	size := 0
	for _, node := range now.nodes {
		if size += sizeOf(node); size > partSize {
			parts = append(parts, part)
			part, size = scheduling.Sight{From: from}, sizeOf(node)
		}
		part.Nodes = append(part.Nodes, node)
	}
	part.Last = true
	return append(parts, part)
}

// changesOf is what is different now. To show it twice changes nothing. What does not fit into one message is shown as a whole: on half of it nothing
// may be decided.
func changesOf(before, now view, from time.Time) []scheduling.Sight {
	sight := scheduling.Sight{From: from, ConfigTrouble: now.configTrouble}
	if now.configTrouble != before.configTrouble || !reflect.DeepEqual(now.config, before.config) {
		sight.Config = &now.config
	}
	size := 0
	for name, node := range now.nodes {
		if known, exists := before.nodes[name]; !exists || !reflect.DeepEqual(known, node) {
			sight.Nodes = append(sight.Nodes, node)
			size += sizeOf(node)
		}
	}
	for name := range before.nodes {
		if _, exists := now.nodes[name]; !exists {
			sight.Gone = append(sight.Gone, name)
			size += sizeOf(name)
		}
	}
	if size > partSize {
		return sightOf(now, from)
	}
	return []scheduling.Sight{sight}
}

// sizeOf is how many bytes something takes in a list.
func sizeOf(value any) int {
	text, _ := json.Marshal(value) // names and labels always can be
	return len(text) + len(",")
}

// showAll sends the parts of a sight. The workflow knows then how the cluster is.
func (l *nodeLookout) showAll(ctx context.Context, now view, parts []scheduling.Sight) error {
	l.shown = now
	for _, part := range parts {
		if err := l.show(ctx, part); err != nil {
			return err
		}
	}
	return nil
}

// show sends a sight to the workflow, whichever of its runs is at work. What cannot be sent ends the attempt: the next one shows
// everything anew.
func (l *nodeLookout) show(ctx context.Context, sight scheduling.Sight) error {
	if err := temporal.LeaseOver(ctx); err != nil {
		return err
	}
	activity.RecordHeartbeat(ctx) // many parts may take longer than it may be silent
	ctx, cancel := context.WithTimeout(ctx, reportTimeout)
	defer cancel()
	return l.scheduler.Temporal.SignalWorkflow(ctx, activity.GetInfo(ctx).WorkflowExecution.ID, "", temporal.SignalSight, sight)
}
