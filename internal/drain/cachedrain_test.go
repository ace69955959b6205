package drain

import (
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"drydock.dev/drydock/internal/temporal"
)

func TestANodeIsNotDrainedWhileTheCacheLacksItsLastPod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, server := newWorld(nil), newWorld(manyPods(1))
		drain := server.drain()
		drain.Cache, drain.Watcher = behind, behind
		ended, _ := begin(t, drain)
		for range 3 {
			behind.change(func(*Snapshot) {})
			soon()
		}
		time.Sleep(server.grace + time.Second)
		behind.change(func(*Snapshot) {})
		require.NoError(t, <-ended)
		require.Len(t, server.evictionRequests(), 1)
	})
}

func TestADaemonSetMissingFromTheCacheDoesNotEndTheDrain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		pods := []corev1.Pod{webPod("web"), webPod("new", ownedBy("DaemonSet", "new"))}
		behind, server := newWorld(pods), newWorld(pods)
		daemonSets := []appsv1.DaemonSet{{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "new"}}}
		server.snapshot.DaemonSets = daemonSets
		drain := behind.drain()
		drain.Server = server
		ended, _ := begin(t, drain)
		require.Equal(t, []evictionRequest{{"web", 0}}, behind.evictionRequests())
		behind.change(func(s *Snapshot) { s.DaemonSets = daemonSets })
		server.remove("web")
		require.NoError(t, <-ended)
	})
}

func TestADeletedNodeEndsTheDrain(t *testing.T) {
	for name, change := range map[string]func(*Snapshot){
		"no node has its name":          func(s *Snapshot) { s.Node = nil },
		"another node has its name":     func(s *Snapshot) { s.Node = &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: node, UID: "new"}} },
		"all its pods have left before": func(s *Snapshot) { s.Node, s.Pods = nil, nil },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w := newWorld(manyPods(1), webBudget(0, 2, 2, 3))
				ended, _ := begin(t, w.drain())
				w.change(change)
				require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(<-ended))
			})
		})
	}
}

func TestANodeReplacedBeforeTheFirstPassIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1))
		drain := w.drain()
		drain.NodeUID = "uid-of-the-one-before"
		drain.Ours = func(*corev1.Node) bool { return false }
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrNodeGone, temporal.ErrorType(err))
		require.Empty(t, w.evictionRequests())
	})
}

func TestAStaleNodeInTheCacheDoesNotMakeTheNodeGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		behind, server := newWorld(nil), newWorld(nil)
		behind.snapshot.Node.UID = "uid-of-the-one-before"
		drain := behind.drain()
		drain.Server, drain.NodeUID = server, server.snapshot.Node.UID
		_, err := drain.Run(t.Context())
		require.NoError(t, err)
	})
}

func TestANodeWithoutTheOwnershipMarkIsNotDrainedFurther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(manyPods(1), webBudget(0, 2, 2, 3))
		drain := w.drain()
		drain.Ours = func(node *corev1.Node) bool { return node.Annotations["returned"] == "" }
		time.AfterFunc(time.Minute, func() {
			w.change(func(s *Snapshot) {
				s.Node = s.Node.DeepCopy()
				s.Node.Annotations = map[string]string{"returned": "yes"}
				s.Pods = append(s.Pods, webPod("came-later"))
			})
		})
		_, err := drain.Run(t.Context())
		require.Equal(t, temporal.ErrNodeBusy, temporal.ErrorType(err))
		require.Equal(t, time.Minute, time.Since(w.began).Truncate(time.Second))
		require.NotContains(t, fmt.Sprint(w.evictionRequests()), "came-later")
	})
}
