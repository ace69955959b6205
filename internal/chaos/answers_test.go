package chaos

import (
	"slices"
	"sync"
	"time"

	"drydock.dev/drydock/internal/chaos/invariants"
	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/faultproxy"
)

// lostAnswers records when answers to Drydock were lost. It may repeat requests then.
type lostAnswers struct {
	mu sync.Mutex
	// times and rules, by cluster.
	times map[string][]invariants.Interval
	rules map[string][]*faultproxy.Injection
}

// lose records that answers of the clusters may be lost from began until now.
func (l *lostAnswers) lose(began time.Time, clusters ...*devstack.Cluster) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.times == nil {
		l.times = map[string][]invariants.Interval{}
	}
	for _, cluster := range clusters {
		l.times[cluster.Name] = append(l.times[cluster.Name], invariants.Interval{From: began, To: time.Now()})
	}
}

// follow records when a rule cuts connections to a cluster.
func (l *lostAnswers) follow(cluster *devstack.Cluster, rule *faultproxy.Injection) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.rules == nil {
		l.rules = map[string][]*faultproxy.Injection{}
	}
	l.rules[cluster.Name] = append(l.rules[cluster.Name], rule)
}

// of returns when answers of a cluster were lost.
func (l *lostAnswers) of(cluster *devstack.Cluster) []invariants.Interval {
	l.mu.Lock()
	defer l.mu.Unlock()
	times := slices.Clone(l.times[cluster.Name])
	for _, rule := range l.rules[cluster.Name] {
		for _, instant := range rule.Disconnects() {
			times = append(times, invariants.Interval{From: instant, To: instant})
		}
	}
	return times
}

// inject adds a rule that may cut connections.
func (s *scenarioRun) inject(cluster *devstack.Cluster, rule faultproxy.Rule) *faultproxy.Injection {
	injection := s.Proxy(cluster).Inject(rule)
	s.answers.follow(cluster, injection)
	return injection
}
