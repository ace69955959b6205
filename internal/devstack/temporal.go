package devstack

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// TemporalOptions say how the Temporal server runs.
type TemporalOptions struct {
	// DynamicConfig are further settings of the server, such as
	// "limit.historyCount.suggestContinueAsNew": "50". Values are JSON.
	DynamicConfig map[string]string
	// Database is the file that keeps workflows over a restart of the server, relative to the stack's directory.
	// Without it they are kept in memory, which is twice as fast, and gone when the server stops.
	Database string
	// WebUI serves Temporal's Web UI on a port of its own.
	WebUI bool
}

// Temporal is a running Temporal server. No search attribute is registered: `drydock setup` does that.
type Temporal struct {
	// Address is host:port of the gRPC front end.
	Address string
	// UIAddress is the URL of the Web UI; empty without one.
	UIAddress string
	// Namespace is the one that exists.
	Namespace string
	// Process may be stopped and started; only with a Database are workflows still there afterwards.
	Process *Process
}

const temporalNamespace = "default"

// temporalDynamicConfig is how a server for one worker on one machine is set up; docs/design-records/performance-findings.md says what each is worth.
var temporalDynamicConfig = map[string]string{
	// Out of the box the server reads its task queues 20 times a second, which costs every hop of a workflow 50 ms.
	"history.transferProcessorMaxPollRPS": "5000",
	"history.timerProcessorMaxPollRPS":    "5000",
	// A worker that asks for an activity of its own is given it with the answer, not by way of the task queue.
	"system.enableActivityEagerExecution": "true",
	// Four partitions of a task queue are for thousands of tasks a second; between them, tasks and pollers look for each other.
	"matching.numTaskqueueReadPartitions":  "1",
	"matching.numTaskqueueWritePartitions": "1",
}

// newTemporal prepares the server. Nothing runs yet.
func (s *Stack) newTemporal(options TemporalOptions) (*Temporal, error) {
	port, err := s.ports.takeMany(4)
	if err != nil {
		return nil, fmt.Errorf("prepare Temporal: %w", err)
	}
	frontend, httpAPI, metrics, ui := port[0], port[1], port[2], port[3]
	args := []string{
		"server", "start-dev",
		"--ip=127.0.0.1",
		fmt.Sprintf("--port=%d", frontend),
		fmt.Sprintf("--http-port=%d", httpAPI),
		fmt.Sprintf("--metrics-port=%d", metrics),
		"--log-level=warn",
		"--disable-config-file", "--disable-config-env", // settings of the person's own Temporal
	}
	for _, settings := range []map[string]string{temporalDynamicConfig, options.DynamicConfig} {
		for key, value := range settings {
			args = append(args, "--dynamic-config-value="+key+"="+value)
		}
	}
	if options.Database != "" {
		args = append(args, "--db-filename="+filepath.Join(s.Dir, options.Database))
	}
	t := &Temporal{Address: loopback(frontend), Namespace: temporalNamespace}
	if options.WebUI {
		t.UIAddress = "http://" + loopback(ui)
		args = append(args, fmt.Sprintf("--ui-port=%d", ui))
	} else {
		args = append(args, "--headless")
	}
	t.Process = s.process("", "temporal", args, t.serving)
	return t, nil
}

// serving asks for the namespace, the last thing that a starting server makes.
func (t *Temporal) serving(ctx context.Context) error {
	c, err := client.DialContext(ctx, client.Options{HostPort: t.Address, Namespace: t.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))})
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	return err
}
