// Package faultproxy is a proxy between a client and a kube-apiserver that injects faults for tests: it delays, refuses, stops and drops
// requests and answers. Requests that match no rule pass unchanged, including watches and credentials.
package faultproxy

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httputil"
	"net/url"
	"strconv"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	apirequest "k8s.io/apiserver/pkg/endpoints/request"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/cert"
)

// Proxy is a running proxy in front of one API server.
type Proxy struct {
	url       string
	authority []byte
	server    *http.Server
	forward   *httputil.ReverseProxy
	upstream  *http.Transport
	requests  apirequest.RequestInfoFactory

	mu         sync.Mutex
	injections []*Injection
}

// Start starts a proxy for the API server of config, on a free loopback port. It uses only the address and the certificate authority of
// config: clients of the proxy send their own tokens.
func Start(config *rest.Config) (*Proxy, error) {
	target, err := url.Parse(config.Host)
	if err != nil {
		return nil, fmt.Errorf("start a proxy in front of %s: %w", config.Host, err)
	}
	trust, err := rest.TLSConfigFor(&rest.Config{TLSClientConfig: rest.TLSClientConfig{CAData: config.CAData}})
	if err != nil {
		return nil, fmt.Errorf("start a proxy in front of %s: %w", config.Host, err)
	}
	certificate, key, err := cert.GenerateSelfSignedCertKey("127.0.0.1", nil, nil)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the proxy in front of %s: %w", config.Host, err)
	}
	pair, err := tls.X509KeyPair(certificate, key)
	if err != nil {
		return nil, fmt.Errorf("make a certificate for the proxy in front of %s: %w", config.Host, err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("start a proxy in front of %s: %w", config.Host, err)
	}
	p := &Proxy{
		url: "https://" + listener.Addr().String(), authority: certificate,
		upstream: &http.Transport{TLSClientConfig: trust, ForceAttemptHTTP2: true},
		requests: apirequest.RequestInfoFactory{APIPrefixes: sets.NewString("api", "apis"), GrouplessAPIPrefixes: sets.NewString("api")},
	}
	p.forward = &httputil.ReverseProxy{
		Rewrite:       func(r *httputil.ProxyRequest) { r.SetURL(target) },
		Transport:     p.upstream,
		FlushInterval: -1, // forward each event of a watch immediately
		// If the API server does not answer, neither does the proxy.
		ErrorHandler: func(_ http.ResponseWriter, r *http.Request, _ error) {
			if r.Context().Err() == nil {
				hangUp(r)
			}
		},
		ErrorLog: log.New(io.Discard, "", 0),
	}
	p.server = &http.Server{
		Handler:           p,
		TLSConfig:         &tls.Config{Certificates: []tls.Certificate{pair}, MinVersion: tls.VersionTLS12},
		ReadHeaderTimeout: time.Minute,
		ConnContext:       func(ctx context.Context, c net.Conn) context.Context { return context.WithValue(ctx, connection{}, c) },
		ErrorLog:          log.New(io.Discard, "", 0),
	}
	go func() { _ = p.server.ServeTLS(listener, "", "") }() // until Close
	return p, nil
}

// connection is the key of a request's connection in its context.
type connection struct{}

// Config returns config with the address of the proxy.
func (p *Proxy) Config(config *rest.Config) *rest.Config {
	through := rest.CopyConfig(config)
	through.Host, through.CAData = p.url, p.authority
	return through
}

// Inject adds a rule. If several rules match a request, the first one that applies a fault decides.
func (p *Proxy) Inject(rule Rule) *Injection {
	injection := newInjection(rule)
	p.mu.Lock()
	defer p.mu.Unlock()
	p.injections = append(p.injections, injection)
	return injection
}

// RemoveAll removes all rules. Stopped requests stay stopped.
func (p *Proxy) RemoveAll() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, injection := range p.injections {
		injection.Remove()
	}
	p.injections = nil
}

// Close ends the proxy and every connection through it.
func (p *Proxy) Close() error {
	err := p.server.Close()
	p.upstream.CloseIdleConnections()
	return err
}

// request has the attributes that rules match.
type request struct {
	verb, resource, namespace, name, userAgent string
	body                                       []byte
}

// ServeHTTP implements http.Handler.
func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	seen, err := p.read(r)
	if err != nil {
		hangUp(r)
		return
	}
	if injection := p.fault(seen); injection != nil {
		p.apply(w, r, seen, injection)
		return
	}
	p.forward.ServeHTTP(w, r)
}

func (p *Proxy) read(r *http.Request) (*request, error) {
	info, err := p.requests.NewRequestInfo(r)
	if err != nil {
		return nil, err
	}
	seen := &request{verb: info.Verb, resource: info.Resource, namespace: info.Namespace, name: info.Name, userAgent: r.UserAgent()}
	if info.Subresource != "" {
		seen.resource += "/" + info.Subresource
	}
	if seen.body, err = io.ReadAll(r.Body); err != nil {
		return nil, err
	}
	if len(seen.body) > 0 {
		r.Body = io.NopCloser(bytes.NewReader(seen.body))
	}
	return seen, nil
}

// fault returns the rule that applies a fault to a request; nil if none does.
func (p *Proxy) fault(r *request) (rule *Injection) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, injection := range p.injections {
		if injection.applies(r) {
			return injection
		}
	}
	return nil
}

func (p *Proxy) apply(w http.ResponseWriter, r *http.Request, seen *request, injection *Injection) {
	fault := injection.rule.Fault
	switch {
	case fault.stop:
		p.stop(w, r, seen, injection)
	case fault.hangUp:
		if fault.forward {
			p.answer(r)
		}
		injection.recordDisconnect()
		hangUp(r)
	case fault.status != nil:
		refuse(w, fault)
	case wait(r, fault.delay):
		p.forward.ServeHTTP(w, r)
	}
}

// stop holds a request, and then its answer, until the test releases them or the client disconnects.
func (p *Proxy) stop(w http.ResponseWriter, r *http.Request, seen *request, injection *Injection) {
	stopped := newStopped(seen)
	injection.setPending(stopped)
	defer close(stopped.ended)
	select {
	case injection.stopped <- stopped:
	case <-r.Context().Done():
		return
	}
	select {
	case <-stopped.forward:
	case <-r.Context().Done():
		return
	}
	answer := p.answer(r)
	close(stopped.answered)
	select {
	case <-stopped.release:
		answer.replay(w)
	case <-r.Context().Done():
	}
}

// answer forwards a request to the API server and records the answer.
func (p *Proxy) answer(r *http.Request) *recorder {
	answer := &recorder{header: http.Header{}, code: http.StatusOK}
	p.forward.ServeHTTP(answer, r)
	return answer
}

func wait(r *http.Request, delay time.Duration) bool {
	timer := time.NewTimer(delay)
	defer timer.Stop()
	select {
	case <-timer.C:
		return true
	case <-r.Context().Done():
		return false
	}
}

// refuse answers as an API server does.
func refuse(w http.ResponseWriter, fault Fault) {
	w.Header().Set("Content-Type", "application/json")
	if details := fault.status.Details; details != nil && details.RetryAfterSeconds > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(details.RetryAfterSeconds)))
	}
	w.WriteHeader(int(fault.status.Code))
	_ = json.NewEncoder(w).Encode(fault.status) // the client may have disconnected
}

// hangUp closes the connection of the request.
func hangUp(r *http.Request) {
	if conn, ok := r.Context().Value(connection{}).(net.Conn); ok {
		_ = conn.Close()
	}
	panic(http.ErrAbortHandler)
}

// recorder buffers an answer.
type recorder struct {
	header http.Header
	code   int
	body   bytes.Buffer
}

// Header implements http.ResponseWriter.
func (r *recorder) Header() http.Header { return r.header }

// WriteHeader implements http.ResponseWriter.
func (r *recorder) WriteHeader(code int) { r.code = code }

// Write implements http.ResponseWriter.
func (r *recorder) Write(data []byte) (int, error) { return r.body.Write(data) }

func (r *recorder) replay(w http.ResponseWriter) {
	for name, values := range r.header {
		w.Header()[name] = values
	}
	w.WriteHeader(r.code)
	_, _ = w.Write(r.body.Bytes())
}
