package statuspage

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"sync"
	"time"

	"connectrpc.com/connect"
	"github.com/coreos/go-oidc/v3/oidc"
	"golang.org/x/time/rate"

	"drydock.dev/drydock/internal/webaccess"
)

// OIDC verifies tokens of an OpenID Connect issuer. It finds the issuer's keys with the first token, so that a server starts without its issuer.
type OIDC struct {
	// Issuer is the URL of the issuer, ClientID the client for which it makes the tokens for this server.
	Issuer, ClientID string
	// UserClaim and GroupsClaim are the claims with the user, who is the actor of changes, and the groups.
	UserClaim, GroupsClaim string
	// Roots verify the issuer's certificate; nil: those of the system.
	Roots *x509.CertPool

	mu       sync.Mutex
	verifier *oidc.IDTokenVerifier
	client   *http.Client
}

const (
	// issuerTimeout limits one request to the issuer.
	issuerTimeout = 5 * time.Second
	// issuerInterval is the time between two requests to the issuer, of which issuerBurst may come at once: tokens with forged key IDs would otherwise
	// cause one each.
	issuerInterval = 2 * time.Second
	issuerBurst    = 4
)

// claims are what a token says.
type claims struct {
	user    string
	groups  []string
	expires time.Time
}

// Check validates the settings. Their errors name flags of `drydock serve`.
func (o *OIDC) Check() error {
	issuer, err := url.Parse(o.Issuer)
	switch {
	case err != nil || issuer.Host == "":
		return fmt.Errorf("--oidc-issuer-url %q: must be an address such as https://login.example.com", o.Issuer)
	case issuer.Scheme != "https" && (issuer.Scheme != "http" || !webaccess.IsLoopback(issuer.Hostname())):
		return fmt.Errorf("--oidc-issuer-url %q: must begin with https://, since its keys decide who may make changes", o.Issuer)
	case o.ClientID == "":
		return errors.New("--oidc-client-id: must be set, since the issuer makes tokens for other servers, too")
	}
	return nil
}

// verify verifies a token. Errors: Unauthenticated; Unavailable if the issuer does not answer.
func (o *OIDC) verify(ctx context.Context, token string) (claims, error) {
	verifier, err := o.discovered(ctx)
	if err != nil {
		return claims{}, connect.NewError(connect.CodeUnavailable, errors.New("tokens cannot be verified now: the issuer does not answer"))
	}
	verified, err := verifier.Verify(ctx, token)
	if err != nil {
		return claims{}, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("the token is not valid: %w", err))
	}
	var found map[string]json.RawMessage
	if err := verified.Claims(&found); err != nil {
		return claims{}, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("the token is not valid: %w", err))
	}
	said := claims{expires: verified.Expiry}
	if err := json.Unmarshal(found[o.UserClaim], &said.user); err != nil || said.user == "" {
		return claims{}, connect.NewError(connect.CodeUnauthenticated, fmt.Errorf("the token has no claim %q with the user", o.UserClaim))
	}
	if json.Unmarshal(found[o.GroupsClaim], &said.groups) != nil {
		var one string // some issuers write a single group without a list
		_ = json.Unmarshal(found[o.GroupsClaim], &one)
		said.groups = []string{one}
	}
	return said, nil
}

// discovered returns the verifier with the issuer's keys.
func (o *OIDC) discovered(ctx context.Context) (*oidc.IDTokenVerifier, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.verifier != nil {
		return o.verifier, nil
	}
	if o.client == nil {
		dialer := &net.Dialer{Timeout: issuerTimeout}
		transport := &http.Transport{Proxy: http.ProxyFromEnvironment, DialContext: dialer.DialContext, TLSClientConfig: &tls.Config{RootCAs: o.Roots, MinVersion: tls.VersionTLS12}}
		o.client = &http.Client{Timeout: issuerTimeout, Transport: &limited{transport, rate.NewLimiter(rate.Every(issuerInterval), issuerBurst)}}
	}
	// The keys are read long after this request, with the same client.
	provider, err := oidc.NewProvider(oidc.ClientContext(context.WithoutCancel(ctx), o.client), o.Issuer)
	if err != nil {
		return nil, err
	}
	o.verifier = provider.Verifier(&oidc.Config{ClientID: o.ClientID})
	return o.verifier, nil
}

// limited refuses requests above a rate.
type limited struct {
	http.RoundTripper
	rate *rate.Limiter
}

func (l *limited) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.rate.Allow() {
		return nil, errors.New("too many requests to the issuer; try again in some seconds")
	}
	return l.RoundTripper.RoundTrip(r)
}
