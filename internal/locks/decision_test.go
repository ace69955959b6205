package locks_test

import (
	"encoding/json"
	"testing"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/locks"
)

func TestTheDecisionHasTheDocumentedJSON(t *testing.T) {
	w := newWorld(t, "n1")
	w.settle()
	w.request("n1")
	printed, err := json.Marshal(w.decide())
	require.NoError(t, err)
	require.JSONEq(t, `{"locks":[
		{"kind":"ClusterWorkloadLock","name":"tf","action":"keep","from":"active","to":"active","reason":"NoRequest"},
		{"kind":"NodeWorkloadLock","name":"tf-n1","node":"n1","action":"update","from":"active","to":"inactive","reason":"PodReady"}
	], "progress":{"percentage":100,"description":"1 out of 1 nodes updated","inactiveNow":1,"updated":1,"total":1}}`, string(printed))
}

func TestAnUnreadableRecordIsAnError(t *testing.T) {
	w := newWorld(t, "n1")
	w.settle()
	w.clusterLock().Annotations = map[string]string{locks.AnnotationPermits: "n1"}
	_, err := locks.Decide(w.policy, w.snapshot, w.now)
	require.ErrorContains(t, err, "read annotation drydock.dev/permits of ClusterWorkloadLock tf")
	w.clusterLock().Annotations = nil
	w.policy.NodePodSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "app", Operator: "Is"}}}
	_, err = locks.Decide(w.policy, w.snapshot, w.now)
	require.ErrorIs(t, err, locks.ErrInvalid)
	require.ErrorContains(t, err, "spec.nodePodSelector")
	w.policy.NodeSelector = metav1.LabelSelector{MatchExpressions: []metav1.LabelSelectorRequirement{{Key: "tf", Operator: "Is"}}}
	_, err = locks.Decide(w.policy, w.snapshot, w.now)
	require.ErrorContains(t, err, "spec.nodeSelector")
}
