package invariants

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	auditv1 "k8s.io/apiserver/pkg/apis/audit/v1"

	"drydock.dev/drydock/internal/devstack/fleet"
)

const (
	drydock        = "system:serviceaccount:drydock-system:drydock-initiator"
	lockController = "system:serviceaccount:drydock-system:drydock-lock-controller"
	person         = "kubernetes-admin"
	scheduler      = "system:kube-scheduler"
)

// step is a request in the audit log.
type step struct {
	name, by, verb, resource, object, body string
}

// owner is the ownership mark of a maintenance.
func owner(node string) string { return "node/c1/default/" + node + "/run-1" }

func cordon(by, node string) step {
	body := `{"spec":{"unschedulable":true}}`
	if by == drydock {
		body = fmt.Sprintf(`{"metadata":{"annotations":{"drydock.dev/owner":%q,"drydock.dev/former-state":"schedulable"}},"spec":{"unschedulable":true}}`, owner(node))
	}
	return step{"cordon " + node, by, "patch", "nodes", node, body}
}

func uncordon(by, node string) step {
	body := `{"spec":{"unschedulable":null}}`
	if by == drydock {
		body = `{"metadata":{"annotations":{"drydock.dev/owner":null,"drydock.dev/former-state":null}},"spec":{"unschedulable":null}}`
	}
	return step{"uncordon " + node, by, "patch", "nodes", node, body}
}

func bind(pod, node string) step {
	return step{"bind " + pod, scheduler, "create", "pods/binding", "shop/" + pod, fmt.Sprintf(`{"metadata":{"uid":"uid-%s"},"target":{"name":%q}}`, pod, node)}
}

func evict(pod string) step {
	return step{"evict " + pod, drydock, "create", "pods/eviction", "shop/" + pod, fmt.Sprintf(`{"deleteOptions":{"preconditions":{"uid":"uid-%s"}}}`, pod)}
}

func job(node string) step {
	return step{"job " + node, drydock, "create", "jobs", "work/job-" + node, fmt.Sprintf(
		`{"metadata":{"annotations":{"drydock.dev/owner":%q}},"spec":{"template":{"spec":{"affinity":{"nodeAffinity":{"requiredDuringSchedulingIgnoredDuringExecution":`+
			`{"nodeSelectorTerms":[{"matchFields":[{"key":"metadata.name","operator":"In","values":[%q]}]}]}}}}}}}`, owner(node), node)}
}

func request(node string) step {
	return step{"request " + node, drydock, "create", "nodemaintenancerequests", "req-" + node, fmt.Sprintf(`{"spec":{"nodeName":%q}}`, node)}
}

func withdraw(node string) step {
	return step{"withdraw " + node, drydock, "delete", "nodemaintenancerequests", "req-" + node, ""}
}

func releaseLock(node string) step {
	return step{"release " + node, lockController, "patch", "nodeworkloadlocks/status", "lock-" + node, `{"status":{"state":"inactive"}}`}
}

func holdLock(node string) step {
	return step{"hold " + node, lockController, "patch", "nodeworkloadlocks/status", "lock-" + node, `{"status":{"state":"active"}}`}
}

func createLock(node string) step {
	return step{"lock " + node, lockController, "create", "nodeworkloadlocks", "lock-" + node, fmt.Sprintf(`{"spec":{"nodeName":%q}}`, node)}
}

func clusterLock(state string) step {
	return step{"cluster lock " + state, lockController, "patch", "clusterworkloadlocks/status", "vrouter", fmt.Sprintf(`{"status":{"state":%q}}`, state)}
}

// maintained is the whole maintenance of a node with one pod.
func maintained(node string) []step {
	return []step{
		request(node), releaseLock(node), cordon(drydock, node), evict("web-" + node), bind("web-"+node+"-again", "other"), job(node),
		uncordon(drydock, node), withdraw(node), holdLock(node),
	}
}

// correctLog is the log of a correct rollout over a control-plane node and two workers.
func correctLog() []step {
	log := []step{
		createLock("w1"), holdLock("w1"), createLock("w2"), holdLock("w2"), clusterLock("active"), bind("web-w1", "w1"), bind("web-w2", "w2"),
		{"request cluster", drydock, "create", "clustermaintenancerequests", "drydock-1", ""},
		clusterLock("inactive"),
		cordon(drydock, "cp"), job("cp"), uncordon(drydock, "cp"),
	}
	log = append(append(log, maintained("w1")...), maintained("w2")...)
	return append(log, step{"withdraw cluster", drydock, "delete", "clustermaintenancerequests", "drydock-1", ""}, clusterLock("active"))
}

func index(t *testing.T, log []step, name string) int {
	t.Helper()
	i := slices.IndexFunc(log, func(s step) bool { return s.name == name })
	require.GreaterOrEqual(t, i, 0, name)
	return i
}

// without, before, after and moved change a log.
func without(name string) func(*testing.T, []step) []step {
	return func(t *testing.T, log []step) []step {
		i := index(t, log, name)
		return slices.Delete(log, i, i+1)
	}
}

func before(name string, steps ...step) func(*testing.T, []step) []step {
	return func(t *testing.T, log []step) []step { return slices.Insert(log, index(t, log, name), steps...) }
}

func after(name string, steps ...step) func(*testing.T, []step) []step {
	return func(t *testing.T, log []step) []step { return slices.Insert(log, index(t, log, name)+1, steps...) }
}

func moved(name, to string) func(*testing.T, []step) []step {
	return func(t *testing.T, log []step) []step {
		s := log[index(t, log, name)]
		return before(to, s)(t, without(name)(t, log))
	}
}

var start = time.Date(2026, 6, 1, 12, 0, 0, 0, time.UTC)

// events are the audit events of a log, ten seconds apart. The pod of a Job is bound immediately, unless the Job is late.
func events(log []step) []auditv1.Event {
	var events []auditv1.Event
	for i, s := range log {
		received := start.Add(time.Duration(i+1) * 10 * time.Second)
		events = append(events, eventOf(s, received))
		if strings.HasPrefix(s.name, "job ") {
			events = append(events, eventOf(step{"", scheduler, "create", "pods/binding", s.object + "-x7k2p", `{}`}, received.Add(time.Millisecond)))
		}
	}
	return events
}

func eventOf(s step, received time.Time) auditv1.Event {
	event := auditv1.Event{
		Stage: auditv1.StageResponseComplete, Verb: s.verb, User: authenticationv1.UserInfo{Username: s.by},
		ResponseStatus: &metav1.Status{Code: 200}, RequestReceivedTimestamp: metav1.NewMicroTime(received),
		StageTimestamp: metav1.NewMicroTime(received.Add(time.Millisecond)), ObjectRef: &auditv1.ObjectReference{},
	}
	event.ObjectRef.Resource, event.ObjectRef.Subresource, _ = strings.Cut(s.resource, "/")
	event.ObjectRef.Name = s.object
	if namespace, name, namespaced := strings.Cut(s.object, "/"); namespaced {
		event.ObjectRef.Namespace, event.ObjectRef.Name = namespace, name
	}
	if s.body != "" {
		event.RequestObject = &runtime.Unknown{Raw: []byte(s.body)}
	}
	return event
}

func clusterOf(log []step) Cluster {
	return Cluster{
		Name: "c1", Actions: fleet.ActionsOf(events(log)), Since: start, ControlPlane: []string{"cp"}, MaxOutOfService: 1,
		Maintained: []string{"cp", "w1", "w2"}, WithJob: []string{"cp", "w1", "w2"},
	}
}

func TestACorrectRolloutHasNoViolations(t *testing.T) {
	log := correctLog()
	for _, s := range log {
		require.True(t, s.body == "" || json.Valid([]byte(s.body)), s.body)
	}
	require.Empty(t, clusterOf(log).Violations())
	require.Empty(t, Order([][]string{{"c1"}}, 1, []Cluster{clusterOf(log)}))
}

func TestAJobWithoutAPodOnTheNodeIsNotWorkOnIt(t *testing.T) {
	late := job("w1")
	late.name = "late job w1"
	require.Empty(t, clusterOf(after("uncordon w1", late)(t, correctLog())).Violations())
	require.NotEmpty(t, clusterOf(after("uncordon w1", job("w1"))(t, correctLog())).Violations())
}

func TestViolationsAreFound(t *testing.T) {
	unmark := step{"unmark w1", person, "patch", "nodes", "w1", `{"metadata":{"annotations":{"drydock.dev/owner":null}}}`}
	tests := []struct {
		name   string
		change func(*testing.T, []step) []step
		want   string
	}{
		{"a node is not maintained", func(_ *testing.T, log []step) []step {
			return slices.DeleteFunc(log, func(s step) bool { return strings.HasSuffix(s.name, " w2") && s.by == drydock })
		}, "w2 is not maintained"},
		{"a node has no Job", without("job w1"), "w1 is taken out of service 1 times, worked on 0 times and returned 1 times"},
		{"a node is cordoned twice", after("cordon w1", cordon(drydock, "w1")), "w1 is taken out of service twice"},
		{"a node is maintained again", func(t *testing.T, log []step) []step {
			again := cordon(drydock, "cp")
			again.body = strings.Replace(again.body, "run-1", "run-2", 1)
			return after("uncordon cp", again, uncordon(drydock, "cp"))(t, log)
		}, "cp is maintained 2 times"},
		{"a node has two Jobs", after("job w1", job("w1")), "the work on w1 for " + owner("w1") + " is done twice"},
		{"a node is not returned", without("uncordon w2"), "w2 is still out of service"},
		{"a pod is evicted twice", after("evict web-w1", evict("web-w1")), "pod shop/web-w1 (uid-web-w1) is evicted twice"},
		{"an eviction has no UID", func(t *testing.T, log []step) []step {
			log[index(t, log, "evict web-w1")].body = `{}`
			return log
		}, "has no UID"},
		{"a pod is evicted from a node in service", moved("evict web-w2", "cordon w1"), "from w2, which is not under maintenance"},
		{"a Job runs on a node in service", moved("job w2", "cordon w1"), "on w2, which is not under maintenance"},
		{"two nodes are out of service where one may be", moved("cordon w2", "uncordon w1"), "2 nodes are out of service, 1 may be: [w1 w2]"},
		{"a node is cordoned before its locks are released", moved("release w1", "evict web-w1"), "take out of service w1 while lock lock-w1 is held"},
		{"a pod is evicted after the locks are held again", moved("hold w1", "evict web-w1"), "the eviction of shop/web-w1 from w1 while lock lock-w1 is held"},
		{"a Job runs after the locks are held again", moved("hold w1", "job w1"), "job work/job-w1 on w1 while lock lock-w1 is held"},
		{"a node is cordoned before the locks of the cluster are released", moved("cluster lock inactive", "uncordon cp"), "take out of service cp while the lock vrouter of the cluster is held"},
		{"a node is cordoned before a lock of the cluster has a state", before("cordon cp", step{"", person, "create", "clusterworkloadlocks", "other", `{}`}), "take out of service cp while the lock other of the cluster is held"},
		{"a pod is evicted after a lock has failed", before("evict web-w1", step{"", lockController, "patch", "nodeworkloadlocks/status", "lock-w1", `{"status":{"state":"failed"}}`}), "the eviction of shop/web-w1 from w1 while lock lock-w1 is held"},
		{"a lock releases a second node", after("release w1", request("w2"), releaseLock("w2")), "lock lock-w2 releases w2 while lock-w1 has released w1"},
		{"a lock releases a node without a request", moved("release w1", "request w1"), "lock lock-w1 releases w1 without a request"},
		{"a lock is held again during a request", after("release w1", holdLock("w1"), releaseLock("w1")), "lock lock-w1 is held again during request req-w1"},
		{"a lock is held again during a request that found it released", func(t *testing.T, log []step) []step {
			log = moved("release w1", "request w1")(t, log)
			log = before("release w1", step{"", person, "create", "nodemaintenancerequests", "old-w1", `{"spec":{"nodeName":"w1"}}`})(t, log)
			log = before("request w1", step{"", person, "delete", "nodemaintenancerequests", "old-w1", ""})(t, log)
			require.Empty(t, clusterOf(slices.Clone(log)).Violations())
			return after("cordon w1", holdLock("w1"), releaseLock("w1"))(t, log)
		}, "lock lock-w1 is held again during request req-w1"},
		{"a request is withdrawn too early", moved("withdraw w1", "job w1"), "the request for w1 is withdrawn while the node is out of service"},
		{"the cordon of another user is removed", before("cordon w1", cordon(person, "w1")), "w1 is uncordoned, which kubernetes-admin had cordoned"},
		{"a node is returned after another user removed our mark", after("evict web-w1", unmark), "uncordon of w1, which is not under maintenance"},
		{"a foreign annotation is changed", after("cordon w1", step{"", drydock, "patch", "nodes", "w1", `{"metadata":{"annotations":{"example.com/team":null}}}`}), "annotation example.com/team of w1"},
		{"a foreign field is changed", after("cordon w1", step{"", drydock, "patch", "nodes", "w1", `{"spec":{"taints":null}}`}), "spec.taints of w1"},
		{"a foreign condition is changed", after("cordon w1", step{"", drydock, "patch", "nodes/status", "w1", `{"status":{"conditions":[{"type":"Ready"}]}}`}), "condition Ready of w1"},
		{"a pod is deleted", after("cordon w1", step{"", drydock, "delete", "pods", "shop/web-w1", ""}), "delete pods of shop/web-w1"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			violations := clusterOf(test.change(t, correctLog())).Violations()
			require.Contains(t, strings.Join(violations, "\n"), test.want)
		})
	}
}

func TestANodeIsMaintainedTwiceOnlyForTwoRequests(t *testing.T) {
	again := func(run string) []step {
		steps := []step{cordon(drydock, "w1"), job("w1"), uncordon(drydock, "w1")}
		for i := range steps {
			steps[i].name, steps[i].body = steps[i].name+" "+run, strings.Replace(steps[i].body, "run-1", run, 1)
		}
		return steps
	}
	twice := before("cordon w1", again("run-0")...)(t, correctLog())
	cluster := clusterOf(twice)
	require.Contains(t, strings.Join(cluster.Violations(), "\n"), "w1 is maintained 2 times")
	cluster.MaintainedTwice = []string{"w1"}
	require.Contains(t, strings.Join(cluster.Violations(), "\n"), "w1 is taken out of service 1 times, worked on 1 times and returned 1 times", "the second maintenance has no Job")
	cluster.WithJob = append(cluster.WithJob, "w1")
	require.Empty(t, cluster.Violations())
	cluster.WithJob = append(cluster.WithJob, "w1")
	require.Contains(t, strings.Join(cluster.Violations(), "\n"), "w1 is taken out of service 1 times, worked on 1 times and returned 1 times")
	cluster = clusterOf(before("cordon w1 run-0", again("run-3")...)(t, twice))
	cluster.MaintainedTwice = []string{"w1"}
	require.Contains(t, strings.Join(cluster.Violations(), "\n"), "w1 is maintained 3 times")
}

func TestControlPlaneNodesAreMaintainedOneAtATime(t *testing.T) {
	cluster := clusterOf(moved("uncordon cp", "uncordon w1")(t, correctLog()))
	cluster.MaxOutOfService = 2
	require.Contains(t, strings.Join(cluster.Violations(), "\n"), "a node of the control plane is not alone: [cp w1]")
}

func TestActionsOfOthersAreNotViolations(t *testing.T) {
	tests := map[string]func(*testing.T, []step) []step{
		"another user cordons a node before Drydock": func(t *testing.T, log []step) []step {
			log = before("cordon w1", cordon(person, "w1"))(t, log)
			i := slices.IndexFunc(log, func(s step) bool { return s.name == "cordon w1" && s.by == drydock })
			log[i].body = strings.Replace(log[i].body, `,"spec":{"unschedulable":true}`, "", 1)
			log[index(t, log, "uncordon w1")].body = `{"metadata":{"annotations":{"drydock.dev/owner":null}}}`
			return log
		},
		"another user uncordons a node during its maintenance": func(t *testing.T, log []step) []step {
			log = after("evict web-w1", uncordon(person, "w1"))(t, log)
			i := slices.IndexFunc(log, func(s step) bool { return s.name == "uncordon w1" && s.by == drydock })
			log[i].body = `{"metadata":{"annotations":{"drydock.dev/owner":null}}}`
			return log
		},
		"another user cordons and uncordons a node": before("cordon w1", cordon(person, "w1"), uncordon(person, "w1")),
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) { require.Empty(t, clusterOf(change(t, correctLog())).Violations()) })
	}
}

func TestRefusedAndDryRunRequestsAreNotActions(t *testing.T) {
	log := after("cordon w1", cordon(drydock, "w1"), cordon(drydock, "w1"))(t, correctLog())
	all := events(log)
	i := index(t, log, "cordon w1")
	all[i+1].ResponseStatus.Code = 409
	all[i+2].RequestURI = "/api/v1/nodes/w1?dryRun=All"
	cluster := clusterOf(nil)
	cluster.Actions = fleet.ActionsOf(all)
	require.Empty(t, cluster.Violations())
}

func TestARepeatedEvictionIsAllowedOnlyAfterALostAnswer(t *testing.T) {
	log := after("evict web-w1", evict("web-w1"))(t, correctLog())
	all := fleet.ActionsOf(events(log))
	first := all[slices.IndexFunc(all, func(d fleet.Action) bool { return d.What == fleet.ActionEviction })]
	lost := func(from, to time.Duration) Interval { return Interval{first.Received.Add(from), first.At.Add(to)} }
	tests := []struct {
		name     string
		log      []step
		lost     []Interval
		harmless bool
	}{
		{"no answer was lost", log, nil, false},
		{"the fault ended when the API server received the first", log, []Interval{lost(-time.Minute, -time.Millisecond)}, true},
		{"the answer to the first was lost", log, []Interval{lost(0, 0)}, true},
		{"the fault began before the answer arrived", log, []Interval{lost(time.Second, time.Minute)}, true},
		{"one of two faults lost the answer", log, []Interval{lost(-time.Minute, -time.Second), lost(0, 0)}, true},
		{"the answer arrived before the fault", log, []Interval{lost(1100*time.Millisecond, time.Minute)}, false},
		{"the fault ended before the first", log, []Interval{lost(-time.Minute, -2*time.Millisecond)}, false},
		{"only the answer to the second was lost", log, []Interval{lost(10*time.Second, 10*time.Second)}, false},
		{"the answer to the second arrived, and there is a third", after("evict web-w1", evict("web-w1"))(t, slices.Clone(log)), []Interval{lost(0, 0)}, false},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			cluster := clusterOf(test.log)
			cluster.AnswersLost = test.lost
			if violations := cluster.Violations(); test.harmless {
				require.Empty(t, violations)
			} else {
				require.Len(t, violations, 1)
				require.Contains(t, violations[0], "pod shop/web-w1 (uid-web-w1) is evicted twice")
			}
		})
	}
}

func TestViolationsBeforeTheMaintenanceAreIgnored(t *testing.T) {
	log := slices.Concat([]step{cordon(drydock, "w1"), cordon(drydock, "w1"), uncordon(drydock, "w1")}, correctLog())
	cluster := clusterOf(log)
	require.NotEmpty(t, cluster.Violations())
	cluster.Since = start.Add(35 * time.Second)
	require.Empty(t, cluster.Violations())
}

func TestTheOrderOfClusters(t *testing.T) {
	at := func(name string, first, last int) Cluster {
		action := func(what string, second int) fleet.Action {
			instant := start.Add(time.Duration(second) * time.Second)
			return fleet.Action{What: what, By: drydock, Received: instant, At: instant}
		}
		return Cluster{Name: name, Since: start, Actions: []fleet.Action{action(fleet.ActionRequestCluster, first), action(fleet.ActionWithdrawCluster, last)}}
	}
	plan := [][]string{{"a"}, {"b", "c"}}
	tests := []struct {
		name     string
		clusters []Cluster
		most     int
		want     string
	}{
		{"batches run one after the other", []Cluster{at("a", 1, 2), at("b", 3, 5), at("c", 4, 6)}, 2, ""},
		{"a cluster has no actions", []Cluster{at("a", 1, 2), {Name: "b"}, at("c", 4, 6)}, 2, ""},
		{"a batch begins too early", []Cluster{at("a", 1, 4), at("b", 3, 5)}, 2, "b of batch 2 begins while a of batch 1 is running"},
		{"a later batch begins first", []Cluster{at("a", 6, 7), at("b", 3, 5)}, 2, "a of batch 1 begins after b of batch 2"},
		{"too many clusters run at the same time", []Cluster{at("a", 1, 2), at("b", 3, 5), at("c", 4, 6)}, 1, "2 clusters are running when c begins, at most 1 may be"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			violations := Order(plan, test.most, test.clusters)
			if test.want == "" {
				require.Empty(t, violations)
				return
			}
			require.Contains(t, violations, test.want)
		})
	}
}
