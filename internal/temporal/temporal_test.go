package temporal_test

import (
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"
	"github.com/stretchr/testify/require"
	"go.temporal.io/api/operatorservice/v1"
	"go.temporal.io/sdk/client"

	enumspb "go.temporal.io/api/enums/v1"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/temporal"
)

func TestTheConnectionSettings(t *testing.T) {
	config := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(config, []byte(`
[profile.default]
address = "file.example.com:7233"
namespace = "from-file"
[profile.other]
address = "other.example.com:7233"
`), 0o600))
	tests := []struct {
		name      string
		env       map[string]string
		args      []string
		address   string
		namespace string
	}{
		{
			name:    "without any setting it is the local dev server",
			address: "localhost:7233", namespace: "default",
		},
		{
			name:    "the temporal CLI's file is read",
			env:     map[string]string{"TEMPORAL_CONFIG_FILE": config},
			address: "file.example.com:7233", namespace: "from-file",
		},
		{
			name:    "the environment overrides the file",
			env:     map[string]string{"TEMPORAL_CONFIG_FILE": config, "TEMPORAL_ADDRESS": "env.example.com:7233"},
			address: "env.example.com:7233", namespace: "from-file",
		},
		{
			name:    "a flag overrides the environment",
			env:     map[string]string{"TEMPORAL_CONFIG_FILE": config, "TEMPORAL_ADDRESS": "env.example.com:7233", "TEMPORAL_NAMESPACE": "from-env"},
			args:    []string{"--address", "flag.example.com:7233", "--temporal-namespace", "from-flag"},
			address: "flag.example.com:7233", namespace: "from-flag",
		},
		{
			name:    "a profile is selected by name",
			args:    []string{"--config-file", config, "--profile", "other"},
			address: "other.example.com:7233", namespace: "default",
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			for _, variable := range []string{"TEMPORAL_ADDRESS", "TEMPORAL_NAMESPACE", "TEMPORAL_PROFILE"} {
				t.Setenv(variable, "")
				require.NoError(t, os.Unsetenv(variable))
			}
			t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
			for variable, value := range tt.env {
				t.Setenv(variable, value)
			}
			var connection temporal.Connection
			flags := pflag.NewFlagSet("test", pflag.ContinueOnError)
			connection.AddFlags(flags)
			require.NoError(t, flags.Parse(tt.args))

			options, err := connection.Options(nil, nil)
			require.NoError(t, err)
			require.Equal(t, tt.address, options.HostPort)
			require.Equal(t, tt.namespace, options.Namespace)
		})
	}
}

func TestAnUnknownProfileIsNamedInTheError(t *testing.T) {
	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	_, err := temporal.Connection{Profile: "staging"}.Options(nil, nil)
	require.ErrorContains(t, err, "staging")
}

func TestAnUnreachableServerIsNamedWithItsFlag(t *testing.T) {
	options, err := temporal.Connection{Address: "127.0.0.1:1"}.Options(nil, nil)
	require.NoError(t, err)
	_, err = temporal.Dial(t.Context(), options)
	require.ErrorContains(t, err, "temporal at 127.0.0.1:1 does not answer (set --address")
}

func TestTheConnectionToARealServer(t *testing.T) {
	stack := devstacktest.Start(t, devstack.Options{Temporal: &devstack.TemporalOptions{}})
	registry := prometheus.NewRegistry()
	metrics, err := temporal.NewMetrics(registry, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	options, err := temporal.Connection{Address: stack.Temporal.Address, Namespace: stack.Temporal.Namespace}.Options(nil, metrics)
	require.NoError(t, err)
	c, err := temporal.Dial(t.Context(), options)
	require.NoError(t, err)
	t.Cleanup(c.Close)

	t.Run("search attributes are registered once, with their types", func(t *testing.T) { registersSearchAttributes(t, c) })
	t.Run("a search attribute of another type is refused, and nothing is added", func(t *testing.T) { refusesOtherType(t, c) })
	t.Run("the next worker continues the activity of a stopping worker immediately", func(t *testing.T) { continuesElsewhere(t, c) })
	t.Run("a trace goes on with the next worker and the next run", func(t *testing.T) { tracesContinueElsewhere(t, c) })
	t.Run("an activity that lacks a right is retried soon", func(t *testing.T) { retriesSoonWithoutARight(t, c) })
	t.Run("the lease", func(t *testing.T) { leases(t, c) })
	t.Run("a workflow is open, closed or unknown", func(t *testing.T) { describesChains(t, c) })
	t.Run("a payload above the server's limit arrives", func(t *testing.T) { takesLongPayloads(t, c) })
	t.Run("with keys, Temporal stores nothing readable", func(t *testing.T) { storesNothingReadable(t, stack, c) })
	t.Run("a workflow waits for its key", func(t *testing.T) { waitsForItsKey(t, stack, c) })
	t.Run("messages with foreign keys do no harm", func(t *testing.T) { survivesForeignKeys(t, stack, c) })
	t.Run("the SDK's metrics are exported to Prometheus, latencies in seconds", func(t *testing.T) { measures(t, registry) })
}

func registersSearchAttributes(t *testing.T, c client.Client) {
	missing, err := temporal.MissingSearchAttributes(t.Context(), c, "default")
	require.NoError(t, err)
	require.Len(t, missing, len(temporal.SearchAttributes()))

	added, err := temporal.RegisterSearchAttributes(t.Context(), c, "default")
	require.NoError(t, err)
	require.Equal(t, missing, added)

	added, err = temporal.RegisterSearchAttributes(t.Context(), c, "default")
	require.NoError(t, err)
	require.Empty(t, added)

	listed, err := c.OperatorService().ListSearchAttributes(t.Context(), &operatorservice.ListSearchAttributesRequest{Namespace: "default"})
	require.NoError(t, err)
	require.Equal(t, enumspb.INDEXED_VALUE_TYPE_DATETIME, listed.CustomAttributes["DrydockDeadline"])
	require.Equal(t, enumspb.INDEXED_VALUE_TYPE_BOOL, listed.CustomAttributes["DrydockPaused"])
}

func refusesOtherType(t *testing.T, c client.Client) {
	operator := c.OperatorService()
	_, err := operator.RemoveSearchAttributes(t.Context(), &operatorservice.RemoveSearchAttributesRequest{
		Namespace: "default", SearchAttributes: []string{"DrydockBatch"},
	})
	require.NoError(t, err)
	add := func(t *testing.T, valueType enumspb.IndexedValueType) {
		_, err = operator.AddSearchAttributes(t.Context(), &operatorservice.AddSearchAttributesRequest{
			Namespace: "default", SearchAttributes: map[string]enumspb.IndexedValueType{"DrydockBatch": valueType},
		})
		require.NoError(t, err)
	}
	add(t, enumspb.INDEXED_VALUE_TYPE_KEYWORD)
	_, err = temporal.RegisterSearchAttributes(t.Context(), c, "default")
	require.EqualError(t, err, "search attribute DrydockBatch of Temporal namespace default is of type Keyword, but must be Int: "+
		"remove it with `temporal operator search-attribute remove --name DrydockBatch`")
}
