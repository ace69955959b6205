package devstack

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strconv"

	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/log"
)

// TemporalOptions configure the Temporal server.
type TemporalOptions struct {
	// PostgreSQL runs Temporal as in production, instead of its dev server: each service is a process of its own, and the system's PostgreSQL stores
	// everything. Database and WebUI are for the dev server only.
	PostgreSQL bool
	// Env are further environment variables: of the dev server, or of these services, as those of Temporal's container image.
	Env []string
	// Connect changes how the stack connects to these services, such as its TLS and credentials.
	Connect func(*client.Options)
	// DynamicConfig are settings of the server with JSON values, such as "limit.historyCount.suggestContinueAsNew": "50".
	DynamicConfig map[string]string
	// Database is the SQLite file, relative to the directory of the stack. By default workflows are in memory, which is twice as fast, and are lost
	// when the server stops.
	Database string
	// SearchAttributes of the dev server, as NAME=TYPE, exist from the start, and it keeps them in memory. Without them, as by default, it reads them
	// from its database on each use, and new ones are known at once.
	SearchAttributes []string
	// WebUI serves the Temporal Web UI on its own port.
	WebUI bool
}

// Temporal is a running Temporal server. Without SearchAttributes none is registered: `drydock setup` does that.
type Temporal struct {
	// Address is host:port of the gRPC front end.
	Address string
	// UIAddress is the URL of the Web UI, if any.
	UIAddress string
	// Namespace is the only namespace.
	Namespace string
	// Process answers at Address. It may be stopped and started again. Workflows are kept only with a Database or PostgreSQL.
	Process *Process
	// Behind are the servers behind Process, each before those that it needs: services of Temporal, and PostgreSQL. The dev server has none.
	Behind []*Process

	postgres *postgreSQL                           // nil: it is the dev server
	sqlTool  func(context.Context) (string, error) // waits for the executable
	connect  func(*client.Options)
}

const temporalNamespace = "default"

// temporalDynamicConfig tunes the server for one worker on one machine; docs/design-records/performance-findings.md has the effect of each setting.
var temporalDynamicConfig = map[string]string{
	// By default the server polls its task queues 20 times a second, which adds 50 ms to each step of a workflow.
	"history.transferProcessorMaxPollRPS": "5000",
	"history.timerProcessorMaxPollRPS":    "5000",
	// By default the server keeps the tasks that are done in its queues for half a minute, and looks through all of them for each new one.
	"history.transferProcessorUpdateAckInterval":   `"5s"`,
	"history.timerProcessorUpdateAckInterval":      `"5s"`,
	"history.visibilityProcessorUpdateAckInterval": `"5s"`,
	// A worker gets its activities with the response to its workflow task, without the task queue.
	"system.enableActivityEagerExecution": "true",
	// The default of four partitions is for thousands of tasks a second; tasks and pollers in different partitions have to be matched.
	"matching.numTaskqueueReadPartitions":  "1",
	"matching.numTaskqueueWritePartitions": "1",
}

// newTemporal prepares the server. Nothing runs yet.
func (s *Stack) newTemporal(options TemporalOptions) (*Temporal, error) {
	if options.PostgreSQL {
		return s.newTemporalServices(options)
	}
	port, err := s.ports.reserveMany(4)
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
		"--disable-config-file", "--disable-config-env", // ignore the user's own settings
	}
	if len(options.SearchAttributes) > 0 {
		args = append(args, "--dynamic-config-value=system.forceSearchAttributesCacheRefreshOnRead=false")
	}
	for _, attribute := range options.SearchAttributes {
		args = append(args, "--search-attribute="+attribute)
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
	t.Process.env = append(t.Process.env, options.Env...)
	return t, nil
}

// Servers are the programs of Temporal, and its database; nil: it has none of its own.
func (t *Temporal) Servers() (services []*Process, database *Process) {
	if t.postgres == nil {
		return []*Process{t.Process}, nil
	}
	return append([]*Process{t.Process}, t.Behind[:len(t.Behind)-1]...), t.postgres.process
}

// Transactions returns how many transactions the databases of Temporal have committed since they were created.
func (t *Temporal) Transactions(ctx context.Context) (int64, error) {
	text, err := t.postgres.run(ctx, "psql", "-d", "postgres", "-Atc", "SELECT sum(xact_commit) FROM pg_stat_database WHERE datname LIKE 'temporal%'")
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(text, 10, 64)
}

// Stored is what the databases of Temporal have: the rows of all tables, and their bytes with indexes.
type Stored struct {
	Rows  int64 `json:"rows"`
	Bytes int64 `json:"bytes"`
}

// Since is what is stored in addition to before.
func (s Stored) Since(before Stored) Stored {
	return Stored{Rows: s.Rows - before.Rows, Bytes: s.Bytes - before.Bytes}
}

// Stored returns what PostgreSQL stores for Temporal, without the space of deleted rows.
func (t *Temporal) Stored(ctx context.Context) (all Stored, err error) {
	for database := range databases {
		if _, err := t.postgres.run(ctx, "psql", "-d", database, "-qc", "VACUUM FULL ANALYZE"); err != nil {
			return Stored{}, err
		}
		text, err := t.postgres.run(ctx, "psql", "-d", database, "-Atc", "SELECT sum(n_live_tup), sum(pg_total_relation_size(relid)) FROM pg_stat_user_tables")
		if err != nil {
			return Stored{}, err
		}
		var rows, bytes int64
		if _, err := fmt.Sscanf(text, "%d|%d", &rows, &bytes); err != nil {
			return Stored{}, fmt.Errorf("read what PostgreSQL stores from %q: %w", text, err)
		}
		all.Rows += rows
		all.Bytes += bytes
	}
	return all, nil
}

// start starts the servers and returns when the namespace exists.
func (t *Temporal) start(ctx context.Context) error {
	if t.postgres != nil {
		return t.startServices(ctx)
	}
	return t.Process.Start(ctx)
}

// dial connects to the server once it answers.
func (t *Temporal) dial(ctx context.Context) (client.Client, error) {
	return client.DialContext(ctx, t.clientOptions())
}

func (t *Temporal) clientOptions() client.Options {
	options := client.Options{HostPort: t.Address, Namespace: t.Namespace, Logger: log.NewStructuredLogger(slog.New(slog.DiscardHandler))}
	if t.connect != nil {
		t.connect(&options)
	}
	return options
}

// serving requests the namespace, which the dev server creates last.
func (t *Temporal) serving(ctx context.Context) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: t.Namespace})
	return err
}
