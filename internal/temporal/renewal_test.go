package temporal_test

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/devstack"
	"drydock.dev/drydock/internal/devstack/devstacktest"
	"drydock.dev/drydock/internal/temporal"
)

// TestCredentialsAreRenewedOnPostgreSQL: Temporal requires client certificates and JWTs. A running worker uses those that replace what it does not accept any more.
func TestCredentialsAreRenewedOnPostgreSQL(t *testing.T) {
	if !devstacktest.OnPostgreSQL() {
		t.Skip("make e2e-postgres runs it")
	}
	g := &guarded{t: t, dir: t.TempDir(), admin: newIssuer(t, "admin")}
	oldCA, newCA := newAuthority(t), newAuthority(t)
	oldIssuer, newIssuer := newIssuer(t, "old"), newIssuer(t, "new")
	g.accept(oldCA, oldIssuer)
	stack := g.start()
	stale := g.issue("stale", oldCA, oldIssuer)
	require.NoError(t, answers(t, stale))
	c := dial(t, g.issue("worker", oldCA, oldIssuer))
	w := worker.New(c, "renewal", worker.Options{})
	w.RegisterWorkflowWithOptions(func(workflow.Context) error { return nil }, workflow.RegisterOptions{Name: "Nothing"})
	require.NoError(t, w.Start())
	t.Cleanup(w.Stop)
	works := func(ctx context.Context) error {
		run, err := c.ExecuteWorkflow(ctx, client.StartWorkflowOptions{TaskQueue: "renewal"}, "Nothing")
		if err != nil {
			return err
		}
		return run.Get(ctx, nil)
	}
	require.NoError(t, works(t.Context()))

	g.issue("worker", newCA, newIssuer)
	g.accept(newCA, newIssuer)
	require.NoError(t, stack.Temporal.Process.Kill())
	require.NoError(t, stack.Temporal.Process.Start(t.Context()))

	require.EventuallyWithT(t, func(collect *assert.CollectT) {
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		assert.NoError(collect, works(ctx))
	}, 2*time.Minute, 100*time.Millisecond)
	require.ErrorContains(t, answers(t, stale), "does not answer", "its certificate is refused")
	require.ErrorContains(t, answers(t, g.issue("stale-key", newCA, oldIssuer)), "unauthorized")
}

// answers reports an error if the server refuses a new connection, or a request.
func answers(t *testing.T, connection temporal.Connection) error {
	t.Helper()
	options, err := connection.Options(nil, nil)
	require.NoError(t, err)
	c, err := temporal.Dial(t.Context(), options)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = c.DescribeTaskQueue(t.Context(), "renewal", 0)
	return err
}

// guarded is a Temporal server that requires client certificates and JWTs.
type guarded struct {
	t   *testing.T
	dir string
	// admin issues the JWT of the stack itself.
	admin   issuer
	address string
}

func (g *guarded) file(name string) string { return filepath.Join(g.dir, name) }

func (g *guarded) write(name string, content []byte) {
	require.NoError(g.t, os.WriteFile(g.file(name), content, 0o600))
}

// accept sets what the frontend accepts once it has restarted.
func (g *guarded) accept(ca *devstack.Authority, keys issuer) {
	g.write("clients-ca.crt", ca.PEM())
	jwks, err := json.Marshal(map[string]any{"keys": []any{g.admin.jwk(), keys.jwk()}})
	require.NoError(g.t, err)
	g.write("jwks.json", jwks)
}

// start starts the server. The certificates of its services, and that of the stack, are of another authority than those of clients.
func (g *guarded) start() *devstack.Stack {
	ca := newAuthority(g.t)
	certificate, key, err := ca.Server()
	require.NoError(g.t, err)
	g.write("server-ca.crt", ca.PEM())
	g.write("server.crt", certificate)
	g.write("server.key", key)
	pair, err := tls.X509KeyPair(certificate, key)
	require.NoError(g.t, err)
	roots := x509.NewCertPool()
	require.True(g.t, roots.AppendCertsFromPEM(ca.PEM()))
	stack := devstacktest.Start(g.t, devstack.Options{Temporal: &devstack.TemporalOptions{
		PostgreSQL: true,
		Env: []string{
			"USE_INTERNAL_FRONTEND=true", "TEMPORAL_TLS_REQUIRE_CLIENT_AUTH=true",
			"TEMPORAL_TLS_FRONTEND_CERT=" + g.file("server.crt"), "TEMPORAL_TLS_FRONTEND_KEY=" + g.file("server.key"), "TEMPORAL_TLS_FRONTEND_SERVER_NAME=localhost",
			"TEMPORAL_TLS_SERVER_CERT=" + g.file("server.crt"), "TEMPORAL_TLS_SERVER_KEY=" + g.file("server.key"), "TEMPORAL_TLS_INTERNODE_SERVER_NAME=localhost",
			"TEMPORAL_TLS_SERVER_CA_CERT=" + g.file("server-ca.crt"),
			"TEMPORAL_TLS_CLIENT1_CA_CERT=" + g.file("clients-ca.crt"), "TEMPORAL_TLS_CLIENT2_CA_CERT=" + g.file("server-ca.crt"),
			"TEMPORAL_AUTH_AUTHORIZER=default", "TEMPORAL_AUTH_CLAIM_MAPPER=default", "TEMPORAL_JWT_KEY_SOURCE1=file://" + g.file("jwks.json"),
		},
		Connect: func(options *client.Options) {
			options.ConnectionOptions.TLS = &tls.Config{RootCAs: roots, Certificates: []tls.Certificate{pair}}
			options.Credentials = client.NewAPIKeyStaticCredentials(g.admin.token(g.t, "temporal-system:admin"))
		},
	}})
	g.address = stack.Temporal.Address
	return stack
}

// issue writes the certificate and the configuration file of a client, and returns its connection.
func (g *guarded) issue(name string, ca *devstack.Authority, keys issuer) temporal.Connection {
	certificate, key, err := ca.User(name)
	require.NoError(g.t, err)
	g.write(name+".crt", certificate)
	g.write(name+".key", key)
	g.write(name+".toml", fmt.Appendf(nil, "[profile.default]\napi_key = %q\n[profile.default.tls]\nclient_cert_path = %q\nclient_key_path = %q\nserver_ca_cert_path = %q\n",
		keys.token(g.t, "default:write"), g.file(name+".crt"), g.file(name+".key"), g.file("server-ca.crt")))
	return temporal.Connection{Address: g.address, ConfigFile: g.file(name + ".toml")}
}

func newAuthority(t *testing.T) *devstack.Authority {
	ca, err := devstack.NewAuthority("Temporal")
	require.NoError(t, err)
	return ca
}

// issuer issues JWTs, which are API keys to a Temporal server.
type issuer struct {
	id  string
	key *ecdsa.PrivateKey
}

func newIssuer(t *testing.T, id string) issuer {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return issuer{id, key}
}

var base64URL = base64.RawURLEncoding.EncodeToString

// jwk is its public key, as RFC 7517 describes it.
func (i issuer) jwk() map[string]string {
	x, y := make([]byte, 32), make([]byte, 32)
	i.key.X.FillBytes(x)
	i.key.Y.FillBytes(y)
	return map[string]string{"kty": "EC", "crv": "P-256", "alg": "ES256", "use": "sig", "kid": i.id, "x": base64URL(x), "y": base64URL(y)}
}

// token is a JWT (RFC 7519) with a permission of Temporal's default claim mapper.
func (i issuer) token(t *testing.T, permission string) string {
	header, err := json.Marshal(map[string]string{"alg": "ES256", "typ": "JWT", "kid": i.id})
	require.NoError(t, err)
	claims, err := json.Marshal(map[string]any{"sub": i.id, "permissions": []string{permission}})
	require.NoError(t, err)
	text := base64URL(header) + "." + base64URL(claims)
	digest := sha256.Sum256([]byte(text))
	r, s, err := ecdsa.Sign(rand.Reader, i.key, digest[:])
	require.NoError(t, err)
	signature := make([]byte, 64)
	r.FillBytes(signature[:32])
	s.FillBytes(signature[32:])
	return text + "." + base64URL(signature)
}
