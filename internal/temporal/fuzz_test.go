package temporal_test

import (
	"bytes"
	"encoding/base64"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
	commonpb "go.temporal.io/api/common/v1"

	"drydock.dev/drydock/internal/temporal"
)

// FuzzPayload decodes payloads that anybody with access to Temporal may have written.
func FuzzPayload(f *testing.F) {
	path := filepath.Join(f.TempDir(), "keys.yaml")
	require.NoError(f, os.WriteFile(path, []byte("keys:\n"+keyLine("june", "a")), 0o600))
	keys, err := temporal.ReadKeyFile(path, slog.New(slog.DiscardHandler))
	require.NoError(f, err)
	data := temporal.EncryptedDataConverter(keys)
	_, encrypted := keys.Encrypt([]byte("\n\x0a\x08encoding\x12\x0abinary/zlib\x12\x01x"))
	f.Add("binary/encrypted", "june", encrypted)
	f.Add("binary/encrypted", "july", []byte("x"))
	f.Add("binary/encrypted", "", []byte{})
	f.Add("binary/zlib", "", []byte("x\x9c\x03\x00\x00\x00\x00\x01"))
	f.Add("json/plain", "", []byte(`{"actor":1}`))
	f.Fuzz(func(t *testing.T, encoding, keyID string, content []byte) {
		payload := &commonpb.Payload{Metadata: map[string][]byte{"encoding": []byte(encoding), "encryption-key-id": []byte(keyID)}, Data: content}
		var into any
		if err := data.FromPayload(payload, &into); err != nil {
			require.NotEmpty(t, err.Error())
		}
		memo := &commonpb.Memo{Fields: map[string]*commonpb.Payload{temporal.MemoObject: payload, temporal.MemoStarted: payload}}
		temporal.StartedBy(memo)
		_, _ = temporal.ObjectIn(memo)
	})
}

// FuzzKeyFile reads key files: an error, or keys that decrypt what they encrypted.
func FuzzKeyFile(f *testing.F) {
	f.Add([]byte("keys:\n" + keyLine("june", "a") + keyLine("july", "b")))
	f.Add([]byte("keys: [{id: a, key: " + base64.StdEncoding.EncodeToString(bytes.Repeat([]byte("k"), 31)) + "}]"))
	f.Add([]byte("keys: [null]"))
	f.Fuzz(func(t *testing.T, text []byte) {
		path := filepath.Join(t.TempDir(), "keys.yaml")
		require.NoError(t, os.WriteFile(path, text, 0o600))
		keys, err := temporal.ReadKeyFile(path, slog.New(slog.DiscardHandler))
		if err != nil {
			return
		}
		id, encrypted := keys.Encrypt([]byte("x"))
		plain, err := keys.Decrypt(id, encrypted)
		require.NoError(t, err)
		require.Equal(t, "x", string(plain))
	})
}
