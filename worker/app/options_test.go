package app

import (
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
)

func TestInvalidSettingsAreRefusedByFlag(t *testing.T) {
	for _, refused := range []struct{ flag, message string }{
		{"--max-workflow-tasks=1", "--max-workflow-tasks 1: must be at least 2"},
		{"--workflow-pollers=1", "--workflow-pollers 1: must be at least 2"},
		{"--max-activities=0", "--max-activities 0: must be at least 1"},
		{"--activity-pollers=-1", "--activity-pollers -1: must be at least 1"},
		{"--kube-qps=-1", "--kube-qps -1: must not be negative"},
		{"--kube-burst=-1", "--kube-burst -1: must not be negative"},
		{"--stop-timeout=-1s", "--stop-timeout -1s: must not be negative"},
		{"--health-address=", "--health-address: must not be empty"},
		{"--deployment=drydock", "--deployment also needs --build-id"},
		{"--update-graph-hosts=https://updates.example.com", "--update-graph-hosts[0]: Invalid value"},
		{"--build-id=v1", "--build-id also needs --deployment"},
		{"--node-annotations --controllers=false", "--node-annotations also needs --controllers"},
	} {
		o := NewOptions("unknown")
		flags := pflag.NewFlagSet("", pflag.ContinueOnError)
		o.AddFlags(flags)
		o.addPlacementFlags(flags)
		require.NoError(t, o.Check())
		require.NoError(t, flags.Parse(strings.Fields(refused.flag)))
		require.ErrorContains(t, o.Check(), refused.message)
	}
}

// A cancellation reaches an activity with the response to a heartbeat. By default, heartbeats are throttled for up to a minute.
func TestHeartbeatsAreThrottledBriefly(t *testing.T) {
	o := NewOptions("unknown")
	settings := o.workerOptions(false, nil)
	for _, interval := range []time.Duration{settings.MaxHeartbeatThrottleInterval, settings.DefaultHeartbeatThrottleInterval} {
		require.Positive(t, interval)
		require.LessOrEqual(t, interval, 2*time.Second)
	}
}
