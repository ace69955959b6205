package main

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/drydock/internal/statuspage"
)

// serveFlags are the flags of the status page.
type serveFlags struct {
	portal, listen, webUI, tokenFile string
	portalOnly                       bool
	hosts                            []string
	streams                          int
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
	cmd.Flags().BoolVar(&flags.portalOnly, "portal-only", false, "show only the portal, without rollouts and node maintenances")
	cmd.Flags().StringVar(&flags.listen, "listen", "127.0.0.1:8090", "address to serve on; everyone who can reach it can read")
	cmd.Flags().StringVar(&flags.webUI, "temporal-ui", "", "address of Temporal's Web UI, for links to workflows, e.g. http://localhost:8233 (default: no links)")
	cmd.Flags().StringVar(&flags.tokenFile, "token-file", "", "file with the token that lets its bearer announce and cancel maintenances (default: read-only)")
	cmd.Flags().StringSliceVar(&flags.hosts, "host", nil, "host names of requests that a proxy on this machine forwards (default: loopback only)")
	cmd.Flags().IntVar(&flags.streams, "streams", statuspage.DefaultStreams, "maximum number of clients with live updates")
	c.addTemporalFlags(cmd)
	return cmd
}

// serve serves until ctx is done.
func (c *cli) serve(ctx context.Context, flags serveFlags) error {
	token, err := flags.check()
	if err != nil {
		return err
	}
	s, err := c.dialLazily() // the page shows that Temporal does not answer
	if err != nil {
		return err
	}
	defer s.Close()
	server, err := statuspage.New(statuspage.Options{
		Temporal: s, Namespace: s.namespace, Portal: flags.portal, PortalOnly: flags.portalOnly, WebUI: flags.webUI, Token: token, Hosts: flags.hosts, Streams: flags.streams,
		Version: programVersion(), Log: slog.New(slog.NewTextHandler(c.ErrOut, nil)),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("serve the status page (--listen): %w", err)
	}
	fmt.Fprintf(c.Out, "serving portal %s at http://%s/\n", flags.portal, listener.Addr())
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
	if f.tokenFile == "" {
		return "", nil
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
