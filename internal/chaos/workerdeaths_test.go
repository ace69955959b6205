package chaos

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	maintenancev1 "drydock.dev/drydock/internal/apis/maintenance/v1alpha1"
	ranv1 "drydock.dev/drydock/internal/apis/ran/v1alpha1"
	"drydock.dev/drydock/internal/temporal"
)

// workerDeaths are the scenarios in which a worker dies, in every state of the workflows at least once by each end.
func workerDeaths() []scenario {
	var lost, unanswered []state
	for _, r := range nodeRequests() {
		lost, unanswered = append(lost, r.lost()), append(unanswered, r.unanswered())
	}
	// One death, in states that differ the most.
	few := deadly("the worker is killed in five states at once", killed, func(s *scene, t *testing.T) []place { return append(s.places(t, 4), s.lockedPlace()) },
		draining(), jobAtWork(), nodeRequest("the cordon").unanswered(), nodeRequest("the uncordon").lost(), lockFlip(false))
	few.short = true
	deaths := []scenario{few}
	for _, how := range []end{killed, stopped} {
		for _, answered := range []bool{false, true} {
			flip := lockFlip(answered)
			deaths = append(deaths, deadly("the worker "+how.what+" at "+flip.moment, how, func(s *scene, _ *testing.T) []place { return []place{s.lockedPlace()} }, flip))
		}
		deaths = append(deaths,
			onNodes("the worker "+how.what+" while maintenances wait", how, nodeWaits()...),
			onNodes("the worker "+how.what+" with its requests on the way out", how, lost...),
			onNodes("the worker "+how.what+" with the answers on the way back", how, unanswered...),
			onSpokes("the worker "+how.what+" with the answers to clusters on the way back", how, clusterRequest("create", true), clusterRequest("delete", true)),
		)
		for _, m := range rolloutMoments() {
			deaths = append(deaths, onSpokes("the worker "+how.what+" while "+m.when, how, m.states...))
		}
	}
	return deaths
}

// moment is a time at which rollouts are in those states, each on a spoke of its own.
type moment struct {
	when   string
	states []state
}

// rolloutMoments are all states of ClusterUpgrade, then those of ClusterGroupUpgrade.
func rolloutMoments() []moment {
	return []moment{
		{"a cluster is inspected", []state{inspecting()}},
		{"clusters wait for locks and nodes", []state{clusterLocks(), controlPlaneNodes(), workerNodes()}},
		{"clusters and nodes wait for others", []state{clusterLocksForNode(), nodeBusy(), leftToSweeper()}},
		{"clusters begin, end and are judged", []state{clusterRequest("create", false), clusterRequest("delete", false), clusterHealth()}},

		{"a rollout is planned", []state{planning()}},
		{"rollouts stand still", []state{notEnabled(), paused(), cancelling()}},
		{"rollouts may not begin", []state{unapproved(), blocked()}},
		{"clusters are prepared", []state{precaching(), backingUp()}},
		{"a cluster soaks", []state{soaking()}},
		{"the canary is at work", []state{inBatch(true)}},
		{"a later batch is at work", []state{inBatch(false)}},
		{"what has timed out is withdrawn", []state{timedOut()}},
		{"clusters are labelled", []state{changing(true), changing(false)}},
		{"the hub takes policies and works to clusters", []state{enforcing(), bringingWork()}},
	}
}

// onNodes is a scenario in which a worker dies while maintenances of single nodes are in those states.
func onNodes(name string, how end, states ...state) scenario {
	return deadly(name, how, func(s *scene, t *testing.T) []place { return s.places(t, len(states)) }, states...)
}

// onSpokes is a scenario in which a worker dies while rollouts are in those states, each on a spoke of its own.
func onSpokes(name string, how end, states ...state) scenario {
	return deadly(name, how, func(s *scene, _ *testing.T) []place { return s.onePlaceEach() }, states...)
}

// deadly is a scenario in which a worker dies while works are in those states, each in one of the places.
func deadly(name string, how end, places func(*scene, *testing.T) []place, states ...state) scenario {
	scenario := scenario{name: name, run: func(t *testing.T, s *scene) { s.die(t, how, places(s, t), states...) }}
	for _, state := range states {
		scenario.deaths = append(scenario.deaths, mortal{state, how})
	}
	return scenario
}

// rolloutStates are what a rollout does, or what it waits for, from its beginning to its end.
func rolloutStates() []string {
	return []string{
		"planning", "NotEnabled", "WaitingForApproval", "precaching", "blocked", "backup", beforeEnable, "InProgress, the canary's batch", "InProgress, a later batch",
		"InProgress, its cluster held", "InProgress, policies enforced", "InProgress, manifest works brought", "soaking", "Paused", "cancelling", "withdrawing after a time-out",
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
		died := map[string]bool{}
		for _, scenario := range scenarios() {
			for _, death := range scenario.deaths {
				if death.end.how == how.how {
					died[death.workflow+" "+death.state.state] = true
				}
			}
		}
		missing := slices.DeleteFunc(slices.Clone(wanted), func(state string) bool { return died[state] })
		require.Empty(t, missing, "no worker %s in them", how.what)
	}
}
