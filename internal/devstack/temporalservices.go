package devstack

import (
	"context"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/sync/errgroup"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/protobuf/types/known/durationpb"
)

// The programs of Temporal in production, with the names that its releases give them.
const (
	temporalServer  = "temporal-server"
	temporalSQLTool = "temporal-sql-tool"
)

// retention is how long closed workflows are kept.
const retention = 30 * 24 * time.Hour

// Services of Temporal. Clients talk to the frontend. The worker talks to the internal frontend, which needs no authorization, if there is one.
const (
	frontend         = "frontend"
	internalFrontend = "internal-frontend"
)

var otherServices = []string{"worker", "matching", "history"}

// newTemporalServices prepares PostgreSQL and the services of Temporal. Nothing runs yet. The environment variables are those of Temporal's container image.
func (s *Stack) newTemporalServices(options TemporalOptions) (*Temporal, error) {
	postgres, err := s.newPostgreSQL()
	if err != nil {
		return nil, err
	}
	dynamicConfigFile, err := s.writeDynamicConfig(options.DynamicConfig)
	if err != nil {
		return nil, err
	}
	env := []string{
		"DB=postgres12", "POSTGRES_SEEDS=127.0.0.1", fmt.Sprintf("DB_PORT=%d", postgres.port), "POSTGRES_USER=" + postgresUser,
		"BIND_ON_IP=127.0.0.1", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1",
		"DYNAMIC_CONFIG_FILE_PATH=" + dynamicConfigFile, "LOG_LEVEL=warn",
	}
	names := append([]string{frontend}, otherServices...)
	if slices.Contains(options.Env, "USE_INTERNAL_FRONTEND=true") {
		names = slices.Insert(names, 1, internalFrontend)
	}
	t := &Temporal{Namespace: temporalNamespace, postgres: postgres, connect: options.Connect}
	t.sqlTool = func(ctx context.Context) (string, error) { return s.programs.path(ctx, temporalSQLTool) }
	for _, service := range names {
		port, err := s.ports.reserveMany(3)
		if err != nil {
			return nil, fmt.Errorf("prepare Temporal: %w", err)
		}
		address := loopback(port[0])
		for i, use := range []string{"GRPC", "MEMBERSHIP", "HTTP"} {
			env = append(env, fmt.Sprintf("%s_%s_PORT=%d", strings.ToUpper(strings.ReplaceAll(service, "-", "_")), use, port[i]))
		}
		server := s.process("", "temporal-"+service, []string{"--allow-no-auth", "start", "--service=" + service}, t.serves(address, healthName(service)))
		server.path = func(ctx context.Context) (string, error) { return s.programs.path(ctx, temporalServer) }
		if service == frontend {
			t.Address, t.Process = address, server
		} else {
			t.Behind = append(t.Behind, server)
		}
	}
	for _, server := range append(slices.Clone(t.Behind), t.Process) { // each has to know the ports of all
		server.env = slices.Concat(server.env, env, options.Env)
	}
	t.Behind = append(t.Behind, postgres.process)
	return t, nil
}

// writeDynamicConfig writes the settings of the server to a file, and returns its path.
func (s *Stack) writeDynamicConfig(more map[string]string) (string, error) {
	settings := maps.Clone(temporalDynamicConfig)
	maps.Copy(settings, more)
	var text strings.Builder
	for _, key := range slices.Sorted(maps.Keys(settings)) {
		fmt.Fprintf(&text, "%s:\n- value: %s\n", key, settings[key])
	}
	path := filepath.Join(s.Dir, "temporal-dynamic-config.yaml")
	return path, os.WriteFile(path, []byte(text.String()), 0o644)
}

// startServices starts PostgreSQL, creates the schema, starts all services, and creates the namespace.
func (t *Temporal) startServices(ctx context.Context) error {
	if err := t.postgres.start(ctx); err != nil {
		return err
	}
	var schemas errgroup.Group
	for database, schema := range databases {
		schemas.Go(func() error { return t.createSchema(ctx, database, schema) })
	}
	if err := schemas.Wait(); err != nil {
		return err
	}
	// The first one to start writes what the others read. If several did, one would fail.
	if err := t.Process.Start(ctx); err != nil {
		return err
	}
	var starts errgroup.Group
	services, _ := t.Servers()
	for _, server := range services[1:] {
		starts.Go(func() error { return server.Start(ctx) })
	}
	if err := starts.Wait(); err != nil {
		return err
	}
	return t.createNamespace(ctx)
}

// createSchema creates a database with its schema, as Temporal's documentation says.
func (t *Temporal) createSchema(ctx context.Context, database, schema string) error {
	tool, err := t.sqlTool(ctx)
	if err != nil {
		return err
	}
	for _, command := range [][]string{{"create-database"}, {"setup-schema", "--version", "0.0"}, {"update-schema", "--schema-name", schema}} {
		args := append([]string{
			"--plugin", "postgres12", "--endpoint", "127.0.0.1", "--port", strconv.Itoa(t.postgres.port), "--user", postgresUser, "--database", database,
		}, command...)
		if output, err := exec.CommandContext(ctx, tool, args...).CombinedOutput(); err != nil {
			return fmt.Errorf("%s %s of %s: %w\n%s", temporalSQLTool, command[0], database, err, lastLines(string(output), 15))
		}
	}
	return nil
}

// createNamespace creates the namespace.
func (t *Temporal) createNamespace(ctx context.Context) error {
	c, err := t.dial(ctx)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.WorkflowService().RegisterNamespace(ctx, &workflowservice.RegisterNamespaceRequest{
		Namespace: t.Namespace, WorkflowExecutionRetentionPeriod: durationpb.New(retention),
	})
	if err != nil {
		return fmt.Errorf("create Temporal namespace %s: %w", t.Namespace, err)
	}
	return nil
}

// healthName is what the health service of a service is asked for. History answers before it has joined the others, and ends if it cannot; its health by name
// includes its shards.
func healthName(service string) string {
	if service == "history" {
		return "temporal.api.workflowservice.v1.HistoryService"
	}
	return ""
}

// serves reports an error while a service does not serve at its address.
func (t *Temporal) serves(address, name string) func(context.Context) error {
	return func(ctx context.Context) error {
		transport := insecure.NewCredentials()
		if config := t.clientOptions().ConnectionOptions.TLS; config != nil {
			transport = credentials.NewTLS(config)
		}
		connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(transport))
		if err != nil {
			return err
		}
		defer connection.Close()
		health, err := healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{Service: name})
		if err == nil && health.Status != healthpb.HealthCheckResponse_SERVING {
			err = fmt.Errorf("%s is %s", address, health.Status)
		}
		return err
	}
}
