package statuspage

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"connectrpc.com/connect"
	"github.com/coreos/go-oidc/v3/oidc"
	"github.com/coreos/go-oidc/v3/oidc/oidctest"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"google.golang.org/protobuf/types/known/timestamppb"

	"drydock.dev/drydock/internal/portal"
	statusv1 "drydock.dev/drydock/internal/statuspage/proto/drydock/v1"
	"drydock.dev/drydock/internal/statuspage/proto/drydock/v1/statusv1connect"
)

// issuer is an OpenID Connect issuer.
type issuer struct {
	*httptest.Server
	key      *ecdsa.PrivateKey
	requests atomic.Int32
	down     atomic.Bool
}

func newIssuer(t *testing.T) *issuer {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	is := &issuer{key: key}
	serving := &oidctest.Server{PublicKeys: []oidctest.PublicKey{{PublicKey: key.Public(), KeyID: "first", Algorithm: oidc.ES256}}, Algorithms: []string{oidc.ES256}}
	is.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		is.requests.Add(1)
		if is.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		serving.ServeHTTP(w, r)
	}))
	t.Cleanup(is.Close)
	serving.SetIssuer(is.URL)
	return is
}

// accepts returns the access of a server that accepts its tokens.
func (is *issuer) accepts(view ...string) Access {
	return Access{
		OIDC: &OIDC{Issuer: is.URL, ClientID: "drydock", UserClaim: "email", GroupsClaim: "groups"}, View: view, Operate: []string{"oncall"},
	}
}

// token returns a token of ann in these groups. change modifies its claims.
func (is *issuer) token(t *testing.T, groups []string, change func(map[string]any)) string {
	t.Helper()
	said := map[string]any{"iss": is.URL, "aud": "drydock", "sub": "1", "email": "ann@example.com", "groups": groups, "exp": time.Now().Add(time.Hour).Unix()}
	if change != nil {
		change(said)
	}
	text, err := json.Marshal(said)
	require.NoError(t, err)
	return oidctest.SignIDToken(is.key, "first", oidc.ES256, string(text))
}

// portalRecorder is a Temporal server that accepts every update, and keeps the last one.
type portalRecorder struct {
	client.Client
	last client.UpdateWorkflowOptions
}

func (*portalRecorder) NewWithStartWorkflowOperation(client.StartWorkflowOptions, any, ...any) client.WithStartWorkflowOperation {
	return nil
}

func (p *portalRecorder) UpdateWithStartWorkflow(_ context.Context, in client.UpdateWithStartWorkflowOptions) (client.WorkflowUpdateHandle, error) {
	p.last = in.UpdateOptions
	return acceptedUpdate{}, nil
}

// announcing calls the API of a server with a token.
func announcing(t *testing.T, access Access, token, actor string) (*portalRecorder, error) {
	t.Helper()
	s, web := shown(t, fleet())
	recorder := &portalRecorder{}
	s.options.Temporal, s.options.Access = recorder, access
	web.Config.Handler = s.Handler()
	create := connect.NewRequest(&statusv1.CreateMaintenanceRequest{
		Name: "new-disks", Title: "New disks", Start: timestamppb.New(noon), End: timestamppb.New(noon.Add(time.Hour)), Components: []string{"api"}, Actor: actor,
	})
	if token != "" {
		create.Header().Set("Authorization", "Bearer "+token)
	}
	_, err := statusv1connect.NewStatusServiceClient(web.Client(), web.URL).CreateMaintenance(t.Context(), create)
	return recorder, err
}

func TestAnOperatorOfTheIssuerAnnouncesUnderTheirOwnName(t *testing.T) {
	is := newIssuer(t)
	oncall := is.token(t, []string{"dev", "oncall"}, nil)
	recorder, err := announcing(t, is.accepts(), oncall, "")
	require.NoError(t, err)
	require.Equal(t, "ann@example.com", recorder.last.Args[0].(portal.ApplyRequest).Actor)
	_, err = announcing(t, is.accepts(), oncall, "kim")
	require.Equal(t, connect.CodeInvalidArgument, connect.CodeOf(err))
	require.ErrorContains(t, err, "actor: must be empty or ann@example.com")
}

func TestTokensWithoutTheRightAreRefused(t *testing.T) {
	is, other := newIssuer(t), newIssuer(t)
	oncall := []string{"oncall"}
	for name, tt := range map[string]struct {
		token string
		code  connect.Code
		says  string
	}{
		"none":                 {"", connect.CodeUnauthenticated, "the token is missing"},
		"no JWT":               {"secret", connect.CodeUnauthenticated, "the token is not valid"},
		"another group":        {is.token(t, []string{"dev"}, nil), connect.CodePermissionDenied, "ann@example.com is in none of the groups"},
		"no groups":            {is.token(t, nil, nil), connect.CodePermissionDenied, "ann@example.com is in none of the groups"},
		"another audience":     {is.token(t, oncall, func(c map[string]any) { c["aud"] = "billing" }), connect.CodeUnauthenticated, "audience"},
		"expired":              {is.token(t, oncall, func(c map[string]any) { c["exp"] = time.Now().Add(-time.Hour).Unix() }), connect.CodeUnauthenticated, "expired"},
		"another issuer":       {other.token(t, oncall, nil), connect.CodeUnauthenticated, "the token is not valid"},
		"signed by another":    {other.token(t, oncall, func(c map[string]any) { c["iss"] = is.URL }), connect.CodeUnauthenticated, "the token is not valid"},
		"without a user":       {is.token(t, oncall, func(c map[string]any) { delete(c, "email") }), connect.CodeUnauthenticated, `no claim "email"`},
		"groups of other type": {is.token(t, oncall, func(c map[string]any) { c["groups"] = 7 }), connect.CodePermissionDenied, "in none of the groups"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := announcing(t, is.accepts(), tt.token, "")
			require.Equal(t, tt.code, connect.CodeOf(err), "%v", err)
			require.ErrorContains(t, err, tt.says)
		})
	}
}

func TestReadersNeedATokenIfGroupsOfReadersAreSet(t *testing.T) {
	is := newIssuer(t)
	s, web := shown(t, fleet())
	s.options.Access = is.accepts("staff")
	web.Config.Handler = s.Handler()
	status := func(path, token string) int {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+path, nil)
		require.NoError(t, err)
		if token != "" {
			request.Header.Set("Authorization", "Bearer "+token)
		}
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		require.NoError(t, answer.Body.Close())
		return answer.StatusCode
	}
	for _, path := range []string{"/", "/events?page=/", "/mcp", "/drydock.v1.StatusService/ListUpgrades?encoding=json&message={}", "/nodes/c/n", "/no-such-page"} {
		require.Equal(t, http.StatusUnauthorized, status(path, ""), path)
		require.Equal(t, http.StatusForbidden, status(path, is.token(t, []string{"guests"}, nil)), path)
	}
	for _, group := range []string{"staff", "oncall"} {
		require.Equal(t, http.StatusOK, status("/", is.token(t, []string{group}, nil)), group)
	}
	require.Equal(t, http.StatusOK, status("/healthz", ""))
	_, err := announcing(t, is.accepts("staff"), is.token(t, []string{"staff"}, nil), "")
	require.Equal(t, connect.CodePermissionDenied, connect.CodeOf(err), "readers change nothing")
}

func TestAStreamEndsWithItsToken(t *testing.T) {
	is := newIssuer(t)
	s, web := shown(t, fleet())
	s.options.Access = is.accepts("staff")
	web.Config.Handler = s.Handler()
	streams := func(lifetime time.Duration) bool {
		request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, web.URL+"/events?page=/", nil)
		require.NoError(t, err)
		request.Header.Set("Authorization", "Bearer "+is.token(t, []string{"staff"}, func(c map[string]any) { c["exp"] = time.Now().Add(lifetime).Unix() }))
		answer, err := http.DefaultClient.Do(request)
		require.NoError(t, err)
		defer answer.Body.Close()
		_, err = io.Copy(io.Discard, answer.Body) // returns when the server ends the stream
		require.NoError(t, err)
		return answer.StatusCode == http.StatusOK
	}
	lifetime := 2 * time.Second
	for !streams(lifetime) { // on a busy machine the token has expired before it is read
		lifetime *= 2
		require.Less(t, lifetime, patience)
	}
}

func TestTheIssuerIsAskedSeldomAndMayBeAway(t *testing.T) {
	is := newIssuer(t)
	access := is.accepts()
	is.down.Store(true)
	_, err := announcing(t, access, is.token(t, []string{"oncall"}, nil), "")
	require.Equal(t, connect.CodeUnavailable, connect.CodeOf(err))
	is.down.Store(false)
	_, err = announcing(t, access, is.token(t, []string{"oncall"}, nil), "")
	require.NoError(t, err, "the issuer is back")
	for range 50 {
		forged := oidctest.SignIDToken(is.key, strings.Repeat("x", 8), oidc.ES256, `{"iss":"`+is.URL+`","aud":"drydock"}`)
		_, err := announcing(t, access, forged, "")
		require.Equal(t, connect.CodeUnauthenticated, connect.CodeOf(err))
	}
	require.Less(t, is.requests.Load(), int32(30), "forged key IDs do not cause a request each")
	_, err = announcing(t, access, is.token(t, []string{"oncall"}, nil), "")
	require.NoError(t, err, "known keys need no request")
}

func TestSettingsOfTheIssuerAreChecked(t *testing.T) {
	for says, o := range map[string]*OIDC{
		"must be an address":            {Issuer: "login", ClientID: "drydock"},
		"must begin with https://":      {Issuer: "http://login.example.com", ClientID: "drydock"},
		"--oidc-client-id: must be set": {Issuer: "https://login.example.com"},
	} {
		require.ErrorContains(t, o.Check(), says)
	}
	require.NoError(t, (&OIDC{Issuer: "https://login.example.com/realms/a", ClientID: "drydock"}).Check())
}
