package main

import (
	"bytes"
	"encoding/base64"
	"io"
	"net/http"
	"regexp"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"google.golang.org/protobuf/encoding/protojson"

	"drydock.dev/drydock/internal/temporal"
)

// encryptionKeys writes a key file with one key.
func encryptionKeys(t *testing.T, id string) string {
	return file(t, "keys.yaml", "keys:\n- id: "+id+"\n  key: "+base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 32))+"\n")
}

func TestTheCodecServerDecryptsForBearersOfItsToken(t *testing.T) {
	isolate(t)
	path := encryptionKeys(t, "june")
	serving := begin(t, "codec-server", "--listen", "127.0.0.1:0", "--encryption-key-file", path, "--token-file", file(t, "token", "correct-horse-battery\n"))
	serving.prints(t, "/\n")
	address := regexp.MustCompile(`http://\S+`).FindString(serving.stdout.String())

	keys, err := temporal.Connection{EncryptionKeyFile: path}.Keys(nil)
	require.NoError(t, err)
	payload, err := temporal.EncryptedDataConverter(keys).ToPayload("hunter2")
	require.NoError(t, err)
	body, err := protojson.Marshal(&commonpb.Payloads{Payloads: []*commonpb.Payload{payload}})
	require.NoError(t, err)
	decode := func(token string) func(*http.Request) {
		return func(r *http.Request) {
			r.Method, r.Body = http.MethodPost, io.NopCloser(bytes.NewReader(body))
			r.Header.Set("Authorization", "Bearer "+token)
		}
	}
	status, answer := get(t, address+"decode", decode("correct-horse-battery"))
	require.Equal(t, http.StatusOK, status, answer)
	require.Contains(t, answer, base64.StdEncoding.EncodeToString([]byte(`"hunter2"`)))
	status, answer = get(t, address+"decode", decode("guessed-horse-battery"))
	require.Equal(t, http.StatusUnauthorized, status)
	require.NotContains(t, answer, "hunter2")
}

func TestInvalidCodecServerOptionsAreRefused(t *testing.T) {
	isolate(t)
	keys := encryptionKeys(t, "june")
	for name, test := range map[string]struct {
		args []string
		says string
	}{
		"no keys":                      {nil, "no keys: set --encryption-key-file"},
		"a missing key file":           {[]string{"--encryption-key-file", "/nowhere"}, "--encryption-key-file: open /nowhere: no such file or directory"},
		"other machines, no token":     {[]string{"--encryption-key-file", keys, "--listen", ":0"}, "--listen :0 is reached by other machines, which could decrypt everything: set --token-file"},
		"other machines, plain text":   {[]string{"--encryption-key-file", keys, "--listen", ":0", "--token-file", file(t, "token", "correct-horse-battery")}, "the token would travel in plain text"},
		"an origin with a path":        {[]string{"--encryption-key-file", keys, "--origin", "http://localhost:8233/"}, `--origin "http://localhost:8233/": must be the scheme, the host and the port`},
		"any origin":                   {[]string{"--encryption-key-file", keys, "--origin", "*"}, `--origin "*": must be`},
		"a certificate without a key":  {[]string{"--encryption-key-file", keys, "--tls-cert", "tls.crt"}, "--tls-cert and --tls-key: set both or none"},
		"a token that can be guessed":  {[]string{"--encryption-key-file", keys, "--token-file", file(t, "short", "pw")}, "the token has 2 characters; it must have 16 or more"},
		"an address that is not local": {[]string{"--encryption-key-file", keys, "--listen", "192.0.2.1:0"}, "is reached by other machines"},
	} {
		t.Run(name, func(t *testing.T) {
			got := drydock(t, append([]string{"codec-server"}, test.args...)...)
			require.Equal(t, exitUsage, got.status)
			require.Contains(t, got.stderr, test.says)
		})
	}
}

func TestAContextHasTheKeyFile(t *testing.T) {
	withProfiles(t, profiles+"[profile.prod.codec]\nendpoint = \"http://127.0.0.1:8091\"\n")
	got := drydock(t, "upgrade", "status", "june", "--profile", "prod")
	require.Equal(t, exitUsage, got.status)
	require.Contains(t, got.stderr, "set --encryption-key-file, or remove the endpoint", "the profile's codec would be ignored")

	keys := encryptionKeys(t, "june")
	succeeds(t, "config", "set-context", "prod", "--encryption-key-file", keys)
	require.Contains(t, succeeds(t, "config", "view"), "encryptionKeyFile: "+keys)
	got = drydock(t, "upgrade", "status", "june", "--profile", "prod")
	require.Contains(t, got.stderr, "temporal at 127.0.0.1:3 does not answer", "the key file is read, and the codec is that of the temporal CLI")
	t.Setenv("DRYDOCK_ENCRYPTION_KEY_FILE", "/nowhere")
	require.Contains(t, drydock(t, "upgrade", "status", "june", "--profile", "prod").stderr, "--encryption-key-file: open /nowhere", "the variable overrides the context")
	succeeds(t, "config", "set-context", "prod", "--encryption-key-file", "")
	require.NotContains(t, succeeds(t, "config", "view"), "encryptionKeyFile")
}
