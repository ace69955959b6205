package locks_test

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"pgregory.net/rapid"

	lcmv1 "drydock.dev/drydock/internal/apis/lcm/v1alpha1"
	"drydock.dev/drydock/internal/locks"
)

// asked returns requests for these nodes, each a second younger than the one before.
func asked(nodes ...string) []lcmv1.NodeMaintenanceRequest {
	var requests []lcmv1.NodeMaintenanceRequest
	for i, node := range nodes {
		requests = append(requests, lcmv1.NodeMaintenanceRequest{
			ObjectMeta: metav1.ObjectMeta{Name: "for-" + node, CreationTimestamp: metav1.NewTime(t0.Add(time.Duration(i) * time.Second))},
			Spec:       lcmv1.NodeMaintenanceRequestSpec{NodeName: node},
		})
	}
	return requests
}

// lockOf is the lock of an application on a node.
func lockOf(controller, node string, state lcmv1.LockState) lcmv1.NodeWorkloadLock {
	return nodeLock(controller+"-"+node, controller, node, state)
}

// nodesOf are the nodes of requests.
func nodesOf(requests []lcmv1.NodeMaintenanceRequest) []string {
	var nodes []string
	for _, r := range requests {
		nodes = append(nodes, r.Spec.NodeName)
	}
	return nodes
}

func TestRequestsThatWaitForEachOthersLocksFormACycle(t *testing.T) {
	crossed := []lcmv1.NodeWorkloadLock{
		lockOf("ceph", "n1", inactive), lockOf("tf", "n1", active),
		lockOf("ceph", "n2", active), lockOf("tf", "n2", inactive),
	}
	for _, test := range []struct {
		name     string
		requests []lcmv1.NodeMaintenanceRequest
		locks    []lcmv1.NodeWorkloadLock
		// cycle that n1 is part of.
		cycle []string
	}{
		{name: "two nodes, each with the lock that the other waits for", requests: asked("n1", "n2"), locks: crossed, cycle: []string{"n1", "n2"}},
		{name: "whichever was asked for first", requests: asked("n2", "n1"), locks: crossed, cycle: []string{"n2", "n1"}},
		{
			name: "a failed lock waits too: it may recover", requests: asked("n1", "n2"),
			locks: slices.Concat(crossed[:1], []lcmv1.NodeWorkloadLock{lockOf("tf", "n1", failed)}, crossed[2:]), cycle: []string{"n1", "n2"},
		},
		{name: "a node without a request returns", requests: asked("n1"), locks: crossed},
		{
			name: "a node that is maintained comes back", requests: asked("n1", "n2"),
			locks: slices.Concat(crossed[:2], []lcmv1.NodeWorkloadLock{lockOf("ceph", "n2", inactive)}, crossed[3:]),
		},
		{
			name: "an application that released no node has other reasons to hold", requests: asked("n1", "n2"),
			locks: []lcmv1.NodeWorkloadLock{lockOf("ceph", "n1", inactive), lockOf("tf", "n1", active), lockOf("ceph", "n2", active), lockOf("tf", "n2", active)},
		},
		{
			name: "an application that released a maintained node gets that node back", requests: asked("n1", "n2", "n3"),
			locks: slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", inactive), lockOf("ceph", "n3", inactive)}),
		},
		{
			name: "the same if that node waits for an application with other reasons", requests: asked("n1", "n2", "n3"),
			locks: slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", inactive), lockOf("web", "n3", active)}),
		},
		{
			name: "three nodes in a ring", requests: asked("n1", "n2", "n3"),
			locks: []lcmv1.NodeWorkloadLock{
				lockOf("a", "n1", inactive), lockOf("b", "n1", active), lockOf("b", "n2", inactive), lockOf("c", "n2", active),
				lockOf("c", "n3", inactive), lockOf("a", "n3", active),
			},
			cycle: []string{"n1", "n2", "n3"},
		},
		{
			name: "a request that only waits for a cycle is not part of it", requests: asked("n1", "n2", "n3"),
			locks: slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", active), lockOf("web", "n3", inactive)}), cycle: []string{"n1", "n2"},
		},
		{
			name: "two requests for a node are both in it", requests: append(asked("n1", "n2"), asked("n2")...), locks: crossed,
			cycle: []string{"n1", "n2", "n2"},
		},
		{
			name: "a second lock of an application on a node waits for no other node", requests: asked("n1", "n2"),
			locks: []lcmv1.NodeWorkloadLock{lockOf("tf", "n1", inactive), nodeLock("tf-n1-2", "tf", "n1", active)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := nodesOf(locks.Cycle("n1", test.locks, test.requests))
			require.ElementsMatch(t, test.cycle, found)
			if len(test.requests) == len(test.cycle) && len(slices.Compact(slices.Clone(found))) == len(found) {
				require.Equal(t, test.cycle, found, "the oldest first")
			}
		})
	}
	waiting := slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", active), lockOf("web", "n3", inactive)})
	require.Empty(t, locks.Cycle("n3", waiting, asked("n1", "n2", "n3")), "withdrawing a request that only waits for a cycle does not end it")
}

func TestTheYoungestWithdrawableRequestGivesWay(t *testing.T) {
	anybody := func(*lcmv1.NodeMaintenanceRequest) bool { return true }
	but := func(node string) func(*lcmv1.NodeMaintenanceRequest) bool {
		return func(r *lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName != node }
	}
	cycle := asked("n1", "n2", "n3")
	require.Equal(t, "n3", locks.GivesWay(cycle, anybody).Spec.NodeName)
	require.Equal(t, "n2", locks.GivesWay(cycle, but("n3")).Spec.NodeName, "a request of another client is not withdrawn")
	require.Equal(t, "n2", locks.GivesWay(append(cycle, asked("n3")...), anybody).Spec.NodeName, "n3 would still be requested")
	require.Nil(t, locks.GivesWay(asked("n1"), but("n1")))
	require.Nil(t, locks.GivesWay(nil, anybody))
}

// crossing is a cluster whose applications each release few nodes at a time, in any order.
type crossing struct {
	apps   []string
	limits map[string]int
	// asked are nodes with a request, oldest first; yielded wait without a request until these others are served.
	asked   []string
	yielded map[string][]string
	letGo   map[string][]string
	served  []string
}

func (c *crossing) locks() (all []lcmv1.NodeWorkloadLock) {
	for _, app := range c.apps {
		for _, node := range names {
			state := active
			if slices.Contains(c.letGo[app], node) {
				state = inactive
			}
			all = append(all, lockOf(app, node, state))
		}
	}
	return all
}

func (c *crossing) rearm(node string) {
	c.asked = slices.DeleteFunc(c.asked, func(n string) bool { return n == node })
	for app, nodes := range c.letGo {
		c.letGo[app] = slices.DeleteFunc(nodes, func(n string) bool { return n == node })
	}
}

// open reports whether all applications have released a node.
func (c *crossing) open(node string) bool {
	return !slices.ContainsFunc(c.apps, func(app string) bool { return !slices.Contains(c.letGo[app], node) })
}

// moves are the events that can happen without a withdrawal.
func (c *crossing) moves() (moves []func()) {
	for _, node := range c.asked {
		if c.open(node) {
			moves = append(moves, func() {
				c.rearm(node)
				c.served = append(c.served, node)
			})
		}
		for _, app := range c.apps {
			if len(c.letGo[app]) < c.limits[app] && !slices.Contains(c.letGo[app], node) {
				moves = append(moves, func() { c.letGo[app] = append(c.letGo[app], node) })
			}
		}
	}
	return moves
}

// run applies every possible event, in random order.
func (c *crossing) run(t *rapid.T) {
	for moves := c.moves(); len(moves) > 0; moves = c.moves() {
		moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
	}
}

// queueAgain creates the withdrawn requests again after the others of their cycle have progressed.
func (c *crossing) queueAgain() {
	for _, node := range names {
		others, waits := c.yielded[node]
		if waits && !slices.ContainsFunc(others, func(n string) bool { return slices.Contains(c.asked, n) && !c.open(n) }) {
			delete(c.yielded, node)
			c.asked = append(c.asked, node)
		}
	}
}

func TestEveryNodeIsServedIfTheYoungestRequestOfEachCycleGivesWay(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &crossing{apps: []string{"a", "b", "c"}, limits: map[string]int{}, yielded: map[string][]string{}, letGo: map[string][]string{}}
		most := rapid.IntRange(1, 2).Draw(t, "most")
		for _, app := range c.apps {
			c.limits[app] = rapid.IntRange(1, most).Draw(t, "limit")
		}
		c.asked = rapid.Permutation(names).Draw(t, "asked")
		for rounds := 0; len(c.served) < len(names); rounds++ {
			require.Less(t, rounds, 50, "no progress: %+v", c)
			for range rapid.IntRange(0, 6).Draw(t, "moves") {
				if moves := c.moves(); len(moves) > 0 {
					moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
				}
			}
			early := map[string]bool{}
			for _, node := range c.asked {
				early[node] = len(locks.Cycle(node, c.locks(), asked(c.asked...))) > 0
			}
			c.run(t)
			for node, was := range early {
				require.False(t, was && most == 1 && slices.Contains(c.served, node), "%s was served without a withdrawal", node)
			}
			c.yield(t)
			c.queueAgain()
		}
	})
}

// yield withdraws one request of each cycle. No other event is possible.
func (c *crossing) yield(t *rapid.T) {
	if len(c.asked) == 0 {
		return
	}
	waiting, all, found := asked(c.asked...), c.locks(), false
	for _, node := range slices.Clone(c.asked) {
		cycle := locks.Cycle(node, all, waiting)
		found = found || len(cycle) > 0
		if way := locks.GivesWay(cycle, func(*lcmv1.NodeMaintenanceRequest) bool { return true }); way != nil && way.Spec.NodeName == node {
			c.rearm(node)
			c.yielded[node] = slices.DeleteFunc(nodesOf(cycle), func(n string) bool { return n == node })
		}
	}
	require.True(t, found, "all wait, and no cycle is seen: %+v", c)
}
