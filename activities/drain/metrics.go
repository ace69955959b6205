package drain

import (
	"context"

	"github.com/prometheus/client_golang/prometheus"
	policyv1 "k8s.io/api/policy/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"drydock.dev/drydock/activities/activitykit"
	"drydock.dev/drydock/internal/drain"
)

// Metrics measures the drains that a worker runs. Nil measures nothing.
type Metrics struct {
	pods      *prometheus.GaugeVec
	evictions *prometheus.CounterVec
}

// Results of the request of an eviction.
const (
	evictionAccepted        = "accepted"
	evictionRefusedByBudget = "refused-by-budget"
	evictionFailed          = "failed"
)

// NewMetrics returns metrics that registry collects.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drydock_drain_pods",
		Help: "Pods that must leave a draining node: all that remain, and those that are blocked.",
	}, []string{"cluster", "node", "state"}), evictions: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "drydock_evictions_total",
		Help: "Requested evictions of pods, by result.",
	}, []string{"cluster", "result"})}
	registry.MustRegister(m.pods, m.evictions)
	return m
}

// observe records how many pods of a node remain, and how many of them are blocked.
func (m *Metrics) observe(node activitykit.NodeRef, remaining, blocked int) {
	if m == nil {
		return
	}
	m.pods.WithLabelValues(node.Cluster, node.Node, "remaining").Set(float64(remaining))
	m.pods.WithLabelValues(node.Cluster, node.Node, "blocked").Set(float64(blocked))
}

// forget removes the metrics of a node, because few nodes of a cluster drain at a time.
func (m *Metrics) forget(node activitykit.NodeRef) {
	if m != nil {
		m.pods.DeletePartialMatch(prometheus.Labels{"cluster": node.Cluster, "node": node.Node})
	}
}

// evictor returns an evictor that also counts the results. All of them are there from the start: without a zero, Prometheus would not see the first increase.
func (m *Metrics) evictor(cluster string, evictor drain.Evictor) drain.Evictor {
	if m == nil {
		return evictor
	}
	results := m.evictions.MustCurryWith(prometheus.Labels{"cluster": cluster})
	for _, result := range []string{evictionAccepted, evictionRefusedByBudget, evictionFailed} {
		results.WithLabelValues(result)
	}
	return countingEvictor{evictor, results}
}

type countingEvictor struct {
	drain.Evictor
	results *prometheus.CounterVec
}

// Evict implements drain.Evictor.
func (e countingEvictor) Evict(ctx context.Context, eviction *policyv1.Eviction) error {
	err := e.Evictor.Evict(ctx, eviction)
	if ctx.Err() == nil {
		e.results.WithLabelValues(resultOf(err)).Inc()
	}
	return err
}

func resultOf(err error) string {
	switch {
	case err == nil:
		return evictionAccepted
	case apierrors.HasStatusCause(err, policyv1.DisruptionBudgetCause):
		return evictionRefusedByBudget
	}
	return evictionFailed
}
