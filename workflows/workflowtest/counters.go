package workflowtest

import (
	"fmt"
	"maps"
	"sync"

	"go.temporal.io/sdk/client"
)

// counters is a metrics handler that adds up counters.
type counters struct {
	client.MetricsHandler
	tags   map[string]string
	values *sync.Map
}

func newCounters() *counters {
	return &counters{MetricsHandler: client.MetricsNopHandler, tags: map[string]string{}, values: &sync.Map{}}
}

// WithTags implements client.MetricsHandler.
func (c *counters) WithTags(tags map[string]string) client.MetricsHandler {
	all := maps.Clone(c.tags)
	maps.Copy(all, tags)
	return &counters{MetricsHandler: c.MetricsHandler, tags: all, values: c.values}
}

// Counter implements client.MetricsHandler.
func (c *counters) Counter(name string) client.MetricsCounter {
	return counter(func(by int64) {
		key := fmt.Sprintf("%s{cluster=%q}", name, c.tags["cluster"])
		before, _ := c.values.LoadOrStore(key, int64(0))
		c.values.Store(key, before.(int64)+by)
	})
}

// Of returns the value of a counter of a cluster.
func (c *counters) Of(name, cluster string) int64 {
	value, found := c.values.Load(fmt.Sprintf("%s{cluster=%q}", name, cluster))
	if !found {
		return 0
	}
	return value.(int64)
}

type counter func(int64)

// Inc implements client.MetricsCounter.
func (c counter) Inc(by int64) { c(by) }
