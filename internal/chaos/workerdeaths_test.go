package chaos

import "testing"

// workerDeaths are the scenarios in which a worker dies, in every state of the workflows at least once by each end.
func workerDeaths() []scenario {
	var lost, unanswered []state
	for _, r := range nodeRequests() {
		lost, unanswered = append(lost, r.lost()), append(unanswered, r.unanswered())
	}
	// One death, in states that differ the most.
	few := scenario{name: "the worker is killed in five states at once", short: true, run: func(t *testing.T, s *scene) {
		s.die(t, killed, append(s.places(t, 4), s.lockedPlace()), draining(), jobAtWork(), unanswered[2], lost[8], lockFlip(false))
	}}
	deaths := []scenario{few}
	for _, how := range []end{killed, stopped} {
		for _, answered := range []bool{false, true} {
			flip := lockFlip(answered)
			deaths = append(deaths, scenario{name: "the worker " + how.what + " at " + flip.moment, run: func(t *testing.T, s *scene) {
				s.die(t, how, []place{s.lockedPlace()}, flip)
			}})
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
	}
}

// onNodes is a scenario in which a worker dies while maintenances of single nodes are in those states.
func onNodes(name string, how end, states ...state) scenario {
	return scenario{name: name, run: func(t *testing.T, s *scene) { s.die(t, how, s.places(t, len(states)), states...) }}
}

// onSpokes is a scenario in which a worker dies while rollouts are in those states, each on a spoke of its own.
func onSpokes(name string, how end, states ...state) scenario {
	return scenario{name: name, run: func(t *testing.T, s *scene) {
		s.die(t, how, s.onePlaceEach(), states...)
	}}
}
