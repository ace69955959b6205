package main

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/validation"

	"drydock.dev/drydock/internal/statuspage"
)

// serveFlags are the flags of the status page.
type serveFlags struct {
	webFlags
	oidcFlags
	portal, title, webUI       string
	portalOnly                 bool
	streams, streamsPerAddress int
}

func newServe(c *cli) *cobra.Command {
	var flags serveFlags
	cmd := &cobra.Command{
		Use:   "serve",
		Short: "Serve the status page, its API and MCP",
		Long: `Serve the status page, its API and MCP until Ctrl-C or SIGTERM: one portal, and all running rollouts and node
maintenances. Use --portal-only to leave those out.

The page is at /, the Connect API at /drydock.v1.StatusService/ (also gRPC, and plain HTTP with JSON), the Model Context Protocol at /mcp.
They are read-only unless --token-file gives a token, or --oidc-issuer-url the issuer of tokens, whose bearers may announce and cancel maintenances.`,
		Args: operands(),
		RunE: c.verb(func(ctx context.Context, _ []string) error { return c.serve(ctx, flags) }),
	}
	cmd.Flags().StringVar(&flags.portal, "portal", "main", "name of the portal to show")
	cmd.Flags().StringVar(&flags.title, "title", "", "title of the page, e.g. \"Status of Example Ltd.\" (default: the name of the portal)")
	cmd.Flags().BoolVar(&flags.portalOnly, "portal-only", false, "show only the portal, without rollouts and node maintenances")
	flags.webFlags.add(cmd.Flags(), "127.0.0.1:8090", "everyone who can reach it can read",
		"file with the token that lets its bearer announce and cancel maintenances (default: read-only)")
	flags.oidcFlags.add(cmd.Flags())
	cmd.Flags().StringVar(&flags.webUI, "temporal-ui", "", "address of Temporal's Web UI, for links to workflows, e.g. http://localhost:8233 (default: no links)")
	cmd.Flags().IntVar(&flags.streams, "streams", statuspage.DefaultStreams, "maximum number of clients with live updates")
	cmd.Flags().IntVar(&flags.streamsPerAddress, "streams-per-address", statuspage.DefaultStreamsPerAddress, "maximum number of those from one address; a loopback address, as of a proxy, has no limit of its own")
	return cmd
}

// serve serves until ctx is done.
func (c *cli) serve(ctx context.Context, flags serveFlags) error {
	access, err := flags.check()
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
		Temporal: s, Namespace: s.namespace, Portal: flags.portal, Title: flags.title, PortalOnly: flags.portalOnly, WebUI: flags.webUI, Access: access, Hosts: flags.hosts, Streams: flags.streams,
		StreamsPerAddress: flags.streamsPerAddress, TLS: certificates, Version: programVersion(), Log: slog.New(slog.NewTextHandler(c.ErrOut, nil)),
	})
	if err != nil {
		return err
	}
	listener, err := net.Listen("tcp", flags.listen)
	if err != nil {
		return fmt.Errorf("serve the status page (--listen): %w", err)
	}
	_ = c.say("serving portal %s at %s://%s/", flags.portal, flags.scheme(), listener.Addr())
	return server.Serve(ctx, listener)
}

// check validates the flags and reads their files.
func (f serveFlags) check() (access statuspage.Access, err error) {
	if wrong := validation.IsDNS1123Subdomain(f.portal); len(wrong) > 0 {
		return access, usagef("--portal %q: %s", f.portal, wrong[0])
	}
	if f.streams < 1 {
		return access, usagef("--streams %d: must be 1 or more", f.streams)
	}
	if f.webUI != "" {
		address, err := url.Parse(f.webUI)
		if err != nil || address.Scheme != "http" && address.Scheme != "https" || address.Host == "" {
			return access, usagef("--temporal-ui %q: must be an address such as http://localhost:8233", f.webUI)
		}
	}
	if f.streamsPerAddress < 1 {
		return access, usagef("--streams-per-address %d: must be 1 or more", f.streamsPerAddress)
	}
	if access.Token, err = f.token(); err != nil {
		return access, err
	}
	if access.OIDC, err = f.issuer(); err != nil || access.OIDC == nil {
		return access, err
	}
	access.View, access.Operate = f.view, f.operate
	return access, f.encrypted("--oidc-issuer-url")
}
