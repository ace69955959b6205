// Package fleetmetrics measures the whole fleet: it reads the state of all rollouts, maintenances, schedulers, windows and sweepers from Temporal.
package fleetmetrics

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"drydock.dev/drydock/internal/observe"
)

const (
	// interval is the time between two readings. Each costs Temporal six lists, and the workers a query for each workflow with work in progress.
	interval = 15 * time.Second
	// timeLimit is that of one reading.
	timeLimit = 30 * time.Second
)

// Server is the part of Temporal's client that a collector needs.
type Server interface {
	observe.Lists
	observe.Queries
}

// Collector has the metrics of the last reading. While Temporal does not answer, it has only drydock_fleet_readable: old numbers would look like new ones.
type Collector struct {
	server Server
	log    *slog.Logger
	// since is when the waits of running maintenances began, so that each is queried once.
	since map[waiting]time.Time

	mu   sync.Mutex
	last []prometheus.Metric
}

// NewCollector returns a collector for a Temporal namespace.
func NewCollector(server Server, log *slog.Logger) *Collector {
	return &Collector{server: server, log: log, since: map[waiting]time.Time{}}
}

// Run reads the fleet until ctx is done.
func (c *Collector) Run(ctx context.Context) {
	for again := time.NewTicker(interval); ; {
		c.read(ctx)
		select {
		case <-ctx.Done():
			again.Stop()
			return
		case <-again.C:
		}
	}
}

// read replaces the metrics.
func (c *Collector) read(ctx context.Context) {
	r := &reading{server: c.server, now: time.Now(), since: c.since}
	err := r.all(ctx, timeLimit)
	switch {
	case ctx.Err() != nil:
		return
	case err != nil:
		c.log.Warn("cannot read the fleet from Temporal for its metrics", "error", err)
		r.metrics = []prometheus.Metric{gauge(readable, 0)}
	default:
		c.since = r.waiting
		r.add(readable, 1)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.last = r.metrics
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(to chan<- *prometheus.Desc) {
	for _, description := range descriptions {
		to <- description
	}
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(metrics chan<- prometheus.Metric) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, metric := range c.last {
		metrics <- metric
	}
}
