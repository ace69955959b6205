// Package updategraph looks up releases of the platform in update graphs, as the update service of OpenShift serves them (the Cincinnati protocol). It sends
// requests only to hosts that the administrator of the worker allows.
package updategraph

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"golang.org/x/net/http/httpproxy"

	"drydock.dev/drydock/internal/allow"
	"drydock.dev/drydock/internal/endpoint"
	"drydock.dev/drydock/internal/precache"
)

// DefaultHost serves the update graph of Red Hat.
const DefaultHost = "api.openshift.com"

const (
	// maxGraph is the longest graph in bytes. Those of Red Hat have about a megabyte.
	maxGraph = 32 << 20
	// maxHeader is the longest header in bytes, and maxRedirects the number of redirects that are followed.
	maxHeader    = 64 << 10
	maxRedirects = 3
)

// Client looks up releases.
type Client struct {
	hosts allow.Hosts
	http  *http.Client
	// timeout is the longest time for a whole answer.
	timeout time.Duration
}

// defaultTimeout is the usual timeout of a Client: the graph has some hundred kilobytes, and its server may be slow.
const defaultTimeout = 20 * time.Second

// New returns a client that sends requests to these hosts; none: it looks up nothing. It trusts the CAs of the system and those in caFile, if there is one, and uses
// the proxy of the environment.
func New(hosts allow.Hosts, caFile string) (*Client, error) {
	trusted, err := endpoint.TrustedCAs(caFile)
	if err != nil {
		return nil, err
	}
	c := &Client{hosts: hosts, timeout: defaultTimeout}
	proxy := httpproxy.FromEnvironment().ProxyFunc()
	c.http = &http.Client{
		Transport: &http.Transport{
			Proxy:                  func(request *http.Request) (*url.URL, error) { return proxy(request.URL) },
			TLSClientConfig:        &tls.Config{RootCAs: trusted, MinVersion: tls.VersionTLS12},
			DisableKeepAlives:      true, // a lookup is rare
			MaxResponseHeaderBytes: maxHeader,
			ForceAttemptHTTP2:      true,
		},
		CheckRedirect: c.checkRedirect,
	}
	return c, nil
}

// checkRedirect follows redirects to allowed hosts, and from https only to https.
func (c *Client) checkRedirect(next *http.Request, before []*http.Request) error {
	switch {
	case len(before) > maxRedirects:
		return errors.New("it redirects too often")
	case next.URL.Scheme != "https" && before[0].URL.Scheme == "https":
		return errors.New("it redirects to an address without TLS")
	}
	return c.check(next.URL)
}

// check refuses addresses of other hosts.
func (c *Client) check(address *url.URL) error {
	switch {
	case len(c.hosts) == 0:
		return errors.New("the workers look up no releases (--update-graph-hosts is empty)")
	case !c.hosts.Allow(address):
		return fmt.Errorf("host %s is none of --update-graph-hosts of the workers (%s)", address.Host, strings.Join(c.hosts, ", "))
	}
	return nil
}

// ImageOf finds the image of a release. The errors begin as those of TALM do, and are the same as long as their reason is.
func (c *Client) ImageOf(ctx context.Context, release precache.Release) (string, error) {
	address, err := release.Address()
	if err != nil {
		return "", fmt.Errorf("unable to request update graph: %w", err)
	}
	if err := c.check(address); err != nil {
		return "", fmt.Errorf("unable to request update graph on url %s: %w", address, err)
	}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	graph, err := c.get(ctx, address)
	if err != nil {
		return "", err
	}
	image, err := release.ImageIn(graph)
	if err != nil {
		return "", fmt.Errorf("%w on update graph on url %s", err, address)
	}
	return image, nil
}

func (c *Client) get(ctx context.Context, address *url.URL) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address.String(), nil)
	if err != nil {
		return nil, fmt.Errorf("unable to request update graph on url %s: %w", address, err)
	}
	request.Header.Set("Accept", "application/json")
	request.Header.Set("User-Agent", "drydock")
	response, err := c.http.Do(request)
	if err != nil {
		return nil, fmt.Errorf("unable to request update graph on url %s: %w", address, c.cause(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("error response from update graph url %s: %d", address, response.StatusCode)
	}
	graph, err := io.ReadAll(io.LimitReader(response.Body, maxGraph+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("unable to read the answer of update graph url %s: %w", address, c.cause(err))
	case len(graph) > maxGraph:
		return nil, fmt.Errorf("the answer of update graph url %s is longer than %d bytes", address, maxGraph)
	}
	return graph, nil
}

// cause is the reason of an error without what differs in each attempt: the local port, and the time.
func (c *Client) cause(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return fmt.Errorf("no answer within %s", c.timeout)
	}
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		err = wrapped.Err
	}
	if _, ok := errors.AsType[x509.UnknownAuthorityError](err); ok {
		return errors.New("its certificate is signed by an unknown authority: give its CA to the workers with --update-graph-ca")
	}
	if invalid, ok := errors.AsType[x509.CertificateInvalidError](err); ok && invalid.Reason == x509.Expired {
		return errors.New("its certificate has expired, or is not yet valid")
	}
	if name, ok := errors.AsType[*net.DNSError](err); ok && !name.IsNotFound {
		return fmt.Errorf("the name %s could not be resolved", name.Name)
	}
	if network, ok := errors.AsType[*net.OpError](err); ok && network.Source != nil {
		return fmt.Errorf("%s: %w", network.Op, network.Err)
	}
	return err
}
