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

// frontend is the service of Temporal that clients talk to; services are the others.
const frontend = "frontend"

var services = []string{"worker", "matching", "history"}

// newTemporalServices prepares PostgreSQL and the services of Temporal. Nothing runs yet. The environment variables are those of Temporal's container image.
func (s *Stack) newTemporalServices(dynamicConfig map[string]string) (*Temporal, error) {
	postgres, err := s.newPostgreSQL()
	if err != nil {
		return nil, err
	}
	dynamicConfigFile, err := s.writeDynamicConfig(dynamicConfig)
	if err != nil {
		return nil, err
	}
	httpAPI, err := s.ports.reserve()
	if err != nil {
		return nil, fmt.Errorf("prepare Temporal: %w", err)
	}
	env := []string{
		"DB=postgres12", "POSTGRES_SEEDS=127.0.0.1", fmt.Sprintf("DB_PORT=%d", postgres.port), "POSTGRES_USER=" + postgresUser,
		"BIND_ON_IP=127.0.0.1", "TEMPORAL_BROADCAST_ADDRESS=127.0.0.1", fmt.Sprintf("FRONTEND_HTTP_PORT=%d", httpAPI),
		"DYNAMIC_CONFIG_FILE_PATH=" + dynamicConfigFile, "LOG_LEVEL=warn",
	}
	t := &Temporal{Namespace: temporalNamespace, postgres: postgres}
	t.sqlTool = func(ctx context.Context) (string, error) { return s.programs.path(ctx, temporalSQLTool) }
	for _, service := range append([]string{frontend}, services...) {
		port, err := s.ports.reserveMany(2)
		if err != nil {
			return nil, fmt.Errorf("prepare Temporal: %w", err)
		}
		address, prefix := loopback(port[0]), strings.ToUpper(service)
		env = append(env, fmt.Sprintf("%s_GRPC_PORT=%d", prefix, port[0]), fmt.Sprintf("%s_MEMBERSHIP_PORT=%d", prefix, port[1]))
		server := s.process("", "temporal-"+service, []string{"--allow-no-auth", "start", "--service=" + service}, serves(address))
		server.path = func(ctx context.Context) (string, error) { return s.programs.path(ctx, temporalServer) }
		if service == frontend {
			t.Address, t.Process = address, server
		} else {
			t.Behind = append(t.Behind, server)
		}
	}
	for _, server := range t.services() { // each has to know the ports of all
		server.env = append(server.env, env...)
	}
	t.Behind = append(t.Behind, postgres.process)
	return t, nil
}

// services are the processes of Temporal's services.
func (t *Temporal) services() []*Process {
	return append([]*Process{t.Process}, t.Behind[:len(services)]...)
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
	for database, schema := range map[string]string{"temporal": "postgresql/v12/temporal", "temporal_visibility": "postgresql/v12/visibility"} {
		schemas.Go(func() error { return t.createSchema(ctx, database, schema) })
	}
	if err := schemas.Wait(); err != nil {
		return err
	}
	all := t.services()
	last := len(all) - 1
	if err := all[last].Start(ctx); err != nil { // the first one to start writes what the others read; if several do, one fails
		return err
	}
	var starts errgroup.Group
	for _, server := range all[:last] {
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

// serves reports an error while a service does not answer at its address.
func serves(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		connection, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			return err
		}
		defer connection.Close()
		_, err = healthpb.NewHealthClient(connection).Check(ctx, &healthpb.HealthCheckRequest{})
		return err
	}
}
