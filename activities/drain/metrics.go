package drain

import (
	"github.com/prometheus/client_golang/prometheus"

	"drydock.dev/drydock/activities/activitykit"
)

// Metrics measures the drains that a worker runs. Nil measures nothing.
type Metrics struct {
	pods *prometheus.GaugeVec
}

// NewMetrics returns metrics that registry collects.
func NewMetrics(registry prometheus.Registerer) *Metrics {
	m := &Metrics{pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drydock_drain_pods",
		Help: "Pods that must leave a draining node: all that remain, and those that are blocked.",
	}, []string{"cluster", "node", "state"})}
	registry.MustRegister(m.pods)
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
