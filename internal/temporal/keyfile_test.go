package temporal_test

import (
	"bytes"
	"compress/zlib"
	"encoding/base64"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"
	"go.temporal.io/sdk/converter"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"
	"go.temporal.io/sdk/workflow"

	"drydock.dev/drydock/internal/temporal"
)

// keyLine is an entry of a key file; keys with different letters differ.
func keyLine(id, letter string) string {
	return fmt.Sprintf("- id: %s\n  key: %s\n", id, base64.StdEncoding.EncodeToString(bytes.Repeat([]byte(letter), 32)))
}

// writeKeys writes a key file at once, as a program that reads it meanwhile needs it.
func writeKeys(t *testing.T, path string, lines ...string) {
	require.NoError(t, os.WriteFile(path+".new", []byte("keys:\n"+strings.Join(lines, "")), 0o600))
	require.NoError(t, os.Rename(path+".new", path))
}

func keyFile(t *testing.T, lines ...string) string {
	path := filepath.Join(t.TempDir(), "keys.yaml")
	writeKeys(t, path, lines...)
	return path
}

func readKeys(t *testing.T, path string) *temporal.KeyFile {
	keys, err := temporal.ReadKeyFile(path, slog.New(slog.DiscardHandler))
	require.NoError(t, err)
	return keys
}

func TestAnEncryptedPayloadHasNothingReadableButTheIDOfItsKey(t *testing.T) {
	data := temporal.EncryptedDataConverter(readKeys(t, keyFile(t, keyLine("june", "a"))))
	long := strings.Repeat("hunter2 ", 100_000)
	payloads, err := data.ToPayloads("hunter2", long)
	require.NoError(t, err)
	for _, payload := range payloads.Payloads {
		require.Equal(t, map[string][]byte{"encoding": []byte("binary/encrypted"), "encryption-key-id": []byte("june")}, payload.Metadata)
		require.NotContains(t, string(payload.Data), "hunter2")
	}
	require.Less(t, len(payloads.Payloads[1].Data), len(long)/10, "it is compressed before it is encrypted")
	again, err := data.ToPayload("hunter2")
	require.NoError(t, err)
	require.NotEqual(t, payloads.Payloads[0].Data, again.Data, "equal payloads look different")

	var short, read string
	require.NoError(t, data.FromPayloads(payloads, &short, &read))
	require.Equal(t, []string{"hunter2", long}, []string{short, read})
}

func TestPayloadsFromBeforeEncryptionStayReadable(t *testing.T) {
	plain, err := temporal.DataConverter().ToPayload("started before")
	require.NoError(t, err)
	var read string
	require.NoError(t, temporal.EncryptedDataConverter(readKeys(t, keyFile(t, keyLine("june", "a")))).FromPayload(plain, &read))
	require.Equal(t, "started before", read)
}

func TestAMissingKeyIsNamed(t *testing.T) {
	encrypted, err := temporal.EncryptedDataConverter(readKeys(t, keyFile(t, keyLine("june", "a")))).ToPayload("x")
	require.NoError(t, err)
	other, reused := keyFile(t, keyLine("july", "b")), keyFile(t, keyLine("june", "b"))
	for _, test := range []struct {
		keys temporal.Keys
		want string
	}{
		{nil, `the payload is encrypted with key "june", and there are no keys: set --encryption-key-file to the file with this key`},
		{readKeys(t, other), `the payload is encrypted with key "june", which the key file ` + other + ` does not have: add it there, behind the first one`},
		{readKeys(t, reused), `the payload is encrypted with key "june", but not with the key of this id in the key file ` + reused + `, or it was changed since: put back the key that encrypted it`},
	} {
		err := temporal.EncryptedDataConverter(test.keys).FromPayload(encrypted, new(string))
		require.EqualError(t, err, test.want)
		require.True(t, isKeyError(err))
	}
}

func isKeyError(err error) bool {
	_, ok := errors.AsType[*temporal.KeyError](err)
	return ok
}

func TestKeysAreRotatedWhileAProgramRuns(t *testing.T) {
	path := keyFile(t, keyLine("june", "a"))
	var log bytes.Buffer
	keys, err := temporal.ReadKeyFile(path, slog.New(slog.NewTextHandler(&log, nil)))
	require.NoError(t, err)
	_, byJune := keys.Encrypt([]byte("x"))
	_, byJuly := readKeys(t, keyFile(t, keyLine("july", "b"))).Encrypt([]byte("y"))

	writeKeys(t, path, keyLine("july", "b"), keyLine("june", "a"))
	require.Eventually(t, func() bool { id, _ := keys.Encrypt(nil); return id == "july" }, waitLimit, pollInterval, "the first key of the changed file encrypts")
	for id, encrypted := range map[string][]byte{"june": byJune, "july": byJuly} {
		_, err := keys.Decrypt(id, encrypted)
		require.NoError(t, err, "all keys decrypt")
	}

	require.NoError(t, os.WriteFile(path, []byte("keys: ["), 0o600))
	require.Eventually(t, func() bool {
		_, err := keys.Decrypt("august", byJuly)
		return isKeyError(err) && strings.Contains(log.String(), "cannot be read")
	}, waitLimit, pollInterval)
	id, _ := keys.Encrypt(nil)
	require.Equal(t, "july", id, "a broken file changes nothing")
}

func TestABadKeyFileIsRefusedWithoutShowingKeys(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"no YAML":       {"c2VjcmV0", "the file is not YAML of the form keys: [{id: ..., key: ...}]"},
		"unknown field": {"keys:\n- name: c2VjcmV0\n", "the file is not YAML of the form"},
		"no keys":       {"keys: []\n", "keys: Required value: the file has no key"},
		"empty":         {"", "keys: Required value"},
		"bad id":        {"keys:\n" + keyLine("'a b'", "c"), `keys[0].id: Invalid value: "a b": must have 1 to 63 letters`},
		"no id":         {"keys:\n" + keyLine("''", "c"), `keys[0].id: Invalid value: ""`},
		"same id":       {"keys:\n" + keyLine("a", "c") + keyLine("a", "d"), `keys[1].id: Duplicate value: "a"`},
		"short key":     {"keys:\n- id: a\n  key: c2VjcmV0\n", "keys[0].key: Invalid value: must be 32 bytes in Base64, as from `openssl rand -base64 32`"},
		"no Base64":     {"keys:\n- id: a\n  key: '!c2VjcmV0'\n", "keys[0].key: Invalid value: must be 32 bytes in Base64"},
	} {
		t.Run(name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "keys.yaml")
			require.NoError(t, os.WriteFile(path, []byte(test.text), 0o600))
			_, err := temporal.Connection{EncryptionKeyFile: path}.Options(nil, nil)
			require.ErrorContains(t, err, "--encryption-key-file: "+path+": "+test.want)
			require.NotContains(t, err.Error(), "c2VjcmV0")
		})
	}
	_, err := temporal.Connection{EncryptionKeyFile: "/nowhere"}.Options(nil, nil)
	require.EqualError(t, err, "--encryption-key-file: open /nowhere: no such file or directory")
}

func TestACodecThatWouldBeIgnoredIsRefused(t *testing.T) {
	profile := filepath.Join(t.TempDir(), "temporal.toml")
	require.NoError(t, os.WriteFile(profile, []byte("[profile.default]\naddress = \"127.0.0.1:1\"\n[profile.default.codec]\nendpoint = \"http://ann:hunter2@127.0.0.1:9\"\n"), 0o600))
	const refused = "temporal configuration: the profile has codec.endpoint (or TEMPORAL_CODEC_ENDPOINT is set), but Drydock uses no remote codec: set --encryption-key-file, or remove the endpoint"
	_, err := temporal.Connection{ConfigFile: profile}.Options(nil, nil)
	require.EqualError(t, err, refused)
	_, err = temporal.Connection{ConfigFile: profile, EncryptionKeyFile: keyFile(t, keyLine("june", "a"))}.Options(nil, nil)
	require.NoError(t, err, "the temporal CLI uses the codec server of Drydock")

	t.Setenv("TEMPORAL_CONFIG_FILE", filepath.Join(t.TempDir(), "none.toml"))
	t.Setenv("TEMPORAL_CODEC_ENDPOINT", "http://127.0.0.1:9")
	_, err = temporal.Connection{}.Options(nil, nil)
	require.EqualError(t, err, refused)
}

// A few kilobytes that somebody else wrote must not fill the memory of a worker.
func TestADecompressedPayloadHasALimit(t *testing.T) {
	var compressed bytes.Buffer
	writer := zlib.NewWriter(&compressed)
	zeros := make([]byte, 1<<20)
	for range 65 {
		_, err := writer.Write(zeros)
		require.NoError(t, err)
	}
	require.NoError(t, writer.Close())
	err := temporal.DataConverter().FromPayload(&commonpb.Payload{
		Metadata: map[string][]byte{converter.MetadataEncoding: []byte("binary/zlib")}, Data: compressed.Bytes(),
	}, new(string))
	require.EqualError(t, err, "decompress a payload: it has more than 64 MiB")
}

// An error would fail the workflow for good, or lose the signal.
func TestAMissingKeyFailsTheWorkflowTask(t *testing.T) {
	encrypted := temporal.EncryptedDataConverter(readKeys(t, keyFile(t, keyLine("june", "a"))))
	payload, err := encrypted.ToPayload("x")
	require.NoError(t, err)
	environment := (&testsuite.WorkflowTestSuite{}).NewTestWorkflowEnvironment()
	environment.SetDataConverter(temporal.DataConverter())
	environment.RegisterDelayedCallback(func() { environment.SignalWorkflow("secret", converter.NewRawValue(payload)) }, 0)
	environment.ExecuteWorkflow(func(ctx workflow.Context) error {
		workflow.GetSignalChannel(ctx, "secret").Receive(ctx, new(string))
		return nil
	})
	panicked, ok := errors.AsType[*sdktemporal.PanicError](environment.GetWorkflowError())
	require.True(t, ok, "%v", environment.GetWorkflowError())
	require.Contains(t, panicked.Error(), `the payload is encrypted with key "june"`)
}
