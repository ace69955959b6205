package activities

import "github.com/prometheus/client_golang/prometheus"

// DrainMetrics measures the drains that a worker runs. Nil measures nothing.
type DrainMetrics struct {
	pods *prometheus.GaugeVec
}

// NewDrainMetrics returns metrics that registry collects.
func NewDrainMetrics(registry prometheus.Registerer) *DrainMetrics {
	m := &DrainMetrics{pods: prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "drydock_drain_pods",
		Help: "Pods that must leave a node that is being drained, and have not: all that remain, and those of them that something blocks.",
	}, []string{"cluster", "node", "state"})}
	registry.MustRegister(m.pods)
	return m
}

// observe takes in how many pods of a node remain, and how many of these are blocked.
func (m *DrainMetrics) observe(node NodeRef, remaining, blocked int) {
	if m == nil {
		return
	}
	m.pods.WithLabelValues(node.Cluster, node.Node, "remaining").Set(float64(remaining))
	m.pods.WithLabelValues(node.Cluster, node.Node, "blocked").Set(float64(blocked))
}

// forget ends the measuring of a node: a cluster has many, few of which are drained at a time.
func (m *DrainMetrics) forget(node NodeRef) {
	if m != nil {
		m.pods.DeletePartialMatch(prometheus.Labels{"cluster": node.Cluster, "node": node.Node})
	}
}
