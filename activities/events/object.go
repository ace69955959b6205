package events

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"time"

	"go.temporal.io/sdk/activity"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/safename"
	"drydock.dev/drydock/internal/temporal"
)

// ObjectEvent is an Event on an object that requested work.
type ObjectEvent struct {
	// Number counts the Events of the object's workflow, from 1. Repeated attempts record an Event once.
	Number int32 `json:"number"`
	// Warning: a person should check the object.
	Warning bool   `json:"warning,omitempty"`
	Reason  string `json:"reason"`
	Message string `json:"message"`
	// At is the time of what happened.
	At time.Time `json:"at"`
}

// RecordOn records Events on an object, and logs a failure. Events that are not accepted soon are dropped.
func RecordOn(ctx context.Context, cluster *kube.Cluster, object temporal.Object, events []ObjectEvent) {
	writing, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	for _, event := range events {
		written := onObject(object, event)
		_, err := cluster.Clientset.CoreV1().Events(written.Namespace).Create(writing, written, metav1.CreateOptions{FieldManager: kube.FieldManager})
		if err != nil && !apierrors.IsAlreadyExists(err) && ctx.Err() == nil && activity.IsActivity(ctx) {
			activity.GetLogger(ctx).Warn("an event could not be recorded", "cluster", object.Cluster, "object", object.String(), "reason", event.Reason, "error", err)
		}
	}
}

// onObject returns the Event as Kubernetes' own controllers create it.
func onObject(object temporal.Object, event ObjectEvent) *corev1.Event {
	namespace := object.Namespace
	if namespace == "" {
		namespace = ClusterScoped
	}
	uid := sha256.Sum256([]byte(object.UID))
	at := metav1.NewTime(event.At)
	return &corev1.Event{
		ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: fmt.Sprintf("%s.%s.%d", safename.Join(".", object.Name), hex.EncodeToString(uid[:8]), event.Number)},
		InvolvedObject: corev1.ObjectReference{
			APIVersion: object.APIVersion, Kind: object.Kind, Namespace: object.Namespace, Name: object.Name, UID: object.UID,
		},
		Type: eventType(event.Warning), Reason: event.Reason, Message: cut(event.Message, eventMessageLimit),
		Count: 1, FirstTimestamp: at, LastTimestamp: at,
		Source:              corev1.EventSource{Component: Reporter},
		ReportingController: Reporter,
	}
}
