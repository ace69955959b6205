package codecserver_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"

	"drydock.dev/drydock/internal/codecserver"
	"drydock.dev/drydock/internal/temporal"
)

const (
	token  = "correct-horse-battery"
	page   = "http://localhost:8233"
	secret = "hunter2"
)

func keys(t *testing.T, id string) temporal.Keys {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	key := base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))
	require.NoError(t, os.WriteFile(path, []byte("keys:\n- id: "+id+"\n  key: "+key+"\n"), 0o600))
	read, err := temporal.ReadKeyFile(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return read
}

func serve(t *testing.T, options codecserver.Options) string {
	web := httptest.NewServer(codecserver.Handler(options))
	t.Cleanup(web.Close)
	return web.URL
}

// The SDK's client of codec servers is that of the temporal CLI.
func TestTheSDKReadsAndWritesThroughTheServer(t *testing.T) {
	june := keys(t, "june")
	address := serve(t, codecserver.Options{Keys: june, Token: token})
	remote := func(token string) converter.DataConverter {
		return converter.NewRemoteDataConverter(converter.GetDefaultDataConverter(), converter.RemoteDataConverterOptions{
			Endpoint: address + "/fleet", ModifyRequest: func(r *http.Request) error { r.Header.Set("Authorization", "Bearer "+token); return nil },
		})
	}
	long := strings.Repeat(secret, 100_000)
	local := temporal.EncryptedDataConverter(june)
	encrypted, err := local.ToPayloads(secret, long)
	require.NoError(t, err)
	var first, second string
	require.NoError(t, remote(token).FromPayloads(encrypted, &first, &second))
	require.Equal(t, []string{secret, long}, []string{first, second})

	sent, err := remote(token).ToPayload(secret)
	require.NoError(t, err)
	require.NotContains(t, string(sent.Data), secret)
	require.NoError(t, local.FromPayload(sent, &first))
	require.Equal(t, secret, first)

	require.ErrorContains(t, remote("guessed-horse-battery").FromPayloads(encrypted, &first), "Unauthorized: the token is missing or wrong")
	other, err := temporal.EncryptedDataConverter(keys(t, "july")).ToPayload(secret)
	require.NoError(t, err)
	require.ErrorContains(t, remote(token).FromPayload(other, &first), `the payload is encrypted with key "july"`)
	require.Error(t, remote(token).FromPayload(&commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte("binary/encrypted")}, Data: []byte("x")}, &first))
}

func TestOnlyNamedPagesUseTheServer(t *testing.T) {
	address := serve(t, codecserver.Options{Keys: keys(t, "june"), Token: token, Origins: []string{page}, Hosts: []string{"codec.example"}})
	for name, test := range map[string]struct {
		method, origin, host, authorization string
		want                                int
		allowed                             string
	}{
		"the page asks":                       {method: http.MethodOptions, origin: page, want: http.StatusNoContent, allowed: page},
		"the page with the token":             {method: http.MethodPost, origin: page, authorization: "Bearer " + token, want: http.StatusOK, allowed: page},
		"the page without the token":          {method: http.MethodPost, origin: page, want: http.StatusUnauthorized, allowed: page},
		"a program with the token":            {method: http.MethodPost, authorization: "Bearer " + token, want: http.StatusOK},
		"another page asks":                   {method: http.MethodOptions, origin: "http://evil.example", want: http.StatusForbidden},
		"another page with the token":         {method: http.MethodPost, origin: "http://evil.example", authorization: "Bearer " + token, want: http.StatusForbidden},
		"a page without a name":               {method: http.MethodPost, origin: "null", authorization: "Bearer " + token, want: http.StatusForbidden},
		"another port of the page":            {method: http.MethodPost, origin: "http://localhost:8234", authorization: "Bearer " + token, want: http.StatusForbidden},
		"a name that resolves to this server": {method: http.MethodPost, host: "evil.example", authorization: "Bearer " + token, want: http.StatusForbidden},
		"a name of this server":               {method: http.MethodPost, host: "codec.example:443", authorization: "Bearer " + token, want: http.StatusOK},
		"a GET":                               {method: http.MethodGet, authorization: "Bearer " + token, want: http.StatusNotFound},
	} {
		t.Run(name, func(t *testing.T) {
			request, err := http.NewRequestWithContext(t.Context(), test.method, address+"/decode", strings.NewReader(`{"payloads":[]}`))
			require.NoError(t, err)
			request.Header.Set("Authorization", test.authorization)
			if test.origin != "" {
				request.Header.Set("Origin", test.origin)
			}
			request.Host = test.host
			answer, err := http.DefaultClient.Do(request)
			require.NoError(t, err)
			require.NoError(t, answer.Body.Close())
			require.Equal(t, test.want, answer.StatusCode)
			require.Equal(t, test.allowed, answer.Header.Get("Access-Control-Allow-Origin"))
		})
	}
}

func TestATooLongRequestIsRefused(t *testing.T) {
	address := serve(t, codecserver.Options{Keys: keys(t, "june")})
	answer, err := http.Post(address+"/decode", "application/json", strings.NewReader(`{"payloads":[{"data":"`+strings.Repeat("A", 17<<20)+`"}]}`))
	require.NoError(t, err)
	require.NoError(t, answer.Body.Close())
	require.Equal(t, http.StatusBadRequest, answer.StatusCode)
}
