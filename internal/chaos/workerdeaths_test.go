package chaos

import "testing"

// workerDeaths are the scenarios in which a worker dies in the states of the workflows.
func workerDeaths() []scenario {
	var lost, unanswered []state
	for _, r := range nodeRequests() {
		lost, unanswered = append(lost, r.lost()), append(unanswered, r.unanswered())
	}
	return []scenario{
		onNodes("the worker is killed while maintenances wait", killed, nodeWaits()...),
		onNodes("the worker stops while maintenances wait", stopped, nodeWaits()...),
		onNodes("the worker is killed with its requests on the way out", killed, lost...),
		onNodes("the worker is killed with the answers on the way back", killed, unanswered...),
	}
}

// onNodes is a scenario in which a worker dies while maintenances of single nodes are in those states.
func onNodes(name string, how end, states ...state) scenario {
	return scenario{name: name, short: true, run: func(t *testing.T, s *scene) { s.die(t, how, s.places(t, len(states)), states...) }}
}
