package main

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/activities/events"
	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// listsEvents records Events as the activities do, beside one of another program.
func listsEvents(t *testing.T, config *rest.Config) {
	clusters := kube.New(kube.FromConfigs(config, nil), kube.Options{})
	t.Cleanup(clusters.Close)
	cluster, err := clusters.Hub(t.Context())
	require.NoError(t, err)
	worker7 := activitykit.NodeRef{Cluster: "hub", Node: "worker-7", Owner: "node/hub/default/m/run"}
	november := temporal.Object{APIVersion: ranv1.GroupVersion.String(), Kind: "ClusterGroupUpgrade", Namespace: "default", Name: "november", UID: "1"}
	at := time.Now().Add(-time.Minute)
	started := events.ObjectEvent{Number: 9, Reason: ranv1.EventStarted, Message: "Batch 1 of 2 started", At: at}
	ended := events.ObjectEvent{Number: 10, Warning: true, Reason: ranv1.EventFailed, Message: "1 cluster failed", At: at}
	events.RecordOn(t.Context(), cluster, november, []events.ObjectEvent{started, ended})
	events.Record(t.Context(), cluster, worker7, events.Event{Reason: string(maintenancev1.NodeScheduled), Message: "a slot was granted"})
	clientset, err := kubernetes.NewForConfig(config)
	require.NoError(t, err)
	_, err = clientset.CoreV1().Events("default").Create(t.Context(), &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: "foreign"},
		InvolvedObject: corev1.ObjectReference{Kind: "Node", Name: "worker-7"}, ReportingController: "kubelet", Reason: "NodeReady",
	}, metav1.CreateOptions{})
	require.NoError(t, err)

	require.Regexp(t, `^LAST SEEN +TYPE +REASON +OBJECT +MESSAGE
\w+ +Normal +CguStarted +clustergroupupgrade/november +Batch 1 of 2 started
\w+ +Warning +CguFailed +clustergroupupgrade/november +1 cluster failed
\w+ +Normal +Scheduled +node/worker-7 +a slot was granted \(node/hub/default/m\)
$`, succeeds(t, "events", "--context", "hub"))

	list := parsed[corev1.EventList](t, "events", "--for", "cgu/november", "--types", "warning")
	require.Equal(t, "EventList", list.Kind)
	require.Len(t, list.Items, 1)
	require.Equal(t, "Event", list.Items[0].Kind)
	require.Equal(t, "1 cluster failed", list.Items[0].Message)
	require.Contains(t, succeeds(t, "events", "--for", "no/worker-7", "-n", "prod"), "Scheduled", "those on nodes are in one namespace")
	require.Equal(t, "no Events of Drydock in namespace prod of the cluster of context hub (--context)\n", succeeds(t, "events", "-n", "prod"))
	require.Contains(t, succeeds(t, "events", "-A"), "NAMESPACE")
	require.Regexp(t, `^event/november\.`, succeeds(t, "events", "-o", "name", "--for", "clustergroupupgrades.ran.openshift.io/november"))
	for object, problem := range map[string]string{
		"november": `error: --for "november" is not TYPE/NAME, such as node/worker-7`, "boat/x": `does not serve the type "boat" of --for`,
	} {
		got := drydock(t, "events", "--for", object)
		require.NotZero(t, got.status)
		require.Contains(t, got.stderr, problem)
	}

	watch := begin(t, "events", "--for", "node/worker-7", "--watch", "-o", "json")
	watch.prints(t, "a slot was granted")
	events.Record(t.Context(), cluster, worker7, events.Event{Reason: events.DrainObstructed, Warning: true, Message: "a budget allows none"})
	watch.prints(t, "a budget allows none")
	watch.stop()
	got := watch.end(t)
	require.Equal(t, exitDone, got.status, got.stderr)
	lines := strings.Split(strings.TrimSpace(got.stdout), "\n")
	require.Len(t, lines, 2)
	var last corev1.Event
	require.NoError(t, json.Unmarshal([]byte(lines[1]), &last))
	require.Equal(t, events.DrainObstructed, last.Reason)
}
