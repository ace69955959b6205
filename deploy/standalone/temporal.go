package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"github.com/grpc-ecosystem/grpc-gateway/v2/runtime"
	"github.com/labstack/echo/v4"
	"github.com/temporalio/ui-server/v2/server"
	"github.com/temporalio/ui-server/v2/server/api"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	"github.com/temporalio/ui-server/v2/server/server_options"
	namespacepb "go.temporal.io/api/namespace/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/server/common/cluster"
	"go.temporal.io/server/common/config"
	"go.temporal.io/server/common/dynamicconfig"
	"go.temporal.io/server/common/membership/static"
	sqliteplugin "go.temporal.io/server/common/persistence/sql/sqlplugin/sqlite"
	"go.temporal.io/server/common/primitives"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	temporalserver "go.temporal.io/server/temporal"
	"google.golang.org/protobuf/types/known/durationpb"

	"drydock.dev/drydock/internal/temporal"
	"drydock.dev/drydock/internal/webaccess"
)

const (
	namespace   = "default"
	clusterName = "drydock"
)

// temporalServer is Temporal in this process.
type temporalServer struct {
	// address is that of its gRPC API, webUI the URL of its Web UI, if any.
	address, webUI string
	server         temporalserver.Server
	ui             *server.Server
	uiFailed       chan error
}

// startTemporal starts Temporal on a SQLite file.
func startTemporal(database, address, webUI string, log *slog.Logger) (*temporalServer, error) {
	host, port, err := splitAddress(address)
	if err != nil {
		return nil, err
	}
	// The server itself does not fail if it cannot listen.
	listener, err := net.Listen("tcp", address)
	if err == nil {
		err = listener.Close()
	}
	if err != nil {
		return nil, fmt.Errorf("--temporal-address: %w", err)
	}
	settings, err := serverConfig(database, host, port)
	if err != nil {
		return nil, err
	}
	hosts := map[primitives.ServiceName]static.Hosts{}
	for name, service := range settings.Services {
		hosts[primitives.ServiceName(name)] = static.SingleLocalHost(net.JoinHostPort(loopback(host), strconv.Itoa(service.RPC.GRPCPort)))
	}
	s := &temporalServer{address: net.JoinHostPort(loopback(host), strconv.Itoa(port)), uiFailed: make(chan error, 1)}
	s.server, err = temporalserver.NewServer(
		temporalserver.WithConfig(settings),
		temporalserver.ForServices(temporalserver.DefaultServices),
		temporalserver.WithStaticHosts(hosts),
		temporalserver.WithLogger(serverLog{log.With("part", "temporal")}),
		temporalserver.WithDynamicConfigClient(dynamicConfig()),
	)
	if err != nil {
		return nil, fmt.Errorf("prepare Temporal: %w", err)
	}
	if err := s.server.Start(); err != nil {
		return nil, fmt.Errorf("start Temporal: %w", err)
	}
	log.Info("Temporal started", "address", s.address, "database", database)
	if webUI != "" {
		if err := s.startWebUI(webUI, log); err != nil {
			s.stop()
			return nil, err
		}
	}
	return s, nil
}

func splitAddress(address string) (host string, port int, err error) {
	host, text, err := net.SplitHostPort(address)
	if err != nil {
		return "", 0, err
	}
	port, err = strconv.Atoi(text)
	if err != nil || port < 1 || port > 65535 || net.ParseIP(host) == nil {
		return "", 0, fmt.Errorf("%q is not an IP address with a port, such as 127.0.0.1:7233", address)
	}
	return host, port, nil
}

// loopback is an address of this machine that a server on host answers on.
func loopback(host string) string {
	if net.ParseIP(host).IsUnspecified() {
		return "127.0.0.1"
	}
	return host
}

// serverConfig is the configuration of all services in one process, with one shard.
func serverConfig(database, host string, port int) (*config.Config, error) {
	store, err := openDatabase(database)
	if err != nil {
		return nil, err
	}
	settings := &config.Config{}
	settings.Global.Membership.MaxJoinDuration = 30 * time.Second
	settings.Global.Membership.BroadcastAddress = loopback(host)
	settings.Persistence.DefaultStore, settings.Persistence.VisibilityStore = "sqlite", "sqlite"
	settings.Persistence.NumHistoryShards = 1
	settings.Persistence.DataStores = map[string]config.DataStore{"sqlite": {SQL: store}}
	settings.ClusterMetadata = &cluster.Config{
		FailoverVersionIncrement: 10, MasterClusterName: clusterName, CurrentClusterName: clusterName,
		ClusterInformation: map[string]cluster.ClusterInformation{clusterName: {
			Enabled: true, InitialFailoverVersion: 1, RPCAddress: net.JoinHostPort(loopback(host), strconv.Itoa(port)),
		}},
	}
	settings.DCRedirectionPolicy.Policy = "noop"
	settings.Archival.History.State, settings.Archival.Visibility.State = "disabled", "disabled"
	settings.NamespaceDefaults.Archival.History.State, settings.NamespaceDefaults.Archival.Visibility.State = "disabled", "disabled"
	settings.PublicClient.HostPort = net.JoinHostPort(loopback(host), strconv.Itoa(port))
	settings.Services = map[string]config.Service{}
	for _, name := range temporalserver.DefaultServices {
		rpc := config.RPC{GRPCPort: port, BindOnIP: host}
		if name != string(primitives.FrontendService) {
			rpc.BindOnIP = "127.0.0.1"
			if rpc.GRPCPort, err = freePort(); err != nil {
				return nil, err
			}
		}
		settings.Services[name] = config.Service{RPC: rpc}
	}
	return settings, nil
}

// freePort is a port of the loopback address that no program uses now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	defer listener.Close()
	return listener.Addr().(*net.TCPAddr).Port, nil
}

// openDatabase makes sure that the file exists with its schema and namespace. Every transaction is on the disk before it is answered.
func openDatabase(path string) (*config.SQL, error) {
	store := func(path string) *config.SQL {
		return &config.SQL{
			PluginName: sqliteplugin.PluginName, DatabaseName: path,
			ConnectAttributes: map[string]string{"mode": "rwc", "journal_mode": "wal", "synchronous": "full"},
		}
	}
	if _, err := os.Stat(path); errors.Is(err, os.ErrNotExist) {
		// Written beside its place and renamed: a process that is killed leaves no half of a schema behind.
		fresh := path + ".new"
		for _, file := range []string{fresh, fresh + "-wal", fresh + "-shm"} {
			if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) {
				return nil, err
			}
		}
		made := store(fresh)
		made.ConnectAttributes = map[string]string{"mode": "rwc"}
		if err := sqliteschema.SetupSchema(made); err != nil {
			return nil, fmt.Errorf("create the database %s: %w", path, err)
		}
		if err := os.Rename(fresh, path); err != nil {
			return nil, err
		}
	} else if err != nil {
		return nil, err
	}
	opened := store(path)
	wanted, err := sqliteschema.NewNamespaceConfig(clusterName, namespace, false, nil)
	if err == nil {
		err = sqliteschema.CreateNamespaces(opened, wanted)
	}
	if err != nil {
		return nil, fmt.Errorf("open the database %s: %w", path, err)
	}
	return opened, nil
}

// ackInterval is how long the server keeps tasks that are done in its queues. It looks through all of them for each new one.
const ackInterval = 5 * time.Second

// dynamicConfig tunes the server for one worker on one machine: by default it polls its queues 20 times a second, which adds 50 ms to each step of a
// workflow, keeps tasks that are done for half a minute, and splits task queues for thousands of tasks a second.
func dynamicConfig() dynamicconfig.Client {
	return dynamicconfig.StaticClient{
		dynamicconfig.TransferProcessorMaxPollRPS.Key():                  5000,
		dynamicconfig.TimerProcessorMaxPollRPS.Key():                     5000,
		dynamicconfig.TransferProcessorUpdateAckInterval.Key():           ackInterval,
		dynamicconfig.TimerProcessorUpdateAckInterval.Key():              ackInterval,
		dynamicconfig.VisibilityProcessorUpdateAckInterval.Key():         ackInterval,
		dynamicconfig.EnableActivityEagerExecution.Key():                 true,
		dynamicconfig.MatchingNumTaskqueueReadPartitions.Key():           1,
		dynamicconfig.MatchingNumTaskqueueWritePartitions.Key():          1,
		dynamicconfig.FrontendMaxNamespaceVisibilityRPSPerInstance.Key(): 100,
		// The caches are for many more workflows than one process runs.
		dynamicconfig.HistoryCacheHostLevelMaxSize.Key():     2000,
		dynamicconfig.EventsHostLevelCacheMaxSizeBytes.Key(): 16 << 20,
	}
}

// startWebUI serves the Web UI, which starts no browser session on its own and needs no assets on the disk.
func (s *temporalServer) startWebUI(address string, log *slog.Logger) error {
	host, port, err := splitAddress(address)
	if err != nil {
		return err
	}
	s.ui = server.NewServer(server_options.WithAPIMiddleware([]api.Middleware{ownNames}), server_options.WithConfigProvider(&uiconfig.Config{
		Host: host, Port: port, TemporalGRPCAddress: s.address, EnableUI: true, CORS: uiconfig.CORS{CookieInsecure: true}, HideLogs: true,
	}))
	s.webUI = "http://" + net.JoinHostPort(loopback(host), strconv.Itoa(port))
	go func() {
		if err := s.ui.Start(); err != nil {
			s.uiFailed <- fmt.Errorf("serve the Web UI (--web-ui-address): %w", err)
		}
	}()
	log.Info("Web UI", "url", s.webUI)
	return nil
}

// ownNames keeps pages of other sites from the API of the Web UI, as the status page does: it can start and end everything.
func ownNames(echo.Context) runtime.ServeMuxOption {
	return runtime.WithMiddlewares(func(next runtime.HandlerFunc) runtime.HandlerFunc {
		return func(w http.ResponseWriter, r *http.Request, path map[string]string) {
			handler := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { next(w, r, path) })
			webaccess.OwnNames(nil, handler).ServeHTTP(w, r)
		}
	})
}

// startLimit is how long Temporal may take to answer after its start.
const startLimit = 2 * time.Minute

// prepare sets how long closed workflows are kept, registers the search attributes, and holds what was restored from a backup.
func (s *temporalServer) prepare(ctx context.Context, data string, log *slog.Logger) error {
	options, err := temporal.Connection{Address: s.address, Namespace: namespace, ConfigFile: os.DevNull}.Options(nil, nil)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	client, err := temporal.Dial(ctx, options)
	if err != nil {
		return fmt.Errorf("Temporal does not answer after its start, see its log: %w", err)
	}
	defer client.Close()
	if _, err := client.WorkflowService().UpdateNamespace(ctx, &workflowservice.UpdateNamespaceRequest{
		Namespace: namespace, Config: &namespacepb.NamespaceConfig{WorkflowExecutionRetentionTtl: durationpb.New(temporal.Retention)},
	}); err != nil {
		return fmt.Errorf("set the retention of Temporal namespace %s: %w", namespace, err)
	}
	if _, err = temporal.RegisterSearchAttributes(ctx, client, namespace); err != nil {
		return err
	}
	return holdIfRestored(ctx, data, client, log)
}

// failed returns why the Web UI ended; nil once ctx is done.
func (s *temporalServer) failed(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return nil
	case err := <-s.uiFailed:
		return err
	}
}

func (s *temporalServer) stop() {
	if s.ui != nil {
		s.ui.Stop()
	}
	_ = s.server.Stop()
}
