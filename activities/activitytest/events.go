package activitytest

import (
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubectl/pkg/util/event"
)

// EventsOf returns Drydock's Events on a node, selected and sorted like kubectl describe does up to a dozen Events.
func EventsOf(t *testing.T, node string) []corev1.Event {
	t.Helper()
	kind, namespace := "Node", ""
	var found []corev1.Event
	for _, uid := range []string{string(GetNode(t, node).UID), node} {
		api := TestCluster(t).Clientset.CoreV1().Events(namespace)
		list, err := api.List(t.Context(), metav1.ListOptions{FieldSelector: api.GetFieldSelector(&node, &namespace, &kind, &uid).String()})
		require.NoError(t, err)
		found = append(found, list.Items...)
	}
	sort.Stable(event.SortableEvents(found))
	return slices.DeleteFunc(found, func(e corev1.Event) bool { return e.Source.Component != "drydock" })
}

// EventLines returns a line of text for each Event.
func EventLines(events []corev1.Event) []string {
	var lines []string
	for _, e := range events {
		message, _, _ := strings.Cut(e.Message, " (node/")
		lines = append(lines, e.Type+" "+e.Reason+": "+message)
	}
	return lines
}

func InSeconds(seconds float64) *time.Time {
	return new(time.Now().Add(time.Duration(seconds * float64(time.Second))))
}

func NodeReady(t *testing.T, name string) bool {
	for _, c := range GetNode(t, name).Status.Conditions {
		if c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}
