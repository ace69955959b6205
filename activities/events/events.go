// Package events records what happens to nodes and requests as Kubernetes Events.
package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"drydock.dev/drydock/activities/activitykit"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/safename"
	"drydock.dev/drydock/internal/temporal"
)

// Reasons of Events on nodes, beside the states of a maintenance and the types of the errors that end one.
const (
	// DrainObstructed: the drain has not started, and is blocked until a person acts.
	DrainObstructed = "DrainObstructed"
	// PodCompletionTimedOut: pods had not completed at the deadline.
	PodCompletionTimedOut = "PodCompletionTimedOut"
	// Drained: all pods to evict are gone.
	Drained = "Drained"
	// JobStarted: the Job that does the work was created.
	JobStarted = "JobStarted"
	// CleanedUp: the sweeper has removed the marks of a maintenance whose workflow is closed.
	CleanedUp = "CleanedUp"
)

// Reasons are the reasons of all Events that Drydock records on nodes, in the order in which they happen.
func Reasons() []string {
	return []string{
		string(maintenancev1.NodePending), DrainObstructed, string(maintenancev1.NodeScheduled), string(maintenancev1.NodeCordon),
		string(maintenancev1.NodeWaitForPodCompletion), PodCompletionTimedOut,
		string(maintenancev1.NodeDraining), Drained, temporal.ErrDrainTimedOut, temporal.ErrPodsNotEvictable,
		string(maintenancev1.NodeReady), JobStarted, temporal.ErrJobFailed, string(maintenancev1.NodeRequestorFailed),
		string(maintenancev1.NodeHealthChecks), temporal.ErrHealthGateFailed, string(maintenancev1.NodeCleaningUp),
		string(maintenancev1.NodeCompleted), string(maintenancev1.NodeFailed), string(maintenancev1.NodeCancelled), string(maintenancev1.NodeGone), CleanedUp,
	}
}

// ClusterScoped is the namespace of Events on cluster-scoped objects, where kubectl describe finds them.
const ClusterScoped = metav1.NamespaceDefault

// Reporter is the source that kubectl describe shows, and the reporting component of all Events of Drydock.
const Reporter = "drydock"

// Timeout limits the delay that Events cause for a maintenance, or for the status of an object. Tests raise it, because their servers may be slow.
var Timeout = 5 * time.Second

// eventMessageLimit is the API's, in bytes.
const eventMessageLimit = 1024

// Event is an Event of a maintenance on its node.
type Event struct {
	// Reason is one of EventReasons.
	Reason string `json:"reason"`
	// Occurrence distinguishes repeated Events of a maintenance; 0 for those that occur once.
	Occurrence int32 `json:"occurrence,omitempty"`
	// Warning: a person should check the node.
	Warning bool   `json:"warning,omitempty"`
	Message string `json:"message"`
	// At is when it happened; the zero time: now.
	At time.Time `json:"at,omitzero"`
}

// NodeEvent is an Event and its node.
type NodeEvent struct {
	activitykit.NodeRef
	Event
}

// Announce records an Event on the node in the background, and returns a function that waits for it. Repeated attempts record it once, because its name
// exists. An Event that is not accepted soon is dropped. A cancelled attempt, or one that another may have replaced (see kube.Cluster), records none.
func Announce(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, event Event) (recorded func()) {
	if event.At.IsZero() {
		event.At = time.Now() // not when the background gets to it: another Event may be announced meanwhile
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		Record(ctx, cluster, ref, event)
	}()
	return func() { <-done }
}

// Record records an Event on the node, and logs a failure.
func Record(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, event Event) {
	writing, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	object := eventOn(ref, uidForEvents(writing, cluster, ref.Node), event)
	_, err := cluster.Clientset.CoreV1().Events(ClusterScoped).Create(writing, object, metav1.CreateOptions{FieldManager: kube.FieldManager})
	if err == nil || apierrors.IsAlreadyExists(err) || ctx.Err() != nil || !activity.IsActivity(ctx) {
		return
	}
	activity.GetLogger(ctx).Warn("an event could not be recorded", "cluster", ref.Cluster, "node", ref.Node, "reason", event.Reason, "error", err)
}

// AnnounceFailure records an Event for an error that ends a step, unless the Event for the end of the maintenance has the same message.
func AnnounceFailure(ctx context.Context, cluster *kube.Cluster, ref activitykit.NodeRef, occurrence int32, err error) {
	switch reason := temporal.ErrorType(err); reason {
	case temporal.ErrDrainTimedOut, temporal.ErrPodsNotEvictable, temporal.ErrJobFailed, temporal.ErrHealthGateFailed:
		Record(ctx, cluster, ref, Event{Reason: reason, Occurrence: occurrence, Warning: true, Message: temporal.ErrorMessage(err)})
	}
}

// uidForEvents is the UID by which kubectl describe finds the Events of a node: the UID of the node or, like kubelets, its name, if the node is gone.
func uidForEvents(ctx context.Context, cluster *kube.Cluster, name string) types.UID {
	node, err := cluster.Node(ctx, name)
	if err != nil {
		return types.UID(name)
	}
	return node.UID
}

// eventOn creates the Event like Kubernetes' own controllers.
func eventOn(ref activitykit.NodeRef, uid types.UID, event Event) *corev1.Event {
	at := metav1.NewTime(event.At)
	if at.IsZero() {
		at = metav1.Now()
	}
	return &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Namespace: ClusterScoped, Name: eventName(ref, event)},
		InvolvedObject: corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: ref.Node, UID: uid},
		Type:           eventType(event.Warning), Reason: event.Reason, Message: eventMessage(ref, event),
		Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source:              corev1.EventSource{Component: Reporter},
		ReportingController: Reporter,
	}
}

// eventName is the same for repeated attempts. Times in Events have no fractions of a second, so the name puts the Events of one second in order.
func eventName(ref activitykit.NodeRef, event Event) string {
	owner := sha256.Sum256([]byte(ref.Owner))
	name := fmt.Sprintf("%s.%s.%02d-%s", safename.Join(".", ref.Node), hex.EncodeToString(owner[:8]),
		slices.Index(Reasons(), event.Reason), strings.ToLower(event.Reason))
	if event.Occurrence > 0 {
		name += fmt.Sprintf("-%d", event.Occurrence)
	}
	return name
}

// eventMessage returns the message, which ends with the id of the maintenance.
func eventMessage(ref activitykit.NodeRef, event Event) string {
	workflow, _ := kube.OwnerWorkflow(ref.Owner)
	suffix := " (" + workflow + ")"
	return cut(event.Message, eventMessageLimit-len(suffix)) + suffix
}

// cut shortens a message to a number of bytes.
func cut(message string, limit int) string {
	const end = "..."
	if len(message) > limit {
		message = strings.ToValidUTF8(message[:max(0, limit-len(end))], "") + end
	}
	return message
}

func eventType(warning bool) string {
	if warning {
		return corev1.EventTypeWarning
	}
	return corev1.EventTypeNormal
}
