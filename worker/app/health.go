package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sync"
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

	// checking is locked during a check of the servers. checked is when the last one ended, and servers its result.
	checking sync.Mutex
	checked  time.Time
	servers  error
}

const (
	// readyTimeout limits the answers of Temporal and the hub.
	readyTimeout = 3 * time.Second
	// readyInterval is the shortest time between two checks of Temporal and the hub. Requests in between get the last result, so that they cost the
	// servers nothing.
	readyInterval = time.Second
)

// check returns why the worker is not ready.
func (r *readiness) check() error {
	if !r.working.Load() {
		return errors.New("the worker is starting or stopping")
	}
	r.checking.Lock()
	defer r.checking.Unlock()
	if r.checked.IsZero() || time.Since(r.checked) >= readyInterval {
		// Other requests wait for the same result, so it does not depend on the client of this one.
		ctx, cancel := context.WithTimeout(context.Background(), readyTimeout)
		defer cancel()
		r.servers = r.checkServers(ctx)
		r.checked = time.Now()
	}
	return r.servers
}

// checkServers returns why Temporal or the hub cannot be used.
func (r *readiness) checkServers(ctx context.Context) error {
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
	h := &healthServer{listener: listener, server: &http.Server{
		Handler: healthHandler(ready, registry), ReadTimeout: 5 * time.Second, WriteTimeout: 30 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 16 << 10,
	}}
	go func() { _ = h.server.Serve(listener) }() // it ends with close
	return h, nil
}

func healthHandler(ready *readiness, registry *prometheus.Registry) http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	mux.HandleFunc("GET /readyz", func(w http.ResponseWriter, _ *http.Request) {
		if err := ready.check(); err != nil {
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
