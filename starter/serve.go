package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"
	"sigs.k8s.io/controller-runtime/pkg/certwatcher"

	"drydock.dev/drydock/internal/statuspage"
)

// serveFlags are the flags of the status page.
type serveFlags struct {
	portal, title, listen, webUI, tokenFile string
	certFile, keyFile                       string
	portalOnly, plainTextToken              bool
	hosts                                   []string
	streams, streamsPerAddress              int
}

func newServe(c *cli) *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the status page, its API and MCP",
		Long: `Serve the status page, its API and MCP until Ctrl-C or SIGTERM: one portal, and all running rollouts and node
maintenances. Use --portal-only to leave those out.

The page is at /, the Connect API at /drydock.v1.StatusService/ (also gRPC, and plain HTTP with JSON), the Model Context Protocol at /mcp.
They are read-only unless --token-file gives a token, whose bearers may announce and cancel maintenances.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error { return c.serve(ctx, flags) }),
	}
	cmd.Flags().StringVar(&flags.portal, "portal", "main", "name of the portal to show")
	cmd.Flags().StringVar(&flags.title, "title", "", "title of the page, e.g. \"Status of Example Ltd.\" (default: the name of the portal)")
	cmd.Flags().BoolVar(&flags.portalOnly, "portal-only", false, "show only the portal, without rollouts and node maintenances")
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8090", "address to serve on; everyone who can reach it can read")
	cmd.Flags().StringVar(&flags.webUI, "temporal-ui", "", "address of Temporal's Web UI, for links to workflows, e.g. http://localhost:8233 (default: no links)")
	cmd.Flags().StringVar(&flags.tokenFile, "token-file", "", "file with the token that lets its bearer announce and cancel maintenances (default: read-only)")
	cmd.Flags().BoolVar(&flags.plainTextToken, "allow-plain-text-token", false, "accept the token without TLS on an address that other machines reach, as behind a proxy with TLS")
	cmd.Flags().StringVar(&flags.certFile, "tls-cert", "", "file with the PEM certificate, and its chain, to serve HTTPS; read again when it changes (default: plain HTTP)")
	cmd.Flags().StringVar(&flags.keyFile, "tls-key", "", "file with the PEM private key of the certificate")
	cmd.Flags().StringSliceVar(&flags.hosts, "host", nil, "host names under which clients reach the page (default: localhost and IP addresses only)")
	cmd.Flags().IntVar(&flags.streams, "streams", statuspage.DefaultStreams, "maximum number of clients with live updates")
	cmd.Flags().IntVar(&flags.streamsPerAddress, "streams-per-address", statuspage.DefaultStreamsPerAddress, "maximum number of those from one address; a loopback address, as of a proxy, has no limit of its own")
	return cmd
}

// serve serves until ctx is done.
func (c *cli) serve(ctx context.Context, flags serveFlags) error {
	token, err := flags.check()
	if err != nil {
		return err
	}
	certificates, err := flags.tls(ctx)
	if err != nil {
		return err
	}
	s, err := c.dialLazily() // the page shows that Temporal does not answer
	if err != nil {
		return err
	}
	defer s.Close()
	server, err := statuspage.New(statuspage.Options{
		Temporal: s, Namespace: s.namespace, Portal: flags.portal, Title: flags.title, PortalOnly: flags.portalOnly, WebUI: flags.webUI, Token: token, Hosts: flags.hosts, Streams: flags.streams,
		StreamsPerAddress: flags.streamsPerAddress, TLS: certificates, Version: programVersion(), Log: slog.New(slog.NewTextHandler(c.ErrOut, nil)),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("serve the status page (--listen): %w", err)
	}
	scheme := "http"
	if certificates != nil {
		scheme = "https"
	}
	fmt.Fprintf(c.Out, "serving portal %s at %s://%s/\n", flags.portal, scheme, listener.Addr())
	return server.Serve(ctx, listener)
}

// tokenLength is the minimum length of a token, so that it cannot be guessed.
const tokenLength = 16

// check validates the flags and reads the token.
func (f serveFlags) check() (token string, err error) {
	if wrong := validation.IsDNS1123Subdomain(f.portal); len(wrong) > 0 {
		return "", usagef("--portal %q: %s", f.portal, wrong[0])
	}
	if f.streams < 1 {
		return "", usagef("--streams %d: must be 1 or more", f.streams)
	}
	if f.webUI != "" {
		address, err := url.Parse(f.webUI)
		if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
			return "", usagef("--temporal-ui %q: must be an address such as http://localhost:8233", f.webUI)
		}
	}
	if f.streamsPerAddress < 1 {
		return "", usagef("--streams-per-address %d: must be 1 or more", f.streamsPerAddress)
	}
	if (f.certFile == "") != (f.keyFile == "") {
		return "", usagef("--tls-cert and --tls-key: set both or none")
	}
	if f.tokenFile == "" {
		return "", nil
	}
	if f.certFile == "" && !f.plainTextToken && !isLoopback(f.listen) {
		return "", usagef("--token-file: --listen %s is reached by other machines, and the token would travel in plain text: set --tls-cert and --tls-key, "+
			"or --allow-plain-text-token behind a proxy with TLS", f.listen)
	}
	text, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", inputError(fmt.Errorf("--token-file: %w", err))
	}
	if text = bytes.TrimSpace(text); len(text) < tokenLength {
		return "", inputError(fmt.Errorf("--token-file %s: the token has %d characters; it must have %d or more", f.tokenFile, len(text), tokenLength))
	}
	return string(text), nil
}

// tls is the configuration for the certificate, which is read again when its file changes; nil without one.
func (f serveFlags) tls(ctx context.Context) (*tls.Config, error) {
	if f.certFile == "" {
		return nil, nil
	}
	certificates, err := certwatcher.New(f.certFile, f.keyFile)
	if err != nil {
		return nil, inputError(fmt.Errorf("--tls-cert, --tls-key: %w", err))
	}
	go func() { _ = certificates.Start(ctx) }() // it also reads the files every ten seconds
	return &tls.Config{GetCertificate: certificates.GetCertificate, MinVersion: tls.VersionTLS12}, nil
}

// isLoopback reports whether only this machine reaches a listen address.
func isLoopback(listen string) bool {
	host, _, err := net.SplitHostPort(listen)
	address, notAnAddress := netip.ParseAddr(host)
	return err == nil && (host == "localhost" || notAnAddress == nil && address.IsLoopback())
}
