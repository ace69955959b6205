package main

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/setup"
)

// prepareInterval is the time between two attempts to prepare a cluster that does not answer.
const prepareInterval = time.Minute

// prepareClusters installs what Drydock needs on each cluster. It tries clusters that fail again, until ctx is done.
func prepareClusters(ctx context.Context, source kube.Source, log *slog.Logger) {
	clusters := kube.New(source, kube.Options{Log: log, UserAgent: "drydock-standalone/" + version})
	defer clusters.Close()
	type target struct {
		name string
		site setup.Site
		open func() (*kube.Cluster, error)
	}
	var left []target
	if source.HasHub() {
		left = append(left, target{"hub", setup.Hub, func() (*kube.Cluster, error) { return clusters.Hub(ctx) }})
	}
	for _, name := range source.Reachable() {
		left = append(left, target{name, setup.Spoke, func() (*kube.Cluster, error) { return clusters.Cluster(ctx, name) }})
	}
	for len(left) > 0 {
		var failed []target
		for _, at := range left {
			cluster, err := at.open()
			var steps []setup.Step
			if err == nil {
				steps, err = setup.Cluster(ctx, cluster.Config, at.site)
			}
			for _, step := range steps {
				if step.Result != setup.UpToDate {
					log.Info("setup", "cluster", at.name, "what", step.What, "result", string(step.Result), "note", step.Note)
				}
			}
			if err != nil {
				failed = append(failed, at)
				log.Warn("a cluster is not prepared yet", "cluster", at.name, "error", fmt.Sprint(err))
			}
		}
		left = failed
		select {
		case <-ctx.Done():
			return
		case <-time.After(prepareInterval):
		}
	}
}
