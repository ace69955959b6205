package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"sigs.k8s.io/controller-runtime/pkg/client"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/locks"
	"drydock.dev/drydock/internal/snapshot"
)

func newLockList(c *cli) *cobra.Command {
	var flags decisionFlags
	var list listFlags
	cmd := &cobra.Command{
		Use: "list", Aliases: []string{"ls"},
		Short: "List the locks of a cluster and the maintenance requests: who holds what, since when",
		Long: `List the locks of a cluster and the maintenance requests: who holds what, since when. ASKED is the time since the first
request to release the lock, CHANGED the time since the application last wrote its status.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error {
			now, err := flags.now()
			if err != nil {
				return err
			}
			selector, err := list.parsed()
			if err != nil {
				return err
			}
			if list.watch {
				return c.watchLocks(ctx, func(ctx context.Context, reader client.Reader) (followed, error) {
					return readLocks(ctx, reader, selector, c.source(flags))
				})
			}
			reader, err := c.lockReader(flags)
			if err != nil {
				return err
			}
			found, err := readLocks(ctx, reader, selector, c.source(flags))
			if err != nil {
				return err
			}
			return c.print(found, func(w *page) { fmt.Fprintln(w, found.frame(now, w.frameStyle)) }, found.names()...)
		}),
	}
	c.addDecisionFlags(cmd, &flags, "the cluster")
	c.addListFlags(cmd, &list, "the labels are those of the locks and the requests")
	cmd.MarkFlagsMutuallyExclusive("watch", "snapshot")
	cmd.MarkFlagsMutuallyExclusive("watch", "at")
	return cmd
}

// readLocks lists the locks and the requests that a selector selects.
func readLocks(ctx context.Context, reader client.Reader, selector labels.Selector, source string) (lockListing, error) {
	found, err := snapshot.Locks(ctx, reader)
	if err != nil {
		return lockListing{}, err
	}
	list := newLockListing(found)
	list.Requests = slices.DeleteFunc(list.Requests, func(r requestRow) bool { return !selector.Matches(r.labels) })
	list.Locks = slices.DeleteFunc(list.Locks, func(l lockRow) bool { return !selector.Matches(l.labels) })
	list.source = source
	return list, nil
}

// lockReader reads a file, or a cluster that serves workload locks. A cluster that does not, such as a hub, is the wrong one to ask.
func (c *cli) lockReader(flags decisionFlags) (client.Reader, error) {
	reader, err := c.reader(flags)
	if err != nil {
		return nil, err
	}
	live, ok := reader.(client.Client)
	if !ok {
		return reader, nil
	}
	_, err = live.RESTMapper().RESTMapping(lcmv1.GroupVersion.WithKind(locks.NodeLockKind).GroupKind(), lcmv1.GroupVersion.Version)
	if meta.IsNoMatchError(err) {
		return nil, fmt.Errorf("%s does not serve %ss (%s): name the context of the spoke", c.source(flags), locks.NodeLockKind, lcmv1.GroupVersion)
	}
	return reader, err
}

// lockListing lists the locks of a cluster and the requests to release them.
type lockListing struct {
	// Requests by the node they are for, those for the cluster first, and then by age.
	Requests []requestRow `json:"requests"`
	// Locks by the node they are on, the cluster's first, and then by controller.
	Locks []lockRow `json:"locks"`
	// source names the cluster for people.
	source string
}

// requestRow is a ClusterMaintenanceRequest or a NodeMaintenanceRequest.
type requestRow struct {
	Kind string `json:"kind"`
	Name string `json:"name"`
	// Node is empty in a request for the cluster.
	Node    string      `json:"node,omitempty"`
	Scope   lcmv1.Scope `json:"scope,omitempty"`
	Release string      `json:"release,omitempty"`
	// Workflow made the request; empty if Drydock did not.
	Workflow  string      `json:"workflow,omitempty"`
	CreatedAt metav1.Time `json:"createdAt"`
	labels    labels.Set
}

// lockRow is a ClusterWorkloadLock or a NodeWorkloadLock.
type lockRow struct {
	Kind       string          `json:"kind"`
	Name       string          `json:"name"`
	Controller string          `json:"controller"`
	Node       string          `json:"node,omitempty"`
	State      lcmv1.LockState `json:"state"`
	Message    string          `json:"message,omitempty"`
	// Progress is what the application reports.
	Progress *lcmv1.InactivationProgress `json:"inactivationProgress,omitempty"`
	// ChangedAt is when its status was last written; absent when that is not known.
	ChangedAt *metav1.Time `json:"changedAt,omitempty"`
	// AskedAt is when the oldest request to release it was made; absent without one.
	AskedAt *metav1.Time `json:"askedAt,omitempty"`
	labels  labels.Set
}

func newLockListing(found locks.Snapshot) lockListing {
	l := lockListing{Requests: []requestRow{}, Locks: []lockRow{}}
	for _, r := range found.ClusterRequests {
		l.addRequest(r.ObjectMeta, requestRow{Kind: "ClusterMaintenanceRequest", Scope: r.Spec.Scope, Release: r.Spec.Release})
	}
	for _, r := range found.NodeRequests {
		l.addRequest(r.ObjectMeta, requestRow{Kind: "NodeMaintenanceRequest", Node: r.Spec.NodeName, Scope: r.Spec.Scope, Release: r.Spec.Release})
	}
	for _, r := range found.DeletionRequests {
		l.addRequest(r.ObjectMeta, requestRow{Kind: "NodeDeletionRequest", Node: r.Spec.NodeName})
	}
	slices.SortFunc(l.Requests, func(a, b requestRow) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), a.CreatedAt.Compare(b.CreatedAt.Time), cmp.Compare(a.Name, b.Name))
	})
	for _, lock := range found.ClusterLocks {
		l.addLock(lock.ObjectMeta, lock.Status, lockRow{Kind: locks.ClusterLockKind, Controller: lock.Spec.ControllerName})
	}
	for _, lock := range found.NodeLocks {
		l.addLock(lock.ObjectMeta, lock.Status, lockRow{Kind: locks.NodeLockKind, Controller: lock.Spec.ControllerName, Node: lock.Spec.NodeName})
	}
	slices.SortFunc(l.Locks, func(a, b lockRow) int {
		return cmp.Or(cmp.Compare(a.Kind, b.Kind), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Controller, b.Controller), cmp.Compare(a.Name, b.Name))
	})
	return l
}

func (l *lockListing) addRequest(object metav1.ObjectMeta, row requestRow) {
	row.Name, row.CreatedAt, row.labels = object.Name, object.CreationTimestamp, object.Labels
	row.Workflow, _ = kube.OwnerWorkflow(kube.Owner(&object))
	l.Requests = append(l.Requests, row)
}

// addLock adds a lock after all requests.
func (l *lockListing) addLock(object metav1.ObjectMeta, status lcmv1.WorkloadLockStatus, row lockRow) {
	row.Name, row.State, row.Message, row.Progress = object.Name, status.State, status.ErrorMessage, status.InactivationProgress
	row.ChangedAt, row.labels = statusWrittenAt(object), object.Labels
	// Requests for the same are ordered by age.
	asks := func(r requestRow) bool { return r.Node == row.Node }
	if i := slices.IndexFunc(l.Requests, asks); i >= 0 {
		row.AskedAt = &l.Requests[i].CreatedAt
	}
	l.Locks = append(l.Locks, row)
}

// statusWrittenAt is when the status of an object was last written, as the API server remembers it.
func statusWrittenAt(object metav1.ObjectMeta) *metav1.Time {
	var last *metav1.Time
	for i := range object.ManagedFields {
		entry := &object.ManagedFields[i]
		if entry.Subresource == "status" && entry.Time != nil && (last == nil || last.Before(entry.Time)) {
			last = entry.Time
		}
	}
	return last
}

func (l lockListing) names() []string {
	var names []string
	for _, r := range l.Requests {
		names = append(names, lockResource(r.Kind, r.Name))
	}
	for _, lock := range l.Locks {
		names = append(names, lockResource(lock.Kind, lock.Name))
	}
	return names
}

// lines has a line for each request and each lock.
func (l lockListing) lines(time.Time) []statusLine {
	lines := []statusLine{}
	for _, r := range l.Requests {
		lines = append(lines, statusLine{lockResource(r.Kind, r.Name), fmt.Sprintf("request %s for %s", r.Name, lockSubject(r.Node))})
	}
	for _, lock := range l.Locks {
		text := fmt.Sprintf("lock %s on %s is %s%s", lock.Name, lockSubject(lock.Node), lock.State, prefixed(": ", lock.Message))
		lines = append(lines, statusLine{lockResource(lock.Kind, lock.Name), text})
	}
	return lines
}

func (l lockListing) frame(now time.Time, style frameStyle) string {
	if len(l.Requests)+len(l.Locks) == 0 {
		return "no workload locks and no maintenance requests in " + l.source
	}
	var w strings.Builder
	if len(l.Requests) > 0 {
		t := style.newTable("REQUEST", "FOR", "SCOPE", "BY", "AGE")
		for _, r := range l.Requests {
			t.AppendRow(table.Row{r.Name, lockSubject(r.Node), r.Scope, r.Workflow, age(now, r.CreatedAt.Time)})
		}
		fmt.Fprintf(&w, "%s\n\n", t.Render())
	}
	t := style.newTable("LOCK", "ON", "CONTROLLER", "STATE", "CHANGED", "ASKED", "MESSAGE")
	held := 0
	for _, lock := range l.Locks {
		if lock.AskedAt != nil && lock.State != lcmv1.LockInactive {
			held++
		}
		t.AppendRow(table.Row{lock.Name, lockSubject(lock.Node), lock.Controller, lock.State, ageOf(now, lock.ChangedAt), ageOf(now, lock.AskedAt), lock.Message})
	}
	if t.Length() > 0 {
		fmt.Fprintln(&w, t.Render())
	}
	if style.bare {
		return strings.TrimSuffix(w.String(), "\n")
	}
	return w.String() + fmt.Sprintf("%s, %s, %d requested and not released", plural(len(l.Locks), "lock"), plural(len(l.Requests), "request"), held)
}

// ageOf is age of a time that may not be known.
func ageOf(now time.Time, then *metav1.Time) string {
	if then == nil {
		return ""
	}
	return age(now, then.Time)
}
