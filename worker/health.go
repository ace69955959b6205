package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	crmetrics "sigs.k8s.io/controller-runtime/pkg/metrics"

	"drydock.dev/drydock/internal/kube"
	"drydock.dev/drydock/internal/temporal"
)

// readiness checks whether this worker can run workflows and activities.
type readiness struct {
	temporal  client.Client
	namespace string
	clusters  *kube.Clusters
	// working is set while the worker polls its task queue.
	working atomic.Bool
}

// readyTimeout limits the answers of Temporal and the hub.
const readyTimeout = 3 * time.Second

// check returns why the worker is not ready.
func (r *readiness) check(ctx context.Context) error {
	if !r.working.Load() {
		return errors.New("the worker is starting or stopping")
	}
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	// Unlike the server's health check, this also checks the credentials.
	if _, err := r.temporal.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: r.namespace}); err != nil {
		return fmt.Errorf("temporal: namespace %s: %w", r.namespace, err)
	}
	hub, err := r.clusters.Hub(ctx)
	if temporal.ErrorType(err) == temporal.ErrNoHub {
		return nil // without a hub this worker plans no rollouts
	}
	if err == nil {
		err = hub.Reachable(ctx)
	}
	if err != nil {
		return fmt.Errorf("hub: %w", err)
	}
	return nil
}

// healthServer serves /healthz, /readyz and /metrics.
type healthServer struct {
	listener net.Listener
	server   *http.Server
}

func serveHealth(address string, ready *readiness, registry *prometheus.Registry) (*healthServer, error) {
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("serve health (--health-address): %w", err)
	}
	h := &healthServer{listener: listener, server: &http.Server{Handler: healthHandler(ready, registry), ReadHeaderTimeout: 5 * time.Second}}
	go func() { _ = h.server.Serve(listener) }() // it ends with close
	return h, nil
}

func healthHandler(ready *readiness, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, r *http.Request) {
		if err := ready.check(r.Context()); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	})
	// controller-runtime's registry has the requests to clusters.
	all := prometheus.Gatherers{registry, crmetrics.Registry}
	mux.Handle("GET /metrics", promhttp.HandlerFor(all, promhttp.HandlerOpts{}))
	return mux
}

func (h *healthServer) address() string { return h.listener.Addr().String() }

func (h *healthServer) close() { _ = h.server.Close() }
