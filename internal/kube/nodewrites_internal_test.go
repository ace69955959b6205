package kube

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestACachedNodeIsNeverOlderThanTheLastWrite(t *testing.T) {
	at := func(version string, unschedulable bool) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker-1", ResourceVersion: version}, Spec: corev1.NodeSpec{Unschedulable: unschedulable}}
	}
	for name, c := range map[string]struct {
		cached *corev1.Node
		later  time.Duration
		want   *corev1.Node
	}{
		"an older one":                   {cached: at("9", false), want: at("10", true)},
		"the written one":                {cached: at("10", true), want: at("10", true)},
		"a newer one":                    {cached: at("11", false), want: at("11", false)},
		"an older one after a long time": {cached: at("9", false), later: writeRemembered + time.Second, want: at("9", false)},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var writes nodeWrites
				written := at("10", true)
				written.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: FieldManager}} // the cache has none
				writes.remember(written)
				writes.remember(at("8", false))    // an answer that came late
				written.Spec.Unschedulable = false // the caller's own copy
				time.Sleep(c.later)
				found := c.cached.DeepCopy()
				writes.catchUp(found)
				require.Equal(t, c.want, found)
			})
		})
	}
}

func TestOldWritesOfNodesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var writes nodeWrites
		for _, name := range []string{"worker-1", "worker-2"} {
			writes.remember(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: name, ResourceVersion: "10"}})
			time.Sleep(writeRemembered + time.Second)
		}
		require.Len(t, writes.latest, 1)
	})
}
