// Package endpoint requests the addresses in health checks, and only these: it uses no proxy from the environment and follows no redirect.
package endpoint

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
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
	transport := &http.Transport{
		DialContext: (&net.Dialer{}).DialContext, DisableKeepAlives: true, MaxResponseHeaderBytes: maxHeader, ForceAttemptHTTP2: true,
	}
	response, err := transport.RoundTrip(request)
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

// cause is the error without the address that net/url puts before it.
func cause(err error) error {
	if wrapped, ok := errors.AsType[*url.Error](err); ok {
		return wrapped.Err
	}
	return err
}
