package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/spf13/cobra"
	"golang.org/x/sync/errgroup"

	"drydock.dev/drydock/internal/statuspage"
	"drydock.dev/drydock/internal/temporal"
	buildversion "drydock.dev/drydock/internal/version"
	"drydock.dev/drydock/worker/app"
)

// options are the settings of the command line.
type options struct {
	worker *app.Options
	data   string
	// temporal, webUI and page are addresses to listen on. Without webUI there is no Web UI, without page no status page.
	temporal, webUI, page string
	// pageHosts are the names of the status page in requests, beside localhost and IP addresses.
	pageHosts []string
	// prepare: CRDs are installed on the clusters.
	prepare bool
}

func newCommand() *cobra.Command {
	o := options{worker: app.NewOptions(version)}
	cmd := &cobra.Command{
		Use:   "drydock-standalone",
		Short: "Run Drydock and Temporal in one process",
		Long: `Run Drydock and Temporal in one process: Temporal's server with its Web UI, the worker with its controllers, and the status page. All state is in
one directory (--data). It prepares its clusters as drydock setup does.

It is for one team and one process. Several workers, or thousands of clusters, need a Temporal of their own and drydock-worker.

Who can reach the address of Temporal may steer everything: by default only programs on this machine.`,
		Version:       buildversion.Running(version).String(),
		Args:          cobra.NoArgs,
		SilenceUsage:  true,
		SilenceErrors: true,
		RunE:          func(cmd *cobra.Command, _ []string) error { return o.run(cmd.Context(), cmd.ErrOrStderr()) },
	}
	flags := cmd.Flags()
	flags.StringVar(&o.data, "data", "", "directory of the database, which is created if it is missing (required)")
	flags.StringVar(&o.temporal, "temporal-address", "127.0.0.1:7233", "address of Temporal, for drydock and the temporal CLI")
	flags.StringVar(&o.webUI, "web-ui-address", "127.0.0.1:8233", "address of Temporal's Web UI; empty: none")
	flags.StringVar(&o.page, "page-address", "127.0.0.1:8090", "address of the status page, which is read-only; empty: none")
	flags.StringSliceVar(&o.pageHosts, "page-host", nil, "host names under which clients reach the status page (default: localhost and IP addresses only)")
	flags.BoolVar(&o.prepare, "setup", true, "install missing CRDs on the clusters, and create namespace drydock-system on the hub")
	flags.StringVar(&o.worker.Connection.EncryptionKeyFile, "encryption-key-file", os.Getenv("DRYDOCK_ENCRYPTION_KEY_FILE"),
		"file with the keys that encrypt what Temporal stores (env DRYDOCK_ENCRYPTION_KEY_FILE; default: no encryption)")
	o.worker.AddFlags(flags)
	requireFlags(cmd, "data")
	cmd.AddCommand(newBackupCommand(), newRestoreCommand())
	return cmd
}

// run runs everything until ctx is done, or a part fails.
func (o *options) run(ctx context.Context, logs io.Writer) error {
	if err := o.worker.Check(); err != nil {
		return err
	}
	source, err := o.worker.Source()
	if err != nil {
		return err
	}
	for flag, address := range map[string]string{"--temporal-address": o.temporal, "--web-ui-address": o.webUI} {
		if _, _, err := splitAddress(address); err != nil && (address != "" || flag == "--temporal-address") {
			return fmt.Errorf("%s: %w", flag, err)
		}
	}
	log, err := o.worker.Logger(logs)
	if err != nil {
		return err
	}
	// Settings of the temporal CLI, such as TLS, are those of another Temporal.
	for _, setting := range os.Environ() {
		if name, _, _ := strings.Cut(setting, "="); strings.HasPrefix(name, "TEMPORAL_") {
			if err := os.Unsetenv(name); err != nil {
				return err
			}
		}
	}
	unlock, err := lock(o.data)
	if err != nil {
		return fmt.Errorf("--data: %w", err)
	}
	defer unlock()
	server, err := startTemporal(filepath.Join(o.data, databaseFile), o.temporal, o.webUI, log)
	if err != nil {
		return err
	}
	defer server.stop()
	if err := server.prepare(ctx, o.data, log); err != nil {
		return err
	}
	o.worker.Connection.Address, o.worker.Connection.Namespace, o.worker.Connection.ConfigFile = server.address, namespace, os.DevNull

	parts, ctx := errgroup.WithContext(ctx)
	if o.prepare {
		parts.Go(func() error { prepareClusters(ctx, source, log); return nil })
	}
	if o.page != "" {
		parts.Go(func() error { return o.servePage(ctx, server, log) })
	}
	parts.Go(func() error { return app.Run(ctx, logs, o.worker) })
	parts.Go(func() error { return server.failed(ctx) })
	return parts.Wait()
}

// servePage serves the status page until ctx is done.
func (o *options) servePage(ctx context.Context, server *temporalServer, log *slog.Logger) error {
	settings, err := o.worker.Connection.Options(nil, nil)
	if err != nil {
		return err
	}
	client, err := temporal.Dial(ctx, settings)
	if err != nil {
		return err
	}
	defer client.Close()
	page, err := statuspage.New(statuspage.Options{
		Temporal: client, Namespace: namespace, Portal: "main", WebUI: server.webUI, Hosts: o.pageHosts, Version: version, Log: log,
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", o.page)
	if err != nil {
		return fmt.Errorf("serve the status page (--page-address): %w", err)
	}
	log.Info("status page", "url", "http://"+listener.Addr().String()+"/")
	return page.Serve(ctx, listener)
}

// lock makes sure that no other process uses the directory. The lock ends with the process.
func lock(dir string) (unlock func(), err error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		_ = file.Close()
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = errors.New("another drydock-standalone uses it")
		}
		return nil, fmt.Errorf("%s: %w", dir, err)
	}
	return func() { _ = file.Close() }, nil
}
