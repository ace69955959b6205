package bench

import (
	"math"
	"slices"
	"time"
)

// Latency is the median and the 99th percentile of Count durations, in seconds.
type Latency struct {
	Count int     `json:"count"`
	P50   float64 `json:"p50"`
	P99   float64 `json:"p99"`
}

func latency(took []time.Duration) Latency {
	return Latency{Count: len(took), P50: quantile(took, 0.50), P99: quantile(took, 0.99)}
}

// middle is the median, also of an even number of values.
func middle(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	half := len(sorted) / 2
	if len(sorted)%2 == 0 {
		return (sorted[half-1] + sorted[half]) / 2
	}
	return sorted[half]
}

func median(took []time.Duration) float64 { return quantile(took, 0.50) }

// quantile returns a measured time by nearest rank; 0 if there is none.
func quantile(took []time.Duration, q float64) float64 {
	if len(took) == 0 {
		return 0
	}
	rank := int(math.Ceil(q * float64(len(took))))
	return slices.Sorted(slices.Values(took))[max(rank, 1)-1].Seconds()
}
