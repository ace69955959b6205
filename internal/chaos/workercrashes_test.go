package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// workerCrashes are scenarios in which a worker is killed or stopped, in every state of the workflows.
func workerCrashes() []scenario {
	var lost, unanswered []state
	for _, r := range nodeRequests() {
		lost, unanswered = append(lost, r.lost()), append(unanswered, r.unanswered())
	}
	// One crash in different kinds of states.
	few := crashScenario("the worker is killed in five states", killed, func(s *scenarioRun, t *testing.T) []target { return append(s.targets(t, 4), s.lockedNode()) },
		draining(), jobRunning(), nodeRequest("the cordon").unanswered(), nodeRequest("the uncordon").lost(), lockRelease(false))
	few.short = true
	crashes := []scenario{few}
	for _, how := range []end{killed, stopped} {
		for _, answered := range []bool{false, true} {
			release := lockRelease(answered)
			crashes = append(crashes, crashScenario("the worker "+how.what+" during "+release.moment, how, func(s *scenarioRun, _ *testing.T) []target { return []target{s.lockedNode()} }, release))
		}
		crashes = append(crashes,
			crashOnNodes("the worker "+how.what+" while maintenances wait", how, nodeWaits()...),
			crashOnNodes("the worker "+how.what+" while its requests are in flight", how, lost...),
			crashOnNodes("the worker "+how.what+" while the answers are in flight", how, unanswered...),
			crashOnSpokes("the worker "+how.what+" while the answers of clusters are in flight", how, clusterRequest("create", true), clusterRequest("delete", true)),
		)
		for _, m := range rolloutMoments() {
			crashes = append(crashes, crashOnSpokes("the worker "+how.what+" while "+m.when, how, m.states...))
		}
	}
	return append(crashes, byObjects(crashes)...)
}

// byObjects returns the scenarios with objects that request their work.
func byObjects(scenarios []scenario) []scenario {
	all := slices.Clone(scenarios)
	for i := range all {
		all[i].name += ", requested by objects"
		all[i].short, all[i].byObject = false, true
	}
	return all
}

// moment is a time at which rollouts are in those states, each on its own spoke.
type moment struct {
	when   string
	states []state
}

// rolloutMoments are all states of ClusterUpgrade, then those of ClusterGroupUpgrade.
func rolloutMoments() []moment {
	return []moment{
		{"a cluster is inspected", []state{inspecting()}},
		{"clusters wait for locks and nodes", []state{clusterLocks(), controlPlaneNodes(), workerNodes()}},
		{"clusters and nodes wait for other work", []state{clusterLocksForNode(), nodeBusy(), leftToSweeper()}},
		{"clusters start, end and are checked", []state{clusterRequest("create", false), clusterRequest("delete", false), clusterHealth()}},

		{"a rollout is planned", []state{planning()}},
		{"a release is looked up", []state{lookingUp()}},
		{"rollouts are stopped", []state{notEnabled(), paused(), cancelling()}},
		{"rollouts may not start", []state{waitingForApproval(), blocked()}},
		{"clusters are prepared", []state{precaching(), backingUp()}},
		{"an agent is asked to precache", []state{precachingByAgent()}},
		{"an agent backs up", []state{backingUpByAgent()}},
		{"a cluster soaks", []state{soaking()}},
		{"a cluster is offline", []state{offline()}},
		{"the catch-up batch is running", []state{catchingUp()}},
		{"the canary is running", []state{inBatch(true)}},
		{"a later batch is running", []state{inBatch(false)}},
		{"a timed-out batch cleans up", []state{timedOut()}},
		{"clusters are labelled", []state{changing(true), changing(false)}},
		{"policies are enforced and manifest works created", []state{enforcing(), creatingWorks()}},
		{"the set of a cluster is not bound", []state{unselectable()}},
		{"an agent approves an InstallPlan", []state{approvingByAgent()}},
		{"a manifest work is removed", []state{removingWorks()}},
	}
}

// crashOnNodes is a scenario in which a worker ends while maintenances of single nodes are in those states.
func crashOnNodes(name string, how end, states ...state) scenario {
	return crashScenario(name, how, func(s *scenarioRun, t *testing.T) []target { return s.targets(t, len(states)) }, states...)
}

// crashOnSpokes is a scenario in which a worker ends while rollouts are in those states, each on its own spoke.
func crashOnSpokes(name string, how end, states ...state) scenario {
	return crashScenario(name, how, func(s *scenarioRun, _ *testing.T) []target { return s.oneNodePerSpoke() }, states...)
}

// crashScenario is a scenario in which a worker ends while work is in those states, each on one of the nodes.
func crashScenario(name string, how end, targets func(*scenarioRun, *testing.T) []target, states ...state) scenario {
	scenario := scenario{name: name, run: func(t *testing.T, s *scenarioRun) { s.crashWorker(t, how, targets(s, t), states...) }}
	for _, state := range states {
		scenario.crashes = append(scenario.crashes, crashPoint{state, how})
	}
	return scenario
}

// rolloutStates are the states of a ClusterGroupUpgrade from start to end.
func rolloutStates() []string {
	return []string{
		"planning", "planning, its release looked up", "NotEnabled", "WaitingForApproval", "precaching", "blocked", "backup", beforeEnable, "InProgress, the canary's batch", "InProgress, a later batch",
		"InProgress, its cluster held", "InProgress, policies enforced", "InProgress, manifest works created", "InProgress, WaitingForPlacement", "InProgress, the catch-up batch", "precaching by an agent",
		"backup by an agent", "InProgress, InstallPlans approved by an agent", "InProgress, a manifest work removed", "soaking", "ClustersOffline", "Paused", "cancelling", "cleaning up after a timeout",
		afterCompletion,
	}
}

func TestCrashesAreCoveredInEveryState(t *testing.T) {
	var wanted []string
	for _, state := range maintenancev1.NodeStates() {
		if !state.Over() {
			wanted = append(wanted, temporal.NodeMaintenance+" "+string(state))
		}
	}
	for _, step := range ranv1.ClusterSteps() {
		if step != ranv1.StepOver {
			wanted = append(wanted, temporal.ClusterUpgrade+" "+string(step))
		}
	}
	for _, state := range rolloutStates() {
		wanted = append(wanted, temporal.ClusterGroupUpgrade+" "+state)
	}
	for _, how := range []end{killed, stopped} {
		covered := map[string]bool{}
		for _, scenario := range scenarios() {
			for _, crash := range scenario.crashes {
				if crash.end.how == how.how {
					covered[crash.workflow+" "+crash.state.state] = true
				}
			}
		}
		missing := slices.DeleteFunc(slices.Clone(wanted), func(state string) bool { return covered[state] })
		require.Empty(t, missing, "no scenario in which the worker %s covers them", how.what)
	}
}
