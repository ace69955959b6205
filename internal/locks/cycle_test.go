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

// requestsFor returns a request for each of these nodes, a second apart, oldest first.
func requestsFor(nodes ...string) []lcmv1.NodeMaintenanceRequest {
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
		{name: "two nodes, each with the lock that the other waits for", requests: requestsFor("n1", "n2"), locks: crossed, cycle: []string{"n1", "n2"}},
		{name: "the older request is first in the cycle", requests: requestsFor("n2", "n1"), locks: crossed, cycle: []string{"n2", "n1"}},
		{
			name: "a failed lock is part of a cycle, because it may recover", requests: requestsFor("n1", "n2"),
			locks: slices.Concat(crossed[:1], []lcmv1.NodeWorkloadLock{lockOf("tf", "n1", failed)}, crossed[2:]), cycle: []string{"n1", "n2"},
		},
		{name: "a node without a request is not waited for", requests: requestsFor("n1"), locks: crossed},
		{
			name: "a node under maintenance returns, so there is no cycle", requests: requestsFor("n1", "n2"),
			locks: slices.Concat(crossed[:2], []lcmv1.NodeWorkloadLock{lockOf("ceph", "n2", inactive)}, crossed[3:]),
		},
		{
			name: "an application that released no node has other reasons to hold", requests: requestsFor("n1", "n2"),
			locks: []lcmv1.NodeWorkloadLock{lockOf("ceph", "n1", inactive), lockOf("tf", "n1", active), lockOf("ceph", "n2", active), lockOf("tf", "n2", active)},
		},
		{
			name: "an application that released a maintained node gets that node back", requests: requestsFor("n1", "n2", "n3"),
			locks: slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", inactive), lockOf("ceph", "n3", inactive)}),
		},
		{
			name: "nor is there a cycle if that node waits for an application with other reasons", requests: requestsFor("n1", "n2", "n3"),
			locks: slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", inactive), lockOf("web", "n3", active)}),
		},
		{
			name: "three nodes in a ring", requests: requestsFor("n1", "n2", "n3"),
			locks: []lcmv1.NodeWorkloadLock{
				lockOf("a", "n1", inactive), lockOf("b", "n1", active), lockOf("b", "n2", inactive), lockOf("c", "n2", active),
				lockOf("c", "n3", inactive), lockOf("a", "n3", active),
			},
			cycle: []string{"n1", "n2", "n3"},
		},
		{
			name: "a request that only waits for a cycle is not part of it", requests: requestsFor("n1", "n2", "n3"),
			locks: slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", active), lockOf("web", "n3", inactive)}), cycle: []string{"n1", "n2"},
		},
		{
			name: "two requests for a node are both in it", requests: append(requestsFor("n1", "n2"), requestsFor("n2")...), locks: crossed,
			cycle: []string{"n1", "n2", "n2"},
		},
		{
			name: "a second lock of an application on a node waits for no other node", requests: requestsFor("n1", "n2"),
			locks: []lcmv1.NodeWorkloadLock{lockOf("tf", "n1", inactive), nodeLock("tf-n1-2", "tf", "n1", active)},
		},
	} {
		t.Run(test.name, func(t *testing.T) {
			found := nodesOf(locks.Cycle("n1", test.locks, test.requests))
			require.ElementsMatch(t, test.cycle, found)
			if len(test.requests) == len(test.cycle) && len(slices.Compact(slices.Clone(found))) == len(found) {
				require.Equal(t, test.cycle, found, "sorted by age")
			}
		})
	}
	waiting := slices.Concat(crossed, []lcmv1.NodeWorkloadLock{lockOf("tf", "n3", active), lockOf("web", "n3", inactive)})
	require.Empty(t, locks.Cycle("n3", waiting, requestsFor("n1", "n2", "n3")), "withdrawing a request that only waits for a cycle does not end it")
}

func TestTheVictimIsTheYoungestRequestThatMayBeWithdrawn(t *testing.T) {
	anyRequest := func(*lcmv1.NodeMaintenanceRequest) bool { return true }
	but := func(node string) func(*lcmv1.NodeMaintenanceRequest) bool {
		return func(r *lcmv1.NodeMaintenanceRequest) bool { return r.Spec.NodeName != node }
	}
	cycle := requestsFor("n1", "n2", "n3")
	require.Equal(t, "n3", locks.Victim(cycle, anyRequest).Spec.NodeName)
	require.Equal(t, "n2", locks.Victim(cycle, but("n3")).Spec.NodeName, "a request of another client is not withdrawn")
	require.Equal(t, "n2", locks.Victim(append(cycle, requestsFor("n3")...), anyRequest).Spec.NodeName, "n3 has a second request")
	require.Nil(t, locks.Victim(requestsFor("n1"), but("n1")))
	require.Nil(t, locks.Victim(nil, anyRequest))
}

// contention is a cluster whose applications each release a few nodes at a time, in any order.
type contention struct {
	apps   []string
	limits map[string]int
	// asked are the nodes with a request, oldest first. withdrawn maps a node without a request to the nodes that it waits for.
	asked     []string
	withdrawn map[string][]string
	released  map[string][]string
	served    []string
}

func (c *contention) locks() (all []lcmv1.NodeWorkloadLock) {
	for _, app := range c.apps {
		for _, node := range names {
			state := active
			if slices.Contains(c.released[app], node) {
				state = inactive
			}
			all = append(all, lockOf(app, node, state))
		}
	}
	return all
}

func (c *contention) remove(node string) {
	c.asked = slices.DeleteFunc(c.asked, func(n string) bool { return n == node })
	for app, nodes := range c.released {
		c.released[app] = slices.DeleteFunc(nodes, func(n string) bool { return n == node })
	}
}

// open reports whether all applications have released a node.
func (c *contention) open(node string) bool {
	return !slices.ContainsFunc(c.apps, func(app string) bool { return !slices.Contains(c.released[app], node) })
}

// moves are the events that can happen without a withdrawal.
func (c *contention) moves() (moves []func()) {
	for _, node := range c.asked {
		if c.open(node) {
			moves = append(moves, func() {
				c.remove(node)
				c.served = append(c.served, node)
			})
		}
		for _, app := range c.apps {
			if len(c.released[app]) < c.limits[app] && !slices.Contains(c.released[app], node) {
				moves = append(moves, func() { c.released[app] = append(c.released[app], node) })
			}
		}
	}
	return moves
}

// run applies every possible event, in random order.
func (c *contention) run(t *rapid.T) {
	for moves := c.moves(); len(moves) > 0; moves = c.moves() {
		moves[rapid.IntRange(0, len(moves)-1).Draw(t, "move")]()
	}
}

// requeue creates the withdrawn requests again after the others of their cycle have progressed.
func (c *contention) requeue() {
	for _, node := range names {
		others, waits := c.withdrawn[node]
		if waits && !slices.ContainsFunc(others, func(n string) bool { return slices.Contains(c.asked, n) && !c.open(n) }) {
			delete(c.withdrawn, node)
			c.asked = append(c.asked, node)
		}
	}
}

func TestEveryNodeIsServedIfTheYoungestRequestOfEachCycleIsWithdrawn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		c := &contention{apps: []string{"a", "b", "c"}, limits: map[string]int{}, withdrawn: map[string][]string{}, released: map[string][]string{}}
		maxLimit := rapid.IntRange(1, 2).Draw(t, "maxLimit")
		for _, app := range c.apps {
			c.limits[app] = rapid.IntRange(1, maxLimit).Draw(t, "limit")
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
				early[node] = len(locks.Cycle(node, c.locks(), requestsFor(c.asked...))) > 0
			}
			c.run(t)
			for node, was := range early {
				require.False(t, was && maxLimit == 1 && slices.Contains(c.served, node), "%s was served without a withdrawal", node)
			}
			c.withdrawOne(t)
			c.requeue()
		}
	})
}

// withdrawOne withdraws one request of each cycle. No other event is possible.
func (c *contention) withdrawOne(t *rapid.T) {
	if len(c.asked) == 0 {
		return
	}
	waiting, all, found := requestsFor(c.asked...), c.locks(), false
	for _, node := range slices.Clone(c.asked) {
		cycle := locks.Cycle(node, all, waiting)
		found = found || len(cycle) > 0
		if victim := locks.Victim(cycle, func(*lcmv1.NodeMaintenanceRequest) bool { return true }); victim != nil && victim.Spec.NodeName == node {
			c.remove(node)
			c.withdrawn[node] = slices.DeleteFunc(nodesOf(cycle), func(n string) bool { return n == node })
		}
	}
	require.True(t, found, "all nodes wait, but no cycle is found: %+v", c)
}
