package statuspage

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"go.temporal.io/sdk/client"

	"drydock.dev/drydock/internal/webaccess"
)

// Limits of requests, which are small and fast.
const (
	headerTimeout   = 5 * time.Second
	requestTimeout  = 15 * time.Second
	idleTimeout     = time.Minute
	headerBytes     = 32 << 10
	bodyBytes       = 64 << 10
	shutdownTimeout = 5 * time.Second
)

// Options configure a server.
type Options struct {
	Temporal client.Client
	// Namespace is the Temporal namespace, Portal the name of the portal to show.
	Namespace, Portal string
	// Title is shown instead of the name of the portal; empty: the name.
	Title string
	// PortalOnly leaves out rollouts and nodes, which belong to no portal.
	PortalOnly bool
	// WebUI is the address of Temporal's Web UI; empty for no links.
	WebUI string
	// Access decides who may read, and who may announce and cancel maintenances.
	Access Access
	// Hosts are the names of this server in requests, beside localhost and IP addresses.
	Hosts []string
	// Streams is the maximum number of concurrent streams; 0 is DefaultStreams.
	Streams int
	// StreamsPerAddress is the maximum number of concurrent streams of one address, unless that is a loopback address; 0 is DefaultStreamsPerAddress.
	StreamsPerAddress int
	// TLS encrypts connections; nil for plain text.
	TLS     *tls.Config
	Version string
	Log     *slog.Logger
}

// The defaults of Options.Streams and Options.StreamsPerAddress.
const (
	DefaultStreams           = 500
	DefaultStreamsPerAddress = 50
)

// Server serves the page, the API and MCP.
type Server struct {
	options Options
	reader  *Reader
	pages   *pages
	assets  *assets
	streams openStreams
	// closing is closed when streams must end.
	closing chan struct{}
	once    sync.Once
}

// New returns a server, which reads its view while Serve runs.
func New(options Options) (*Server, error) {
	if options.Streams == 0 {
		options.Streams = DefaultStreams
	}
	if options.StreamsPerAddress == 0 {
		options.StreamsPerAddress = DefaultStreamsPerAddress
	}
	pages, err := newPages(options.Portal, options.Title, webUI{options.WebUI, options.Namespace})
	if err != nil {
		return nil, err
	}
	assets, err := readAssets()
	if err != nil {
		return nil, err
	}
	s := &Server{
		options: options, reader: NewReader(options.Temporal, options.Portal, options.PortalOnly, options.Log), pages: pages, assets: assets,
		streams: openStreams{byAddress: map[netip.Addr]int{}}, closing: make(chan struct{}),
	}
	pages.newest = func() *View {
		view, _ := s.reader.View()
		return view
	}
	return s, nil
}

// Serve answers on a listener until ctx is done, then lets requests end.
func (s *Server) Serve(ctx context.Context, listener net.Listener) error {
	reading, stop := context.WithCancel(ctx)
	var reader sync.WaitGroup
	reader.Go(func() { s.reader.Run(reading) })
	defer reader.Wait()
	defer stop()

	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(true)
	protocols.SetUnencryptedHTTP2(true) // gRPC needs it
	server := &http.Server{
		Handler: s.Handler(), Protocols: protocols, TLSConfig: s.options.TLS, MaxHeaderBytes: headerBytes,
		ReadHeaderTimeout: headerTimeout, ReadTimeout: requestTimeout, WriteTimeout: requestTimeout, IdleTimeout: idleTimeout,
		ErrorLog: slog.NewLogLogger(s.options.Log.Handler(), slog.LevelWarn),
	}
	ended := make(chan error, 1)
	go func() {
		if s.options.TLS != nil {
			ended <- server.ServeTLS(listener, "", "")
			return
		}
		ended <- server.Serve(listener)
	}()
	select {
	case err := <-ended:
		return err
	case <-ctx.Done():
	}
	s.endStreams()
	leaving, cancel := context.WithTimeout(context.WithoutCancel(ctx), shutdownTimeout)
	defer cancel()
	if err := server.Shutdown(leaving); err != nil {
		_ = server.Close() // remaining requests have exceeded their time
	}
	if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
		return err
	}
	return nil
}

func (s *Server) endStreams() { s.once.Do(func() { close(s.closing) }) }

// Handler answers all requests.
func (s *Server) Handler() http.Handler {
	mux := http.NewServeMux()
	s.handlePages(mux)
	s.handleAPI(mux)
	mux.Handle("/mcp", s.mcpHandler())
	mux.HandleFunc("GET "+publicPath, func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("ok\n")) })
	// A browser sends requests on behalf of other sites, so those may only read.
	return secured(webaccess.OwnNames(s.options.Hosts, http.NewCrossOriginProtection().Handler(s.options.Access.checked(http.MaxBytesHandler(mux, bodyBytes)))))
}

// secured sets headers that forbid other resources, frames and content sniffing.
func secured(next http.Handler) http.Handler {
	policy := strings.Join([]string{
		"default-src 'none'", "style-src 'self'", "script-src 'self'", "img-src 'self'", "connect-src 'self'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'",
	}, "; ")
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for name, value := range map[string]string{
			"Content-Security-Policy":      policy,
			"X-Content-Type-Options":       "nosniff",
			"X-Frame-Options":              "DENY",
			"Referrer-Policy":              "no-referrer",
			"Cross-Origin-Opener-Policy":   "same-origin",
			"Cross-Origin-Resource-Policy": "same-origin",
			"Permissions-Policy":           "camera=(), geolocation=(), microphone=()",
			"Cache-Control":                "no-store",
		} {
			w.Header().Set(name, value)
		}
		next.ServeHTTP(w, r)
	})
}
