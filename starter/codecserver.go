package main

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/spf13/cobra"

	"drydock.dev/drydock/internal/codecserver"
)

// codecServerFlags are the flags of the codec server.
type codecServerFlags struct {
	webFlags
	origins []string
}

func newCodecServer(c *cli) *cobra.Command {
	var flags codecServerFlags
	cmd := &cobra.Command{
		Use:   "codec-server",
		Short: "Decrypt payloads for Temporal's Web UI and the temporal CLI",
		Long: `Decrypt payloads for Temporal's Web UI and the temporal CLI, with the keys of --encryption-key-file, until Ctrl-C or SIGTERM. It also encrypts
what they send.

The temporal CLI uses it with --codec-endpoint and --codec-auth. The Web UI, whose origin --origin names, is told its address in its settings; it
sends no token of its own, so serve it on the machine of the browser, without --token-file. Then every program of that machine may decrypt.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error { return c.serveCodec(ctx, flags) }),
	}
	flags.add(cmd.Flags(), "127.0.0.1:8091", "others than this machine need --token-file",
		"file with the token that clients must send (default: on a loopback address, every program of this machine may decrypt)")
	cmd.Flags().StringSliceVar(&flags.origins, "origin", nil, "origins of the web pages that may use the server, e.g. http://localhost:8233 (default: none)")
	return cmd
}

// serveCodec serves until ctx is done.
func (c *cli) serveCodec(ctx context.Context, flags codecServerFlags) error {
	token, err := flags.check()
	if err != nil {
		return err
	}
	log := slog.New(slog.NewTextHandler(c.ErrOut, nil))
	keys, err := c.connection.Keys(log)
	if err != nil {
		return inputError(err)
	}
	if keys == nil {
		return usagef("no keys: set --encryption-key-file")
	}
	certificates, err := flags.tls(ctx)
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("serve the codec (--listen): %w", err)
	}
	_ = c.say("serving the codec at %s://%s/", flags.scheme(), listener.Addr())
	const limit = 15 * time.Second
	server := &http.Server{
		Handler:   codecserver.Handler(codecserver.Options{Keys: keys, Token: token, Origins: flags.origins, Hosts: flags.hosts}),
		TLSConfig: certificates, ReadTimeout: limit, WriteTimeout: limit, IdleTimeout: time.Minute, MaxHeaderBytes: 32 << 10,
		ErrorLog: slog.NewLogLogger(log.Handler(), slog.LevelWarn),
	}
	stop := context.AfterFunc(ctx, func() { _ = server.Close() }) // requests are short, and clients repeat them
	defer stop()
	if certificates != nil {
		err = server.ServeTLS(listener, "", "")
	} else {
		err = server.Serve(listener)
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// check validates the flags and reads the token.
func (f codecServerFlags) check() (string, error) {
	for _, origin := range f.origins {
		page, err := url.Parse(origin)
		if err != nil || page.Scheme != "http" && page.Scheme != "https" || page.Host == "" || origin != page.Scheme+"://"+page.Host {
			return "", usagef("--origin %q: must be the scheme, the host and the port of a web page, such as http://localhost:8233", origin)
		}
	}
	if f.tokenFile == "" && !isLoopback(f.listen) {
		return "", usagef("--listen %s is reached by other machines, which could decrypt everything: set --token-file", f.listen)
	}
	return f.token()
}
