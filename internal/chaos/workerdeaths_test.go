package chaos

import "testing"

// workerDeaths are the scenarios in which a worker dies, in every state of the workflows at least once.
func workerDeaths() []scenario {
	var lost, unanswered []state
	for _, r := range nodeRequests() {
		lost, unanswered = append(lost, r.lost()), append(unanswered, r.unanswered())
	}
	deaths := []scenario{
		onNodes("the worker is killed while maintenances wait", killed, nodeWaits()...),
		onNodes("the worker stops while maintenances wait", stopped, nodeWaits()...),
		onNodes("the worker is killed with its requests on the way out", killed, lost...),
		onNodes("the worker is killed with the answers on the way back", killed, unanswered...),
		onNodes("the worker stops with its requests on the way out", stopped, lost...),

		onSpokes("the worker is killed while a cluster is inspected", killed, inspecting()),
		onSpokes("the worker is killed while clusters wait", killed, clusterLocks(), controlPlaneNodes(), workerNodes()),
		onSpokes("the worker stops while clusters wait", stopped, clusterLocks(), controlPlaneNodes(), workerNodes()),
		onSpokes("the worker is killed at the beginning and the end of clusters", killed, clusterHealth(), clusterRequest("create", false), clusterRequest("delete", false)),
		onSpokes("the worker is killed with the answers to clusters on the way back", killed, clusterRequest("create", true), clusterRequest("delete", true)),

		onSpokes("the worker is killed while a rollout is planned", killed, planning()),
		onSpokes("the worker is killed while rollouts stand still", killed, cancelling(), paused(), notEnabled()),
		onSpokes("the worker is killed while rollouts may not begin", killed, unapproved(), blocked()),
		onSpokes("the worker stops while rollouts stand still", stopped, notEnabled(), paused(), unapproved()),
		onSpokes("the worker is killed while clusters are prepared", killed, precaching(), backingUp()),
		onSpokes("the worker is killed while a cluster soaks", killed, soaking()),
		onSpokes("the worker is killed while the canary is at work", killed, inBatch(true)),
		onSpokes("the worker is killed in a later batch", killed, inBatch(false)),
		onSpokes("the worker is killed while what has timed out is withdrawn", killed, timedOut()),
		onSpokes("the worker is killed while clusters are labelled", killed, changing(true), changing(false)),
	}
	// One death, in states that differ the most.
	few := onNodes("the worker is killed in four states at once", killed, draining(), jobAtWork(), unanswered[2], lost[8])
	few.short = true
	return append(deaths, few)
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
