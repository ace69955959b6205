package temporal

import (
	"context"
	"fmt"
	"log/slog"

	"github.com/prometheus/client_golang/prometheus"
	otelprometheus "go.opentelemetry.io/otel/exporters/prometheus"
	"go.opentelemetry.io/otel/sdk/metric"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/opentelemetry"
)

// latencyBounds are bucket limits in seconds: from an activity on an idle server (a few ms) to a drain (many minutes). The defaults of OpenTelemetry
// are in milliseconds and would put nearly everything into the first bucket.
var latencyBounds = []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60, 300, 900, 3600}

// Metrics exports the metrics of the Temporal SDK and of Drydock's workflows and activities to Prometheus.
type Metrics struct {
	client.MetricsHandler
	provider *metric.MeterProvider
}

// NewMetrics returns metrics that registry collects.
func NewMetrics(registry prometheus.Registerer, logger *slog.Logger) (*Metrics, error) {
	exporter, err := otelprometheus.New(
		otelprometheus.WithRegisterer(registry), otelprometheus.WithoutScopeInfo(), otelprometheus.WithoutTargetInfo())
	if err != nil {
		return nil, fmt.Errorf("metrics for Prometheus: %w", err)
	}
	provider := metric.NewMeterProvider(metric.WithReader(exporter), metric.WithView(metric.NewView(
		metric.Instrument{Kind: metric.InstrumentKindHistogram},
		metric.Stream{Aggregation: metric.AggregationExplicitBucketHistogram{Boundaries: latencyBounds}},
	)))
	handler := opentelemetry.NewMetricsHandler(opentelemetry.MetricsHandlerOptions{
		Meter:                provider.Meter("temporal-sdk-go"),
		UseMonotonicCounters: true,
		OnError:              func(err error) { logger.Error("cannot record a metric", "error", err) },
	})
	return &Metrics{MetricsHandler: handler, provider: provider}, nil
}

// Shutdown stops the export.
func (m *Metrics) Shutdown(ctx context.Context) error { return m.provider.Shutdown(ctx) }
