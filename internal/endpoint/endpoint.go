// Package endpoint sends requests to the addresses in health checks and of webhooks, and only to these: it uses no proxy from the environment and follows no
// redirect.
package endpoint

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"slices"
	"syscall"
	"time"

	"drydock.dev/drydock/internal/health"
)

const (
	// timeout is the longest time for a whole answer.
	timeout = 5 * time.Second
	// maxBody is the longest answer in bytes. A longer one is an error, because its end would be missing.
	maxBody = 1 << 20
	// maxHeader is the longest header in bytes.
	maxHeader = 64 << 10
)

// Fetch sends an HTTP GET to an address, on a new connection. The error omits the address, which may contain a password.
func Fetch(ctx context.Context, address string) (health.Answer, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return health.Answer{}, fmt.Errorf("is not an address: %w", cause(err))
	}
	request.Header.Set("User-Agent", "drydock")
	if user := request.URL.User; user != nil {
		password, _ := user.Password()
		request.SetBasicAuth(user.Username(), password)
	}
	response, err := Transport(true).RoundTrip(request)
	if err != nil {
		return health.Answer{}, cause(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, maxBody+1))
	if err != nil {
		return health.Answer{}, fmt.Errorf("read the answer: %w", err)
	}
	if len(body) > maxBody {
		return health.Answer{}, fmt.Errorf("the answer is longer than %d bytes", maxBody)
	}
	return health.Answer{Status: response.StatusCode, Body: body}, nil
}

// Transport sends each request on a new connection. Without private it connects to public addresses only. It checks the address of the connection itself,
// because the name of a host may have another address at each look-up.
func Transport(private bool) *http.Transport {
	dialer := &net.Dialer{}
	if !private {
		dialer.Control = func(_, address string, _ syscall.RawConn) error {
			to, err := netip.ParseAddrPort(address)
			if err == nil && !public(to.Addr()) {
				err = fmt.Errorf("its address %s is not public", to.Addr())
			}
			return err
		}
	}
	return &http.Transport{DialContext: dialer.DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true}
}

// notPublic are networks that netip does not know as private: shared by carriers, for protocols and tests, reserved, and those in which an IPv4 address is
// embedded.
var notPublic = []netip.Prefix{
	netip.MustParsePrefix("0.0.0.0/8"), netip.MustParsePrefix("100.64.0.0/10"), netip.MustParsePrefix("192.0.0.0/24"), netip.MustParsePrefix("198.18.0.0/15"),
	netip.MustParsePrefix("240.0.0.0/4"), netip.MustParsePrefix("::/96"), netip.MustParsePrefix("64:ff9b::/96"), netip.MustParsePrefix("64:ff9b:1::/48"),
	netip.MustParsePrefix("2001::/32"), netip.MustParsePrefix("2002::/16"), netip.MustParsePrefix("fec0::/10"),
}

// public reports whether an address is one of the public Internet.
func public(address netip.Addr) bool {
	address = address.Unmap()
	return address.IsGlobalUnicast() && !address.IsPrivate() &&
		!slices.ContainsFunc(notPublic, func(network netip.Prefix) bool { return network.Contains(address) })
}

// TrustedCAs are the CAs of the system and those in a file; nil: only the former.
func TrustedCAs(file string) (*x509.CertPool, error) {
	if file == "" {
		return nil, nil
	}
	text, err := os.ReadFile(file)
	if err != nil {
		return nil, err
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		return nil, fmt.Errorf("CAs of the system: %w", err)
	}
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s has no certificate in PEM", file)
	}
	return pool, nil
}

// cause is the error without the address that net/url puts before it.
func cause(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
